"""The types a flag can have: how each reads its text, prints its value and names itself in help.

A text that a type does not accept is refused with the words of Go's pflag and strconv.
"""

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kscheduler.api.quantity import parse
from kscheduler.config.emulation import BINARY, parse_semantic_version
from kscheduler.config.options import ANY_ADDRESS, CertKey
from kscheduler.errors import ConfigError
from kscheduler.gotext.comma_list import read_list, write_list
from kscheduler.gotext.duration import Duration, parse_duration
from kscheduler.gotext.strconv import (
    format_float,
    parse_bool,
    parse_float32,
    parse_int,
    parse_uint,
    quote,
)
from kscheduler.version import KUBERNETES_VERSION


class ValueType(msgspec.Struct, frozen=True):
    """`read` gets the text and what earlier uses on the same command line made, or None."""

    word: str
    read: Callable[[str, Any], Any]
    show: Callable[[Any], str] = str
    bare: str = ""  # the text meant by a flag without one
    zeros: frozenset[str] = frozenset(
        {"", "0", "0s", "false"}
    )  # defaults that help does not mention

    def shown_default(self, default: object) -> str:
        """The text of `(default …)` in help; "" for none."""
        text = self.show(default)
        if text in self.zeros:
            return ""
        return quote(text) if self is STRING else text


def _show_bool(value: bool) -> str:  # noqa: FBT001
    return "true" if value else "false"


def _read_ip(text: str, previous: str | None) -> str:
    if not text:
        return previous or ANY_ADDRESS
    try:
        address = ipaddress.ip_address(text.strip())
    except ValueError:
        address = None
    if address is None or "%" in text:
        raise ValueError(f"failed to parse IP: {quote(text)}")
    return str(getattr(address, "ipv4_mapped", None) or address)


def _read_map(text: str, previous: Mapping[str, str] | None) -> Mapping[str, str]:
    count = text.count("=")
    items = read_list(text) if count > 1 else (text.strip('"'),)
    if not count:
        raise ValueError(f"{text} must be formatted as key=value")
    pairs = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise ValueError(f"{item} must be formatted as key=value")
        pairs[key] = value
    return {**(previous or {}), **pairs}


Multimap = Mapping[str, tuple[str, ...]]


def _read_multimap(text: str, previous: Multimap | None) -> Multimap:
    """`component:item,…`; an item without a component belongs to the component ""."""
    grouped = dict(previous or {})
    for pair in filter(None, text.split(",")):
        key, colon, item = (part.strip() for part in pair.partition(":"))
        key, item = (key, item) if colon else ("", key)
        grouped[key] = (*grouped.get(key, ()), item)
    return grouped


def _read_vmodule(
    text: str, previous: tuple[tuple[str, int], ...] | None
) -> tuple[tuple[str, int], ...]:
    patterns = []
    for item in filter(None, text.split(",")):
        pattern, _, level = item.partition("=")
        if not pattern or not level or "=" in level:
            raise ValueError(f"{quote(item)} does not have the pattern=N format")
        try:
            patterns.append((pattern, parse_uint(level, base=10, bits=31)))
        except ConfigError as err:
            raise ValueError(f"parsing verbosity in {quote(item)}: {err}") from None
    return (*(previous or ()), *patterns)


def _read_cert_key(text: str, previous: tuple[CertKey, ...] | None) -> tuple[CertKey, ...]:
    """`cert,key`, or `cert,key:name,name` to say which host names the pair is for."""
    files, colon, names = (part.strip() for part in text.partition(":"))
    if colon and not names:
        raise ValueError("empty names list is not allowed")
    pair = [part.strip() for part in files.split(",")]
    if len(pair) != 2:
        raise ValueError("expected comma separated certificate and key file paths")
    hosts = tuple(name.strip() for name in names.split(",")) if colon else ()
    return (*(previous or ()), CertKey(pair[0], pair[1], hosts))


def _read_version(text: str, _previous: str | None) -> str:
    """true, false, raw, or a version to report instead of our own."""
    if text == "raw":
        return text
    if not text.startswith("v"):
        return _show_bool(parse_bool(text))
    if text != KUBERNETES_VERSION and parse_semantic_version(text).numbers != BINARY.numbers:
        raise ValueError(
            f"version {quote(text)} must match major/minor/patch of default version "
            f"{quote(KUBERNETES_VERSION)}"
        )
    return text


STRING = ValueType("string", lambda text, _: text)
BOOL = ValueType("", lambda text, _: parse_bool(text), _show_bool, bare="true")
INT = ValueType("int", lambda text, _: parse_int(text))
INT32 = ValueType("int32", lambda text, _: parse_int(text, bits=32))
FLOAT32 = ValueType("float32", lambda text, _: parse_float32(text), format_float)
DURATION = ValueType(
    "duration", lambda text, _: parse_duration(text), lambda value: str(Duration(value))
)
IP = ValueType("ip", _read_ip)
STRINGS = ValueType(
    "strings",
    lambda text, previous: (previous or ()) + read_list(text),
    lambda value: f"[{write_list(value)}]",
    zeros=frozenset({"[]"}),
)
INT32S = ValueType(
    "int32Slice",
    lambda text, previous: (
        (previous or ()) + tuple(parse_int(item, bits=32) for item in text.split(","))
    ),
    lambda value: f"[{','.join(map(str, value))}]",
)
MAP = ValueType(
    "stringToString",
    _read_map,
    lambda value: f"[{write_list(tuple(f'{k}={v}' for k, v in sorted((value or {}).items())))}]",
)
MULTIMAP = ValueType(
    "colonSeparatedMultimapStringString",
    _read_multimap,
    lambda value: ",".join(f"{key}:{item}" for key in sorted(value) for item in value[key]),
)
CERT_KEYS = ValueType(
    "namedCertKey", _read_cert_key, lambda value: f"[{';'.join(map(str, value))}]"
)
LEVEL = ValueType("Level", lambda text, _: parse_uint(text, base=10, bits=31))
VMODULE = ValueType(
    "pattern=N,...",
    _read_vmodule,
    lambda value: ",".join(f"{pattern}={level}" for pattern, level in value),
)
QUANTITY = ValueType("quantity", lambda text, _: parse(text))
VERSION = ValueType("version[=true]", _read_version, bare="true")
