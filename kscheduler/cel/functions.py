"""Functions by overload: what a call does once its arguments have the declared types.

`BINDINGS` and `METERED` have one entry per overload of the declarations; operators are in
`operators`. The functions in `METERED` take the frame of the evaluation before their arguments,
because their time does not follow from the length of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kscheduler.cel import (
    list_functions,
    network,
    operators,
    quantities,
    regexes,
    text_functions,
    times,
    versions,
)
from kscheduler.cel.display import display
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.formats import FORMATS, Format
from kscheduler.cel.frame import Frame
from kscheduler.cel.values import (
    NONE,
    Duration,
    Key,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
    find,
    key_of,
    key_value,
    runtime_type,
)

Binding = Callable[..., Any]


def _insert(entries: dict[Key, Value], key: Value, value: Value) -> dict[Key, Value]:
    """Adds to the map in place: it is the accumulator of a comprehension, seen by nothing else."""
    if find(entries, key)[1]:
        raise EvaluationError(f"insert failed: key {display(key)} already exists")
    entries[key_of(key)] = value
    return entries


def _insert_all(entries: dict[Key, Value], added: dict[Key, Value]) -> dict[Key, Value]:
    for key, value in added.items():
        _insert(entries, key_value(key), value)
    return entries


def _of_non_zero(value: Value) -> Optional:
    if isinstance(value, Optional | Opaque):
        return Optional(value)
    if isinstance(value, Duration):
        return Optional(value) if value.nanos else NONE
    if isinstance(value, Timestamp):
        return Optional(value) if value.nanos != -62135596800 * times.SECOND else NONE
    return Optional(value) if value or runtime_type(value).name == "type" else NONE


def _optional_value(optional: Optional) -> Value:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(elements: list[Value]) -> list[Value]:
    for element in elements:
        if type(element) is not Optional:
            raise EvaluationError(f"value {display(element)} is not optional")
    return [element.value for element in elements if element.present]


def _succeeds(parse: Binding) -> Binding:
    """The function that tells whether arguments can be parsed."""

    def check(*arguments: Value) -> bool:
        try:
            parse(*arguments)
        except EvaluationError:
            return False
        return True

    return check


def _semver(text: str, normalize: bool = False) -> versions.Semver:  # noqa: FBT001, FBT002
    return versions.normalize(text) if normalize else versions.parse(text)


def _contains_ip(block: network.CIDR, address: Value) -> bool:
    if isinstance(address, str):
        try:
            address = network.parse_ip(address)
        except EvaluationError:
            raise no_such_overload() from None
    return block.contains(address.address, address.address.max_prefixlen)


def _contains_cidr(block: network.CIDR, other: Value) -> bool:
    if isinstance(other, str):
        other = network.parse_cidr(other)
    return block.contains(other.address, other.bits)


def _validate(f: Frame, named: Format, text: str) -> Optional:
    problems = named.problems(f, text)
    return Optional(problems) if problems else NONE


def _find(f: Frame, text: str, pattern: str) -> str:
    return _pattern(f, pattern).find(f, text)


def _find_all(f: Frame, text: str, pattern: str, limit: int = -1) -> list[str]:
    return _pattern(f, pattern).find_all(f, text, limit)


def _pattern(f: Frame, pattern: str) -> regexes.Pattern:
    try:
        return regexes.compile_pattern(f, pattern)
    except regexes.PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _quantity_order(left: quantities.Quantity, right: quantities.Quantity) -> int:
    a, b = left.amount.nanos, right.amount.nanos
    return -1 if a < b else int(a > b)


def _time_part(function: str) -> Binding:
    return lambda value: times.part(value, function, None)


def _time_part_in_zone(function: str) -> Binding:
    def part(f: Frame, value: Timestamp, zone: str) -> int:
        f.touch(100)  # a zone that is not known may be looked for in the file system
        return times.part(value, function, zone)

    return part


def _ip_property(function: str) -> Binding:
    return lambda address: address.property(function)


def _identity(value: Value) -> Value:
    return value


METERED: dict[str, Binding] = {
    "string_last_index_of_string_int": text_functions.last_index_of,
    "string_last_index_of_string": text_functions.last_index_of,
    "string_replace_string_string": text_functions.replace,
    "string_replace_string_string_int": text_functions.replace,
    "string_format": text_functions.format_text,
    "list_join": text_functions.join,
    "list_join_string": text_functions.join,
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "list_a_index_of_int": list_functions.index_of,
    "list_a_last_index_of_int": list_functions.last_index_of,
    "list_includes_dyn_dyn": list_functions.includes,
    "list_sets_contains_list": list_functions.contains_all,
    "list_sets_equivalent_list": list_functions.are_equivalent,
    "list_sets_intersects_list": list_functions.intersects,
    "format-validate": _validate,
}
BINDINGS: dict[str, Binding] = {
    "not_strictly_false": lambda value: value is not False,
    "@mapInsert_map_key_value": _insert,
    "@mapInsert_map_map": _insert_all,
    "to_dyn": _identity,
    "type": runtime_type,
    "bool_to_bool": _identity,
    "string_to_bool": operators.to_bool,
    "bytes_to_bytes": _identity,
    "string_to_bytes": operators.to_bytes,
    **dict.fromkeys(
        ("double_to_double", "int64_to_double", "string_to_double", "uint64_to_double"),
        operators.to_double,
    ),
    **dict.fromkeys(
        (
            *("int64_to_int64", "double_to_int64", "duration_to_int64", "string_to_int64"),
            *("timestamp_to_int64", "uint64_to_int64"),
        ),
        operators.to_int,
    ),
    **dict.fromkeys(
        ("uint64_to_uint64", "double_to_uint64", "int64_to_uint64", "string_to_uint64"),
        operators.to_uint,
    ),
    **dict.fromkeys(
        (
            *("string_to_string", "bool_to_string", "bytes_to_string", "double_to_string"),
            *("duration_to_string", "int64_to_string", "timestamp_to_string", "uint64_to_string"),
            *("ip_to_string", "cidr_to_string"),
        ),
        operators.to_string,
    ),
    **dict.fromkeys(("duration_to_duration", "string_to_duration"), operators.to_duration),
    **dict.fromkeys(
        ("timestamp_to_timestamp", "int64_to_timestamp", "string_to_timestamp"),
        operators.to_timestamp,
    ),
    "string_char_at_int": text_functions.char_at,
    "string_index_of_string": text_functions.index_of,
    "string_index_of_string_int": text_functions.index_of,
    "string_lower_ascii": text_functions.lower_ascii,
    "string_upper_ascii": text_functions.upper_ascii,
    "string_split_string": text_functions.split,
    "string_split_string_int": text_functions.split,
    "string_substring_int": text_functions.substring,
    "string_substring_int_int": text_functions.substring,
    "string_trim": text_functions.trim,
    "strings_quote": text_functions.quote,
    "lists_range": list_functions.numbers_up_to,
    "list_slice": list_functions.slice_of,
    "list_reverse": lambda elements: elements[::-1],
    "list_first": lambda elements: Optional(elements[0]) if elements else NONE,
    "list_last": lambda elements: Optional(elements[-1]) if elements else NONE,
    "optional_none": lambda: NONE,
    "optional_of": Optional,
    "optional_ofNonZeroValue": _of_non_zero,
    "optional_hasValue": lambda optional: optional.present,
    "optional_value": _optional_value,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
    "string_to_quantity": quantities.parse,
    "is_quantity_string": _succeeds(quantities.parse),
    "quantity_sign": quantities.Quantity.sign,
    "quantity_is_greater_than": lambda a, b: a.amount.nanos > b.amount.nanos,
    "quantity_is_less_than": lambda a, b: a.amount.nanos < b.amount.nanos,
    "quantity_compare_to": _quantity_order,
    "quantity_get_float": quantities.Quantity.as_approximate_float,
    "quantity_get_int": quantities.Quantity.as_integer,
    "quantity_is_integer": quantities.Quantity.is_integer,
    "quantity_add": lambda a, b: a.plus(b),
    "quantity_add_int": lambda a, b: a.plus(quantities.whole(b)),
    "quantity_sub": lambda a, b: a.plus(b, -1),
    "quantity_sub_int": lambda a, b: a.plus(quantities.whole(b), -1),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _succeeds(_semver),
    "is_semver_string_bool": _succeeds(_semver),
    "semver_is_greater_than": lambda a, b: a.key > b.key,
    "semver_is_less_than": lambda a, b: a.key < b.key,
    "semver_compare_to": versions.Semver.compare,
    "semver_major": lambda version: version.number(0),
    "semver_minor": lambda version: version.number(1),
    "semver_patch": lambda version: version.number(2),
    "string_to_ip": network.parse_ip,
    "is_ip": _succeeds(network.parse_ip),
    "ip_family": lambda address: address.address.version,
    "ip_is_canonical": lambda text: str(network.parse_ip(text)) == text,
    "ip_is_unspecified": _ip_property("isUnspecified"),
    "ip_is_loopback": _ip_property("isLoopback"),
    "ip_is_link_local_multicast": _ip_property("isLinkLocalMulticast"),
    "ip_is_link_local_unicast": _ip_property("isLinkLocalUnicast"),
    "ip_is_global_unicast": _ip_property("isGlobalUnicast"),
    "string_to_cidr": network.parse_cidr,
    "is_cidr": _succeeds(network.parse_cidr),
    "cidr_contains_ip_string": _contains_ip,
    "cidr_contains_ip_ip": _contains_ip,
    "cidr_contains_cidr_string": _contains_cidr,
    "cidr_contains_cidr": _contains_cidr,
    "cidr_ip": lambda block: network.IP(block.address),
    "cidr_prefix_length": lambda block: block.bits,
    "cidr_masked": network.CIDR.masked,
    "string_to_url": network.parse_url,
    "is_url_string": _succeeds(network.parse_url),
    "url_get_scheme": lambda url: url.scheme,
    "url_get_host": lambda url: url.host,
    "url_get_hostname": network.URL.host_name,
    "url_get_port": network.URL.port,
    "url_get_escaped_path": lambda url: url.path,
    "url_get_query": network.URL.parameters,
    "format-named": lambda name: Optional(FORMATS[name]) if name in FORMATS else NONE,
    **{f"format.{name}": (lambda named=named: named) for name, named in FORMATS.items()},
    "duration_to_hours": lambda value: times.whole_units(value, 3600 * times.SECOND),
    "duration_to_minutes": lambda value: times.whole_units(value, 60 * times.SECOND),
    "duration_to_seconds": lambda value: times.whole_units(value, times.SECOND),
    "duration_to_milliseconds": lambda value: times.whole_units(value, 10**6),
}

_COMPARED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
for _name in _COMPARED:
    BINDINGS[f"list_{_name}_is_sorted_bool"] = list_functions.is_sorted
    BINDINGS[f"list_{_name}_max_{_name}"] = list_functions.extreme_of("max", -1)
    BINDINGS[f"list_{_name}_min_{_name}"] = list_functions.extreme_of("min", 1)
for _name, _zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", Duration(0))):
    BINDINGS[f"list_{_name}_sum_{_name}"] = list_functions.sum_from(_zero)
for _function, _id in {
    "getFullYear": "year",
    "getMonth": "month",
    "getDate": "day_of_month_1_based",
    "getDayOfMonth": "day_of_month",
    "getDayOfWeek": "day_of_week",
    "getDayOfYear": "day_of_year",
    "getHours": "hours",
    "getMinutes": "minutes",
    "getSeconds": "seconds",
    "getMilliseconds": "milliseconds",
}.items():
    BINDINGS[f"timestamp_to_{_id}"] = _time_part(_function)
    _zoned = "seconds_tz" if _id == "seconds" else f"{_id}_with_tz"
    METERED[f"timestamp_to_{_zoned}"] = _time_part_in_zone(_function)
