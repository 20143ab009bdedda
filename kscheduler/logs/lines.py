"""One record as klog's text line or as zap's JSON line; values formatted by klog's rules."""

import json
import os
import time
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from kscheduler.gotext.strconv import quote


class ObjectRef(NamedTuple):
    """An object as lines name it: namespace/name in text, {"name", "namespace"} in JSON."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Record(NamedTuple):
    """One call to a logger. A plain line, which klog does not quote, has no values at all."""

    severity: str
    level: int
    file: str
    line: int
    message: str
    values: Mapping[str, object] | None
    error: object
    name: str


def text_line(record: Record) -> str:
    """klog's text format: the header, then a printf-style message or a message with key-values."""
    seconds, micros = divmod(time.time_ns() // 1000, 1_000_000)
    file = os.path.basename(record.file)
    header = (
        f"{record.severity}{_clock(seconds)}.{micros:06d} {os.getpid():7d} {file}:{record.line}] "
    )
    if record.values is None:
        message = record.message.removesuffix("\n")
        return f"{header}{message}\n"
    parts = [header, quote(record.message)]
    if record.error is not None:
        parts.append(f" err{_text_string(str(record.error))}")
    if record.name:
        parts.append(f" logger={quote(record.name)}")
    parts.extend(f" {key}{_text_value(value)}" for key, value in record.values.items())
    parts.append("\n")
    return "".join(parts)


@lru_cache(maxsize=1)  # Formatted once per second, not once per line.
def _clock(seconds: int) -> str:
    return time.strftime("%m%d %H:%M:%S", time.localtime(seconds))


def _text_value(value: object) -> str:
    match value:
        case str():
            return _text_string(_as_string(value))
        case ObjectRef():
            return f'="{value}"'
        case None | bool() | dict() | list() | tuple():
            return f"={_go_json(value)}"
        case int() | float() if type(value) in (int, float):
            return f"={_go_json(value)}"
        case _:
            return _text_string(_as_string(value))


def _text_string(text: str) -> str:
    """Quoted after `=`; a text of several lines stands indented between < and >."""
    if "\n" not in text:
        return f"={quote(text)}"
    lines = text.removesuffix("\n").split("\n")
    return "=<\n" + "".join(f"\t{line}\n" for line in lines) + " >"


def _as_string(value: object) -> str:
    return str(value.value) if isinstance(value, Enum) else str(value)


def _go_json(value: object) -> str:
    """encoding/json's text: no spaces, and HTML's special characters escaped."""
    text = json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _plain(value: object) -> object:
    """The value in JSON's own types; what prints itself (a duration, an error) is its text."""
    match value:
        case None | bool() | str():
            return value
        case float() if value.is_integer() and abs(value) < 1e21:
            return int(value)
        case int() | float() if type(value) in (int, float):
            return value
        case ObjectRef():
            return str(value)
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case set() | frozenset():
            return sorted(map(_as_string, value))
        case _:
            return _as_string(value)


def json_line(record: Record) -> str:
    folder, file = os.path.split(record.file)
    fields: dict[str, object] = {"ts": time.time_ns() // 1000 / 1000}
    if record.name:
        fields["logger"] = record.name
    fields["caller"] = f"{os.path.basename(folder)}/{file}:{record.line}"
    fields["msg"] = record.message.removesuffix("\n")
    if record.severity != "E":
        fields["v"] = record.level
    fields |= {key: _json_value(value) for key, value in (record.values or {}).items()}
    if record.error is not None:
        fields["err"] = str(record.error)
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"


def _json_value(value: object) -> object:
    if isinstance(value, ObjectRef):
        return {"name": value.name} | ({"namespace": value.namespace} if value.namespace else {})
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return _plain(value)
