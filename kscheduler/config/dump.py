"""A configuration written down: as YAML for --write-config-to, as JSON for /configz.

Both show the v1 object. The JSON keeps the fields in the order Go declares them; the YAML is made
from it by sorting, in the style of sigs.k8s.io/yaml (lists not indented under their key).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

import yaml

from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.plugin_args import RawArgs
from kscheduler.config.wire import V1, Model, WireField, wire_fields
from kscheduler.errors import ConfigError
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import json_float32, marshal, parse_json, plain
from kscheduler.gotext.strconv import format_float
from kscheduler.gotext.unmarshal import ListOf, Pointer, Scalar
from kscheduler.gotext.yaml_text import LONG_TAG, reads_as_text


def to_yaml(config: KubeSchedulerConfiguration) -> str:
    return yaml_text(to_tree(config))


def to_json(config: KubeSchedulerConfiguration) -> str:
    return marshal(to_tree(config))


def to_tree(model: Model) -> dict[str, Any]:
    """The v1 form as plain mappings, lists and scalars, without what v1 leaves out when empty."""
    tree: dict[str, Any] = {}
    if type(model).has_type_meta:
        tree |= {"kind": type(model).__name__, "apiVersion": V1}
    for field in wire_fields(type(model)):
        if not field.attr:
            continue
        value = getattr(model, field.attr)
        # A pointer is empty when it is nil, whatever it points at; a list also when it has none.
        is_pointer = isinstance(field.type, Pointer) and not isinstance(field.type.inner, ListOf)
        is_empty = value is None if is_pointer else not value
        if not (field.omit_empty and is_empty):
            tree[field.json] = _tree(value, field)
    return tree


def _tree(value: object, field: WireField) -> object:
    match value:
        case RawArgs():
            return plain(parse_json(value.text.encode()))
        case Model():
            return to_tree(value)
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [_tree(item, field) for item in value]
        case float() if isinstance(field.type, Scalar) and field.type.kind == "float32":
            try:
                text = json_float32(value)
            except ValueError as error:
                raise ConfigError(str(error)) from error
            return int(text) if text.lstrip("-").isdigit() else float(text)
        case _:
            return value


def internal_json(value: object) -> object:
    """A value as the JSON of upstream's internal types, ready to be written: capitalised names,
    nothing left out, a list without entries null. Some error messages show this form.
    """
    match value:
        case RawArgs():
            return plain(parse_json(value.text.encode()))
        case Model():
            members = {}
            for field in wire_fields(type(value)):
                if field.attr:
                    member = getattr(value, field.attr)
                    is_unset = isinstance(field.type, ListOf) and not member
                    members[field.internal] = None if is_unset else internal_json(member)
            return members
        case Duration():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case tuple():
            return [internal_json(item) for item in value]
        case _:
            return value


class _Dumper(yaml.SafeDumper):
    """Scalars in go-yaml's spelling and quotes; every one is text by the time it is emitted."""

    def ignore_aliases(self, data: object) -> bool:
        return True

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        return TAGS[kind]


# Characters that JSON passes on as they are and go-yaml refuses to read.
UNPRINTABLE = re.compile("[\x7f-\x84\x86-\x9f\ufffe\uffff]")
TAGS = {
    yaml.ScalarNode: f"{LONG_TAG}str",
    yaml.SequenceNode: f"{LONG_TAG}seq",
    yaml.MappingNode: f"{LONG_TAG}map",
}


def _scalar(dumper: yaml.SafeDumper, value: object) -> yaml.ScalarNode:
    style = None
    if isinstance(value, str):
        if UNPRINTABLE.search(value):
            raise ConfigError("yaml: control characters are not allowed")
        style = "|" if "\n" in value else None if reads_as_text(value) else '"'
    text = format_float(value) if isinstance(value, float) else str(value)
    if value is None or isinstance(value, bool):
        text = marshal(value)
    return dumper.represent_scalar(TAGS[yaml.ScalarNode], text, style)


for _type in (str, bool, int, float, type(None)):
    _Dumper.add_representer(_type, _scalar)


def scalar_text(value: object) -> str:
    """A scalar, or an empty collection, as it stands on a line of YAML."""
    text = _dumped(value, flow=True, width=1 << 20)
    return text.removesuffix("\n").removesuffix("\n...")


def yaml_text(tree: Mapping[str, Any]) -> str:
    return _dumped(tree, flow=False, width=80)


def _dumped(value: object, *, flow: bool, width: int) -> str:
    return yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=True,
        default_flow_style=flow,
        allow_unicode=True,
        width=width,
    )
