"""Declarations: the functions in the environment of device selectors, one overload per line.

`name overload-id (parameters) -> result`; a member function has its receiver before the brackets.
A, B, K, T and V are type parameters; `authz.` is short for `kubernetes.authorization.`. Order
matters: the first overload that fits gives the result its type, and at runtime the first that
accepts the values is called.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kscheduler.cel import types
from kscheduler.cel.types import Type


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function; `parameters` begin with the receiver of a member function."""

    id: str
    function: str
    member: bool
    parameters: tuple[Type, ...]
    result: Type
    type_params: tuple[str, ...]


_NAMED = {
    "bool": types.BOOL,
    "int": types.INT,
    "uint": types.UINT,
    "double": types.DOUBLE,
    "string": types.STRING,
    "bytes": types.BYTES,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "dyn": types.DYN,
    "net.IP": types.IP,
    "net.CIDR": types.CIDR,
}
_PARAMETRISED = {"list": types.list_of, "optional_type": types.optional_of, "type": types.type_of}


def read_type(text: str) -> Type:
    """The type of a text in the table."""
    name, bracket, inner = text.partition("(")
    if not bracket:
        if len(name) == 1:
            return types.param(name)
        full_name = name.replace("authz.", "kubernetes.authorization.", 1)
        return _NAMED.get(name) or Type(types.Kind.STRUCT, full_name)
    arguments = [read_type(argument) for argument in _split(inner[:-1])]
    if name == "map":
        return types.map_of(*arguments)
    return _PARAMETRISED[name](arguments[0])


def _split(text: str) -> list[str]:
    """The parts between commas that are in no brackets."""
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    parts.append(text[start:])
    return [part.strip() for part in parts if part.strip()]


def _free(t: Type) -> set[str]:
    if t.kind is types.Kind.TYPE_PARAM:
        return {t.name}
    return set().union(*map(_free, t.parameters))


def _read(line: str) -> Overload:
    function, overload_id, signature = line.split(" ", 2)
    overload_id = overload_id.format(duration=types.DURATION.name, timestamp=types.TIMESTAMP.name)
    parameters_text, result_text = signature.rsplit(" -> ", 1)
    receiver, dot, rest = parameters_text.partition(".(")
    member = bool(dot)
    arguments = _split(rest[:-1] if member else parameters_text[1:-1])
    parameters = tuple(read_type(text) for text in ([receiver] if member else []) + arguments)
    result = read_type(result_text)
    free = sorted(set().union(_free(result), *map(_free, parameters)))
    return Overload(overload_id, function, member, parameters, result, tuple(free))


_TABLE = """
!_ logical_not (bool) -> bool
-_ negate_double (double) -> double
-_ negate_int64 (int) -> int
@in in_list (A, list(A)) -> bool
@in in_map (A, map(A, B)) -> bool
@not_strictly_false not_strictly_false (bool) -> bool
@sortByAssociatedKeys list_int_sortByAssociatedKeys list(T).(list(int)) -> list(T)
@sortByAssociatedKeys list_uint_sortByAssociatedKeys list(T).(list(uint)) -> list(T)
@sortByAssociatedKeys list_double_sortByAssociatedKeys list(T).(list(double)) -> list(T)
@sortByAssociatedKeys list_bool_sortByAssociatedKeys list(T).(list(bool)) -> list(T)
@sortByAssociatedKeys list_{duration}_sortByAssociatedKeys list(T).(list(duration)) -> list(T)
@sortByAssociatedKeys list_{timestamp}_sortByAssociatedKeys list(T).(list(timestamp)) -> list(T)
@sortByAssociatedKeys list_string_sortByAssociatedKeys list(T).(list(string)) -> list(T)
@sortByAssociatedKeys list_bytes_sortByAssociatedKeys list(T).(list(bytes)) -> list(T)
_!=_ not_equals (A, A) -> bool
_%_ modulo_int64 (int, int) -> int
_%_ modulo_uint64 (uint, uint) -> uint
_&&_ logical_and (bool, bool) -> bool
_*_ multiply_double (double, double) -> double
_*_ multiply_int64 (int, int) -> int
_*_ multiply_uint64 (uint, uint) -> uint
_+_ add_bytes (bytes, bytes) -> bytes
_+_ add_double (double, double) -> double
_+_ add_duration_duration (duration, duration) -> duration
_+_ add_duration_timestamp (duration, timestamp) -> timestamp
_+_ add_timestamp_duration (timestamp, duration) -> timestamp
_+_ add_int64 (int, int) -> int
_+_ add_list (list(A), list(A)) -> list(A)
_+_ add_string (string, string) -> string
_+_ add_uint64 (uint, uint) -> uint
_-_ subtract_double (double, double) -> double
_-_ subtract_duration_duration (duration, duration) -> duration
_-_ subtract_int64 (int, int) -> int
_-_ subtract_timestamp_duration (timestamp, duration) -> timestamp
_-_ subtract_timestamp_timestamp (timestamp, timestamp) -> duration
_-_ subtract_uint64 (uint, uint) -> uint
_/_ divide_double (double, double) -> double
_/_ divide_int64 (int, int) -> int
_/_ divide_uint64 (uint, uint) -> uint
_<=_ less_equals_bool (bool, bool) -> bool
_<=_ less_equals_int64 (int, int) -> bool
_<=_ less_equals_int64_double (int, double) -> bool
_<=_ less_equals_int64_uint64 (int, uint) -> bool
_<=_ less_equals_uint64 (uint, uint) -> bool
_<=_ less_equals_uint64_double (uint, double) -> bool
_<=_ less_equals_uint64_int64 (uint, int) -> bool
_<=_ less_equals_double (double, double) -> bool
_<=_ less_equals_double_int64 (double, int) -> bool
_<=_ less_equals_double_uint64 (double, uint) -> bool
_<=_ less_equals_string (string, string) -> bool
_<=_ less_equals_bytes (bytes, bytes) -> bool
_<=_ less_equals_timestamp (timestamp, timestamp) -> bool
_<=_ less_equals_duration (duration, duration) -> bool
_<_ less_bool (bool, bool) -> bool
_<_ less_int64 (int, int) -> bool
_<_ less_int64_double (int, double) -> bool
_<_ less_int64_uint64 (int, uint) -> bool
_<_ less_uint64 (uint, uint) -> bool
_<_ less_uint64_double (uint, double) -> bool
_<_ less_uint64_int64 (uint, int) -> bool
_<_ less_double (double, double) -> bool
_<_ less_double_int64 (double, int) -> bool
_<_ less_double_uint64 (double, uint) -> bool
_<_ less_string (string, string) -> bool
_<_ less_bytes (bytes, bytes) -> bool
_<_ less_timestamp (timestamp, timestamp) -> bool
_<_ less_duration (duration, duration) -> bool
_==_ equals (A, A) -> bool
_>=_ greater_equals_bool (bool, bool) -> bool
_>=_ greater_equals_int64 (int, int) -> bool
_>=_ greater_equals_int64_double (int, double) -> bool
_>=_ greater_equals_int64_uint64 (int, uint) -> bool
_>=_ greater_equals_uint64 (uint, uint) -> bool
_>=_ greater_equals_uint64_double (uint, double) -> bool
_>=_ greater_equals_uint64_int64 (uint, int) -> bool
_>=_ greater_equals_double (double, double) -> bool
_>=_ greater_equals_double_int64 (double, int) -> bool
_>=_ greater_equals_double_uint64 (double, uint) -> bool
_>=_ greater_equals_string (string, string) -> bool
_>=_ greater_equals_bytes (bytes, bytes) -> bool
_>=_ greater_equals_timestamp (timestamp, timestamp) -> bool
_>=_ greater_equals_duration (duration, duration) -> bool
_>_ greater_bool (bool, bool) -> bool
_>_ greater_int64 (int, int) -> bool
_>_ greater_int64_double (int, double) -> bool
_>_ greater_int64_uint64 (int, uint) -> bool
_>_ greater_uint64 (uint, uint) -> bool
_>_ greater_uint64_double (uint, double) -> bool
_>_ greater_uint64_int64 (uint, int) -> bool
_>_ greater_double (double, double) -> bool
_>_ greater_double_int64 (double, int) -> bool
_>_ greater_double_uint64 (double, uint) -> bool
_>_ greater_string (string, string) -> bool
_>_ greater_bytes (bytes, bytes) -> bool
_>_ greater_timestamp (timestamp, timestamp) -> bool
_>_ greater_duration (duration, duration) -> bool
_?._ select_optional_field (dyn, string) -> optional_type(V)
_?_:_ conditional (bool, A, A) -> A
_[?_] list_optindex_optional_int (list(V), int) -> optional_type(V)
_[?_] optional_list_optindex_optional_int (optional_type(list(V)), int) -> optional_type(V)
_[?_] map_optindex_optional_value (map(K, V), K) -> optional_type(V)
_[?_] optional_map_optindex_optional_value (optional_type(map(K, V)), K) -> optional_type(V)
_[_] index_list (list(A), int) -> A
_[_] index_map (map(A, B), A) -> B
_[_] optional_list_index_int (optional_type(list(V)), int) -> optional_type(V)
_[_] optional_map_index_value (optional_type(map(K, V)), K) -> optional_type(V)
_||_ logical_or (bool, bool) -> bool
add quantity_add kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
add quantity_add_int kubernetes.Quantity.(int) -> kubernetes.Quantity
allowed decision_allowed authz.Decision.() -> bool
asApproximateFloat quantity_get_float kubernetes.Quantity.() -> double
asInteger quantity_get_int kubernetes.Quantity.() -> int
bool bool_to_bool (bool) -> bool
bool string_to_bool (string) -> bool
bytes bytes_to_bytes (bytes) -> bytes
bytes string_to_bytes (string) -> bytes
cel.@mapInsert @mapInsert_map_key_value (map(K, V), K, V) -> map(K, V)
cel.@mapInsert @mapInsert_map_map (map(K, V), map(K, V)) -> map(K, V)
charAt string_char_at_int string.(int) -> string
check pathcheck_check authz.PathCheck.(string) -> authz.Decision
check resourcecheck_check authz.ResourceCheck.(string) -> authz.Decision
cidr string_to_cidr (string) -> net.CIDR
compareTo quantity_compare_to kubernetes.Quantity.(kubernetes.Quantity) -> int
compareTo semver_compare_to kubernetes.Semver.(kubernetes.Semver) -> int
contains contains_string string.(string) -> bool
containsCIDR cidr_contains_cidr_string net.CIDR.(string) -> bool
containsCIDR cidr_contains_cidr net.CIDR.(net.CIDR) -> bool
containsIP cidr_contains_ip_string net.CIDR.(string) -> bool
containsIP cidr_contains_ip_ip net.CIDR.(net.IP) -> bool
distinct list_distinct list(T).() -> list(T)
double double_to_double (double) -> double
double int64_to_double (int) -> double
double string_to_double (string) -> double
double uint64_to_double (uint) -> double
duration duration_to_duration (duration) -> duration
duration string_to_duration (string) -> duration
dyn to_dyn (A) -> dyn
endsWith ends_with_string string.(string) -> bool
error decision_error authz.Decision.() -> string
errored decision_errored authz.Decision.() -> bool
family ip_family net.IP.() -> int
fieldSelector authorizer_fieldselector authz.ResourceCheck.(string) -> authz.ResourceCheck
find string_find_string string.(string) -> string
findAll string_find_all_string string.(string) -> list(string)
findAll string_find_all_string_int string.(string, int) -> list(string)
first list_first list(V).() -> optional_type(V)
flatten list_flatten list(list(T)).() -> list(T)
flatten list_flatten_int list(dyn).(int) -> list(dyn)
format string_format string.(list(dyn)) -> string
format.byte format.byte () -> kubernetes.NamedFormat
format.date format.date () -> kubernetes.NamedFormat
format.datetime format.datetime () -> kubernetes.NamedFormat
format.dns1035Label format.dns1035Label () -> kubernetes.NamedFormat
format.dns1035LabelPrefix format.dns1035LabelPrefix () -> kubernetes.NamedFormat
format.dns1123Label format.dns1123Label () -> kubernetes.NamedFormat
format.dns1123LabelPrefix format.dns1123LabelPrefix () -> kubernetes.NamedFormat
format.dns1123Subdomain format.dns1123Subdomain () -> kubernetes.NamedFormat
format.dns1123SubdomainPrefix format.dns1123SubdomainPrefix () -> kubernetes.NamedFormat
format.labelValue format.labelValue () -> kubernetes.NamedFormat
format.named format-named (string) -> optional_type(kubernetes.NamedFormat)
format.qualifiedName format.qualifiedName () -> kubernetes.NamedFormat
format.uri format.uri () -> kubernetes.NamedFormat
format.uuid format.uuid () -> kubernetes.NamedFormat
getDate timestamp_to_day_of_month_1_based timestamp.() -> int
getDate timestamp_to_day_of_month_1_based_with_tz timestamp.(string) -> int
getDayOfMonth timestamp_to_day_of_month timestamp.() -> int
getDayOfMonth timestamp_to_day_of_month_with_tz timestamp.(string) -> int
getDayOfWeek timestamp_to_day_of_week timestamp.() -> int
getDayOfWeek timestamp_to_day_of_week_with_tz timestamp.(string) -> int
getDayOfYear timestamp_to_day_of_year timestamp.() -> int
getDayOfYear timestamp_to_day_of_year_with_tz timestamp.(string) -> int
getEscapedPath url_get_escaped_path kubernetes.URL.() -> string
getFullYear timestamp_to_year timestamp.() -> int
getFullYear timestamp_to_year_with_tz timestamp.(string) -> int
getHost url_get_host kubernetes.URL.() -> string
getHostname url_get_hostname kubernetes.URL.() -> string
getHours timestamp_to_hours timestamp.() -> int
getHours timestamp_to_hours_with_tz timestamp.(string) -> int
getHours duration_to_hours duration.() -> int
getMilliseconds timestamp_to_milliseconds timestamp.() -> int
getMilliseconds timestamp_to_milliseconds_with_tz timestamp.(string) -> int
getMilliseconds duration_to_milliseconds duration.() -> int
getMinutes timestamp_to_minutes timestamp.() -> int
getMinutes timestamp_to_minutes_with_tz timestamp.(string) -> int
getMinutes duration_to_minutes duration.() -> int
getMonth timestamp_to_month timestamp.() -> int
getMonth timestamp_to_month_with_tz timestamp.(string) -> int
getPort url_get_port kubernetes.URL.() -> string
getQuery url_get_query kubernetes.URL.() -> map(string, list(string))
getScheme url_get_scheme kubernetes.URL.() -> string
getSeconds timestamp_to_seconds timestamp.() -> int
getSeconds timestamp_to_seconds_tz timestamp.(string) -> int
getSeconds duration_to_seconds duration.() -> int
group authorizer_group authz.Authorizer.(string) -> authz.GroupCheck
hasValue optional_hasValue optional_type(V).() -> bool
includes list_includes_dyn_dyn dyn.(dyn) -> bool
indexOf string_index_of_string string.(string) -> int
indexOf string_index_of_string_int string.(string, int) -> int
indexOf list_a_index_of_int list(A).(A) -> int
int int64_to_int64 (int) -> int
int double_to_int64 (double) -> int
int duration_to_int64 (duration) -> int
int string_to_int64 (string) -> int
int timestamp_to_int64 (timestamp) -> int
int uint64_to_int64 (uint) -> int
ip string_to_ip (string) -> net.IP
ip cidr_ip net.CIDR.() -> net.IP
ip.isCanonical ip_is_canonical (string) -> bool
isCIDR is_cidr (string) -> bool
isGlobalUnicast ip_is_global_unicast net.IP.() -> bool
isGreaterThan quantity_is_greater_than kubernetes.Quantity.(kubernetes.Quantity) -> bool
isGreaterThan semver_is_greater_than kubernetes.Semver.(kubernetes.Semver) -> bool
isIP is_ip (string) -> bool
isInteger quantity_is_integer kubernetes.Quantity.() -> bool
isLessThan quantity_is_less_than kubernetes.Quantity.(kubernetes.Quantity) -> bool
isLessThan semver_is_less_than kubernetes.Semver.(kubernetes.Semver) -> bool
isLinkLocalMulticast ip_is_link_local_multicast net.IP.() -> bool
isLinkLocalUnicast ip_is_link_local_unicast net.IP.() -> bool
isLoopback ip_is_loopback net.IP.() -> bool
isQuantity is_quantity_string (string) -> bool
isSemver is_semver_string (string) -> bool
isSemver is_semver_string_bool (string, bool) -> bool
isSorted list_int_is_sorted_bool list(int).() -> bool
isSorted list_uint_is_sorted_bool list(uint).() -> bool
isSorted list_double_is_sorted_bool list(double).() -> bool
isSorted list_bool_is_sorted_bool list(bool).() -> bool
isSorted list_duration_is_sorted_bool list(duration).() -> bool
isSorted list_timestamp_is_sorted_bool list(timestamp).() -> bool
isSorted list_string_is_sorted_bool list(string).() -> bool
isSorted list_bytes_is_sorted_bool list(bytes).() -> bool
isURL is_url_string (string) -> bool
isUnspecified ip_is_unspecified net.IP.() -> bool
join list_join list(string).() -> string
join list_join_string list(string).(string) -> string
labelSelector authorizer_labelselector authz.ResourceCheck.(string) -> authz.ResourceCheck
last list_last list(V).() -> optional_type(V)
lastIndexOf string_last_index_of_string string.(string) -> int
lastIndexOf string_last_index_of_string_int string.(string, int) -> int
lastIndexOf list_a_last_index_of_int list(A).(A) -> int
lists.range lists_range (int) -> list(int)
lowerAscii string_lower_ascii string.() -> string
major semver_major kubernetes.Semver.() -> int
masked cidr_masked net.CIDR.() -> net.CIDR
matches matches (string, string) -> bool
matches matches_string string.(string) -> bool
max list_int_max_int list(int).() -> int
max list_uint_max_uint list(uint).() -> uint
max list_double_max_double list(double).() -> double
max list_bool_max_bool list(bool).() -> bool
max list_duration_max_duration list(duration).() -> duration
max list_timestamp_max_timestamp list(timestamp).() -> timestamp
max list_string_max_string list(string).() -> string
max list_bytes_max_bytes list(bytes).() -> bytes
min list_int_min_int list(int).() -> int
min list_uint_min_uint list(uint).() -> uint
min list_double_min_double list(double).() -> double
min list_bool_min_bool list(bool).() -> bool
min list_duration_min_duration list(duration).() -> duration
min list_timestamp_min_timestamp list(timestamp).() -> timestamp
min list_string_min_string list(string).() -> string
min list_bytes_min_bytes list(bytes).() -> bytes
minor semver_minor kubernetes.Semver.() -> int
name resourcecheck_name authz.ResourceCheck.(string) -> authz.ResourceCheck
namespace resourcecheck_namespace authz.ResourceCheck.(string) -> authz.ResourceCheck
optional.none optional_none () -> optional_type(V)
optional.of optional_of (V) -> optional_type(V)
optional.ofNonZeroValue optional_ofNonZeroValue (V) -> optional_type(V)
optional.unwrap optional_unwrap (list(optional_type(V))) -> list(V)
or optional_or_optional optional_type(V).(optional_type(V)) -> optional_type(V)
orValue optional_orValue_value optional_type(V).(V) -> V
patch semver_patch kubernetes.Semver.() -> int
path authorizer_path authz.Authorizer.(string) -> authz.PathCheck
prefixLength cidr_prefix_length net.CIDR.() -> int
quantity string_to_quantity (string) -> kubernetes.Quantity
reason decision_reason authz.Decision.() -> string
replace string_replace_string_string string.(string, string) -> string
replace string_replace_string_string_int string.(string, string, int) -> string
resource groupcheck_resource authz.GroupCheck.(string) -> authz.ResourceCheck
reverse list_reverse list(T).() -> list(T)
semver string_to_semver (string) -> kubernetes.Semver
semver string_bool_to_semver (string, bool) -> kubernetes.Semver
serviceAccount authorizer_serviceaccount authz.Authorizer.(string, string) -> authz.Authorizer
sets.contains list_sets_contains_list (list(T), list(T)) -> bool
sets.equivalent list_sets_equivalent_list (list(T), list(T)) -> bool
sets.intersects list_sets_intersects_list (list(T), list(T)) -> bool
sign quantity_sign (kubernetes.Quantity) -> int
size size_bytes (bytes) -> int
size bytes_size bytes.() -> int
size size_list (list(A)) -> int
size list_size list(A).() -> int
size size_map (map(A, B)) -> int
size map_size map(A, B).() -> int
size size_string (string) -> int
size string_size string.() -> int
slice list_slice list(T).(int, int) -> list(T)
sort list_int_sort list(int).() -> list(int)
sort list_uint_sort list(uint).() -> list(uint)
sort list_double_sort list(double).() -> list(double)
sort list_bool_sort list(bool).() -> list(bool)
sort list_google.protobuf.Duration_sort list(duration).() -> list(duration)
sort list_google.protobuf.Timestamp_sort list(timestamp).() -> list(timestamp)
sort list_string_sort list(string).() -> list(string)
sort list_bytes_sort list(bytes).() -> list(bytes)
split string_split_string string.(string) -> list(string)
split string_split_string_int string.(string, int) -> list(string)
startsWith starts_with_string string.(string) -> bool
string string_to_string (string) -> string
string bool_to_string (bool) -> string
string bytes_to_string (bytes) -> string
string double_to_string (double) -> string
string duration_to_string (duration) -> string
string int64_to_string (int) -> string
string timestamp_to_string (timestamp) -> string
string uint64_to_string (uint) -> string
string ip_to_string (net.IP) -> string
string cidr_to_string (net.CIDR) -> string
strings.quote strings_quote (string) -> string
sub quantity_sub kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity
sub quantity_sub_int kubernetes.Quantity.(int) -> kubernetes.Quantity
subresource resourcecheck_subresource authz.ResourceCheck.(string) -> authz.ResourceCheck
substring string_substring_int string.(int) -> string
substring string_substring_int_int string.(int, int) -> string
sum list_int_sum_int list(int).() -> int
sum list_uint_sum_uint list(uint).() -> uint
sum list_double_sum_double list(double).() -> double
sum list_duration_sum_duration list(duration).() -> duration
timestamp timestamp_to_timestamp (timestamp) -> timestamp
timestamp int64_to_timestamp (int) -> timestamp
timestamp string_to_timestamp (string) -> timestamp
trim string_trim string.() -> string
type type (A) -> type(A)
uint uint64_to_uint64 (uint) -> uint
uint double_to_uint64 (double) -> uint
uint int64_to_uint64 (int) -> uint
uint string_to_uint64 (string) -> uint
unwrapOpt optional_unwrapOpt list(optional_type(V)).() -> list(V)
upperAscii string_upper_ascii string.() -> string
url string_to_url (string) -> kubernetes.URL
validate format-validate kubernetes.NamedFormat.(string) -> optional_type(list(string))
value optional_value optional_type(V).() -> V
"""


def _functions() -> dict[str, tuple[Overload, ...]]:
    functions: dict[str, list[Overload]] = {}
    for line in re.split(r"\n+", _TABLE.strip()):
        overload = _read(line)
        functions.setdefault(overload.function, []).append(overload)
    return {name: tuple(overloads) for name, overloads in functions.items()}


FUNCTIONS = _functions()

# Fields of the messages that an expression can name; wrappers hold one value.
DEVICE_FIELDS = {
    "driver": types.STRING,
    "allowMultipleAllocations": types.BOOL,
    "attributes": types.map_of(types.STRING, types.map_of(types.STRING, types.DYN)),
    "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
}
JSON_MAP = types.map_of(types.STRING, types.DYN)
JSON_LIST = types.list_of(types.DYN)
MESSAGE_FIELDS: dict[str, dict[str, Type]] = {
    "google.protobuf.BoolValue": {"value": types.BOOL},
    "google.protobuf.BytesValue": {"value": types.BYTES},
    "google.protobuf.DoubleValue": {"value": types.DOUBLE},
    "google.protobuf.FloatValue": {"value": types.DOUBLE},
    "google.protobuf.Int32Value": {"value": types.INT},
    "google.protobuf.Int64Value": {"value": types.INT},
    "google.protobuf.StringValue": {"value": types.STRING},
    "google.protobuf.UInt32Value": {"value": types.UINT},
    "google.protobuf.UInt64Value": {"value": types.UINT},
    "google.protobuf.Duration": {"seconds": types.INT, "nanos": types.INT},
    "google.protobuf.Timestamp": {"seconds": types.INT, "nanos": types.INT},
    "google.protobuf.Struct": {"fields": JSON_MAP},
    "google.protobuf.ListValue": {"values": JSON_LIST},
    "google.protobuf.Value": {
        "null_value": types.INT,
        "number_value": types.DOUBLE,
        "string_value": types.STRING,
        "bool_value": types.BOOL,
        "struct_value": JSON_MAP,
        "list_value": JSON_LIST,
    },
    "google.protobuf.Any": {"type_url": types.STRING, "value": types.BYTES},
    "google.protobuf.Empty": {},
}

# Names that stand for a type.
TYPE_NAMES: dict[str, Type] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "uint": types.UINT,
    "string": types.STRING,
    "null_type": types.NULL,
    "duration": types.DURATION,
    "timestamp": types.TIMESTAMP,
    "list": types.list_of(types.DYN),
    "map": types.map_of(types.DYN, types.DYN),
    "type": types.TYPE,
    "optional_type": types.optional_of(types.param("V")),
    "net.IP": types.IP,
    "net.CIDR": types.CIDR,
    "kubernetes.DRADevice": types.DEVICE,
    "google.protobuf.BoolValue": types.wrapper_of(types.BOOL),
    "google.protobuf.BytesValue": types.wrapper_of(types.BYTES),
    "google.protobuf.DoubleValue": types.wrapper_of(types.DOUBLE),
    "google.protobuf.FloatValue": types.wrapper_of(types.DOUBLE),
    "google.protobuf.Int32Value": types.wrapper_of(types.INT),
    "google.protobuf.Int64Value": types.wrapper_of(types.INT),
    "google.protobuf.StringValue": types.wrapper_of(types.STRING),
    "google.protobuf.UInt32Value": types.wrapper_of(types.UINT),
    "google.protobuf.UInt64Value": types.wrapper_of(types.UINT),
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "google.protobuf.Struct": JSON_MAP,
    "google.protobuf.ListValue": JSON_LIST,
    "google.protobuf.Value": types.DYN,
    "google.protobuf.Any": types.ANY,
    "google.protobuf.Empty": Type(types.Kind.STRUCT, "google.protobuf.Empty"),
}
