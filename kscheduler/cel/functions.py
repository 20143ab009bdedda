"""Functions by overload: what a call does once its arguments have the declared types.

`BINDINGS` has one entry per overload of the declarations; operators are in `operators`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

from kscheduler.cel import network, operators, quantities, regexes, text_functions, times, versions
from kscheduler.cel.errors import EvaluationError, no_such_overload
from kscheduler.cel.formats import FORMATS, Format
from kscheduler.cel.values import (
    COMPARABLE,
    NONE,
    WORK,
    Duration,
    Key,
    Opaque,
    Optional,
    Timestamp,
    Uint,
    Value,
    compare,
    contains,
    display,
    find,
    key_of,
    key_value,
    runtime_type,
    surely_equal,
)

Binding = Callable[..., Any]


def _list_compare(name: str, replaced_by: int) -> Binding:
    """min or max: the first element unless a later one is beyond it; errors keep the first."""

    def extreme(elements: list[Value]) -> Value:
        if not elements:
            raise EvaluationError(f"{name} called on empty list")
        result = elements[0]
        _comparable(result)
        for element in elements[1:]:
            _comparable(element)
            try:
                if compare(result, element) == replaced_by:
                    result = element
            except EvaluationError:
                continue
        return result

    return extreme


def _comparable(value: Value) -> None:
    if type(value) not in COMPARABLE:
        raise no_such_overload()


def _is_sorted(elements: list[Value]) -> bool:
    for index, element in enumerate(elements):
        _comparable(element)
        if index == 0:
            continue
        try:
            if compare(elements[index - 1], element) == 1:
                return False
        except EvaluationError:
            continue
    return True


def _sum(zero: Value) -> Binding:
    def total(elements: list[Value]) -> Value:
        result = zero
        for element in elements:
            if type(element) not in (int, Uint, float, str, bytes, list, Duration, Timestamp):
                raise no_such_overload()
            result = operators.add(result, element)
        return result

    return total


def _index_of(elements: list[Value], wanted: Value) -> int:
    return next((i for i, e in enumerate(elements) if surely_equal(e, wanted)), -1)


def _last_index_of(elements: list[Value], wanted: Value) -> int:
    size = len(elements)
    return next((i for i in range(size - 1, -1, -1) if surely_equal(elements[i], wanted)), -1)


def _includes(target: Value, wanted: Value) -> bool:
    if type(target) is list:
        return any(surely_equal(element, wanted) for element in target)
    return surely_equal(target, wanted)


def _range(size: int) -> list[int]:
    if size < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {size}")
    if size > 1_000_000:
        limit = "exceeds maximum allowed (1000000)"
        raise EvaluationError(f"lists.range: size {size} {limit}")
    return list(range(size))


def _slice(elements: list[Value], start: int, end: int) -> list[Value]:
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise EvaluationError(f"{call}, negative indexes not supported")
    if start > end:
        raise EvaluationError(f"{call}, start index must be less than or equal to end index")
    if len(elements) < end:
        raise EvaluationError(f"{call}, list is length {len(elements)}")
    return elements[start:end]


def flatten(elements: list[Value], depth: int = 1) -> list[Value]:
    """The elements with those of inner lists in their place, so many levels deep."""
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    result: list[Value] = []
    for element in elements:
        if type(element) is list and depth > 0:
            result += flatten(element, depth - 1)
        else:
            result.append(element)
        operators.bounded(len(result), operators.MAX_ELEMENTS)
    return result


def distinct(elements: list[Value]) -> list[Value]:
    """The elements without those equal to an earlier one."""
    result: list[Value] = []
    for element in elements:
        WORK.spend(len(result))
        if not any(surely_equal(element, other) for other in result):
            result.append(element)
    return result


def sort_by(elements: list[Value], keys: list[Value]) -> list[Value]:
    """The elements in the order of their keys, which all have one type."""
    if not keys:
        return elements
    kind = type(keys[0])
    if kind not in COMPARABLE:
        raise EvaluationError("list elements must be comparable")
    if len(keys) > 1 and any(type(key) is not kind for key in keys):
        raise EvaluationError("list elements must have the same type")
    WORK.spend(len(keys) * len(keys).bit_length())
    by_key = cmp_to_key(_order)
    order = sorted(range(len(keys)), key=lambda index: by_key(keys[index]))
    return [elements[index] for index in order]


def _order(left: Value, right: Value) -> int:
    try:
        return compare(left, right)
    except EvaluationError:  # NaN precedes nothing
        return 0


def _subset(elements: list[Value], wanted: list[Value]) -> bool:
    return all(contains(elements, element) for element in wanted)


def _intersects(left: list[Value], right: list[Value]) -> bool:
    return any(contains(right, element) for element in left)


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


def _first(elements: list[Value]) -> Optional:
    return Optional(elements[0]) if elements else NONE


def _last(elements: list[Value]) -> Optional:
    return Optional(elements[-1]) if elements else NONE


def _succeeds(parse: Callable[[Any], object]) -> Binding:
    def check(text: Value) -> bool:
        try:
            parse(text)
        except EvaluationError:
            return False
        return True

    return check


def _semver(text: str, normalize: bool = False) -> versions.Semver:  # noqa: FBT001, FBT002
    return versions.normalize(text) if normalize else versions.parse(text)


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002
    try:
        _semver(text, normalize)
    except EvaluationError:
        return False
    return True


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


def _validate(named: Format, text: str) -> Optional:
    problems = named.problems(text)
    return Optional(problems) if problems else NONE


def _find(text: str, pattern: str) -> str:
    return regexes.find(_pattern(pattern), text)


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return regexes.find_all(_pattern(pattern), text, limit)


def _pattern(pattern: str) -> Any:
    try:
        return regexes.compile_pattern(pattern)
    except regexes.PatternError as error:
        raise EvaluationError(f"Illegal regex: {error}") from None


def _quantity_order(left: quantities.Quantity, right: quantities.Quantity) -> int:
    a, b = left.amount.nanos, right.amount.nanos
    return -1 if a < b else int(a > b)


def _time_part(function: str) -> Binding:
    return lambda value, zone=None: times.part(value, function, zone)


def _ip_property(function: str) -> Binding:
    return lambda address: address.property(function)


def _identity(value: Value) -> Value:
    return value


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
    "string_last_index_of_string": text_functions.last_index_of,
    "string_last_index_of_string_int": text_functions.last_index_of,
    "string_lower_ascii": text_functions.lower_ascii,
    "string_upper_ascii": text_functions.upper_ascii,
    "string_replace_string_string": text_functions.replace,
    "string_replace_string_string_int": text_functions.replace,
    "string_split_string": text_functions.split,
    "string_split_string_int": text_functions.split,
    "string_substring_int": text_functions.substring,
    "string_substring_int_int": text_functions.substring,
    "string_trim": text_functions.trim,
    "string_format": text_functions.format_text,
    "strings_quote": text_functions.quote,
    "list_join": text_functions.join,
    "list_join_string": text_functions.join,
    "string_find_string": _find,
    "string_find_all_string": _find_all,
    "string_find_all_string_int": _find_all,
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_includes_dyn_dyn": _includes,
    "lists_range": _range,
    "list_slice": _slice,
    "list_flatten": flatten,
    "list_flatten_int": flatten,
    "list_distinct": distinct,
    "list_reverse": lambda elements: elements[::-1],
    "list_sets_contains_list": _subset,
    "list_sets_equivalent_list": lambda a, b: _subset(a, b) and _subset(b, a),
    "list_sets_intersects_list": _intersects,
    "list_first": _first,
    "list_last": _last,
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
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
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
    "format-validate": _validate,
    "format-named": lambda name: Optional(FORMATS[name]) if name in FORMATS else NONE,
    **{f"format.{name}": (lambda named=named: named) for name, named in FORMATS.items()},
    "duration_to_hours": lambda value: times.whole_units(value, 3600 * times.SECOND),
    "duration_to_minutes": lambda value: times.whole_units(value, 60 * times.SECOND),
    "duration_to_seconds": lambda value: times.whole_units(value, times.SECOND),
    "duration_to_milliseconds": lambda value: times.whole_units(value, 10**6),
}

_COMPARED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
for _name in _COMPARED:
    BINDINGS[f"list_{_name}_is_sorted_bool"] = _is_sorted
    BINDINGS[f"list_{_name}_max_{_name}"] = _list_compare("max", -1)
    BINDINGS[f"list_{_name}_min_{_name}"] = _list_compare("min", 1)
for _name, _zero in (("int", 0), ("uint", Uint(0)), ("double", 0.0), ("duration", Duration(0))):
    BINDINGS[f"list_{_name}_sum_{_name}"] = _sum(_zero)
for _function, _ids in {
    "getFullYear": ("year", "year_with_tz"),
    "getMonth": ("month", "month_with_tz"),
    "getDate": ("day_of_month_1_based", "day_of_month_1_based_with_tz"),
    "getDayOfMonth": ("day_of_month", "day_of_month_with_tz"),
    "getDayOfWeek": ("day_of_week", "day_of_week_with_tz"),
    "getDayOfYear": ("day_of_year", "day_of_year_with_tz"),
    "getHours": ("hours", "hours_with_tz"),
    "getMinutes": ("minutes", "minutes_with_tz"),
    "getSeconds": ("seconds", "seconds_tz"),
    "getMilliseconds": ("milliseconds", "milliseconds_with_tz"),
}.items():
    for _id in _ids:
        BINDINGS[f"timestamp_to_{_id}"] = _time_part(_function)
