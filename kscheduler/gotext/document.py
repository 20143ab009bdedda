"""A file in YAML or JSON up to the point where its kind and version are known.

The failures are those of the serializer behind every kubernetes configuration file.
"""

from __future__ import annotations

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.gotext.json_text import JsonSyntaxError, Node, parse_json
from kscheduler.gotext.yaml_text import YamlError, yaml_to_json

INTERNAL_VERSION = "__internal"
GO_SPACES = " \t\n\v\f\r\u0085\u00a0"
META_TYPE = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


class Kind(msgspec.Struct, frozen=True):
    """Group, version and kind of a document."""

    group: str
    version: str
    name: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def in_group(self) -> str:
        return f"{self.name}.{self.group}" if self.group else self.name


class Document(msgspec.Struct, frozen=True):
    """A parsed text, and what YAML has to say about keys that stand there twice."""

    node: Node
    complaints: list[str]


def parse_document(text: bytes) -> Document:
    """JSON if it opens with a brace, otherwise the first document of a YAML stream."""
    if not text.decode("utf-8", "replace").lstrip(GO_SPACES).startswith("{"):
        return parse_yaml(text)
    try:
        return Document(parse_json(text), [])
    except JsonSyntaxError as error:
        raise _unreadable_kind(str(error)) from error


def parse_yaml(text: bytes) -> Document:
    """The first document of a YAML stream, whatever it opens with."""
    try:
        source, repeated = yaml_to_json(text)
        return Document(parse_json(source), [repeated] if repeated else [])
    except YamlError as error:
        raise ConfigError(str(error)) from error
    except JsonSyntaxError as error:
        raise _unreadable_kind(str(error)) from error


def _unreadable_kind(reason: str) -> ConfigError:
    return ConfigError(f"couldn't get version/kind; json parse error: {reason}")


def kind_of(node: Node) -> Kind:
    """Kind and version are looked up without regard to case, unlike every other field."""
    if node.kind not in ("object", "null"):
        found = f"cannot unmarshal {node.kind} into Go value of type {META_TYPE}"
        raise _unreadable_kind(f"json: {found}")
    texts = {"apiversion": "", "kind": ""}
    mismatches: list[str] = []
    for key, value in node.members:
        name = key.casefold()
        if name not in texts or value.kind == "null":
            continue
        if value.kind == "string":
            texts[name] = value.text
            continue
        field = "apiVersion" if name == "apiversion" else name
        found = f"cannot unmarshal {value.kind} into Go struct field .{field} of type string"
        mismatches.append(f"json: {found}")
    if mismatches:
        raise _unreadable_kind(mismatches[0])
    api_version = texts["apiversion"]
    if api_version.count("/") > 1:
        raise ConfigError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    return Kind(group, version, texts["kind"])


def with_default(kind: Kind, default: Kind | None) -> Kind:
    if default is None:
        return kind
    group, version = kind.group, kind.version
    if not version and group in ("", default.group):
        group, version = default.group, default.version
    return Kind(group, version, kind.name or default.name)
