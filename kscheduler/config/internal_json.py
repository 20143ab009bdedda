"""Values as the JSON of upstream's internal types: capitalised names, nothing left out.

Some error messages show this form.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from kscheduler.config.plugin_args import RawArgs
from kscheduler.config.wire import Model, wire_fields
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import parse_json, plain
from kscheduler.gotext.unmarshal import ListOf


def internal_json(value: object) -> object:
    """Plain mappings, sequences and scalars, ready to be written as JSON."""
    match value:
        case RawArgs():
            return plain(parse_json(value.text.encode()))
        case Model():
            return _members(value)
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [internal_json(item) for item in value]
        case _:
            return value


def _members(model: Model) -> Mapping[str, object]:
    out: dict[str, object] = {}
    for field in wire_fields(type(model)):
        if not field.attr:
            continue
        value = getattr(model, field.attr)
        if isinstance(field.type, ListOf) and not value:
            value = None  # a Go list that nobody filled
        out[field.internal] = internal_json(value)
    return out
