"""YAML turned into JSON text the way sigs.k8s.io/yaml does it on top of go-yaml v2.

Only the first document counts. libyaml does the parsing, so that syntax errors read alike; what
happens above it is go-yaml's: scalars are resolved by YAML 1.1, `<<` merges in place, a key that is
set twice keeps its last value and is remembered as a duplicate, and mappings come out sorted.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from datetime import datetime
from typing import Literal

import msgspec
import yaml

from kscheduler.gotext.fmt import go_syntax
from kscheduler.gotext.json_text import MAX_DEPTH, marshal
from kscheduler.gotext.strconv import float32, format_float32, quote

LOADER = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader

# Go distinguishes the keys 1, 1.0, true and "1"; so do we, by pairing a key with its kind.
Key = tuple[str, object]
Mapping = dict[Key, object]


class YamlError(ValueError):
    """The text is not YAML, or not YAML that JSON can express; worded as go-yaml does."""


class _Node(msgspec.Struct):
    kind: Literal["scalar", "mapping", "sequence", "alias"]
    line: int
    tag: str = ""
    value: str = ""
    implicit: bool = False
    children: list[_Node] = msgspec.field(default_factory=list)
    target: _Node | None = None


def yaml_to_json(text: bytes) -> tuple[bytes, str | None]:
    """The first document as JSON text, and the complaint about repeated keys, if there are any."""
    root = _Composer(text).document()
    decoder = _Decoder()
    value = decoder.decode(root) if root is not None else None
    duplicates = decoder.duplicates
    complaint = "\n  ".join(["yaml: unmarshal errors:", *duplicates]) if duplicates else None
    try:
        return marshal(_json_value(value)).encode(), complaint
    except ValueError as error:
        raise YamlError(str(error)) from error


class _Composer:
    """libyaml's events as a tree; an alias points at the node its anchor named at that moment."""

    def __init__(self, text: bytes) -> None:
        self.loader = LOADER(text or b"\n")
        self.anchors: dict[str, _Node] = {}

    def document(self) -> _Node | None:
        try:
            self._next()  # the stream's start
            if isinstance(self._next(), yaml.StreamEndEvent):
                return None
            root = self._node(self._next(), depth=0)
            self._next()  # the document's end: what stands before it must be well-formed, too
        except yaml.MarkedYAMLError as error:
            raise YamlError(f"yaml: {_place(error)}{error.problem}") from error
        except yaml.reader.ReaderError as error:
            raise YamlError(f"yaml: {error.reason}") from error
        return root

    def _next(self) -> yaml.Event:
        event = self.loader.get_event()
        assert event is not None
        return event

    def _node(self, event: yaml.Event, depth: int) -> _Node:
        if depth > MAX_DEPTH:
            raise YamlError(f"yaml: exceeded max depth of {MAX_DEPTH}")
        line = event.start_mark.line if event.start_mark else 0
        match event:
            case yaml.AliasEvent():
                if event.anchor not in self.anchors:
                    raise YamlError(f"yaml: unknown anchor '{event.anchor}' referenced")
                return _Node("alias", line, value=event.anchor, target=self.anchors[event.anchor])
            case yaml.ScalarEvent():
                node = _Node("scalar", line, event.tag or "", event.value, event.implicit[0])
                self._anchor(event.anchor, node)
                return node
            case yaml.SequenceStartEvent():
                return self._collection(_Node("sequence", line), event, depth)
            case _:
                assert isinstance(event, yaml.MappingStartEvent)
                return self._collection(_Node("mapping", line), event, depth)

    def _collection(self, node: _Node, start: yaml.CollectionStartEvent, depth: int) -> _Node:
        self._anchor(start.anchor, node)
        while not isinstance(event := self._next(), yaml.CollectionEndEvent):
            node.children.append(self._node(event, depth + 1))
        return node

    def _anchor(self, name: str | None, node: _Node) -> None:
        if name is not None:
            self.anchors[name] = node


def _place(error: yaml.MarkedYAMLError) -> str:
    """The line that go-yaml names in an error: only scanner errors are counted from one."""
    problem = error.problem_mark.line if error.problem_mark else 0
    if problem:
        return f"line {problem + isinstance(error, yaml.scanner.ScannerError)}: "
    context = error.context_mark.line if error.context_mark else 0
    return f"line {context}: " if context else ""


class _Decoder:
    def __init__(self) -> None:
        self.duplicates: list[str] = []
        self._within: list[_Node] = []  # aliases being followed
        self._decoded = 0
        self._decoded_through_aliases = 0

    def decode(self, node: _Node) -> object:
        self._count()
        match node.kind:
            case "alias":
                return self._followed(node, None)
            case "scalar":
                return _scalar(node)
            case "sequence":
                return [self.decode(child) for child in node.children]
            case "mapping":
                return self._fill({}, node)

    def _count(self) -> None:
        """A small document must not unfold into a large one."""
        self._decoded += 1
        self._decoded_through_aliases += bool(self._within)
        share = self._decoded_through_aliases / self._decoded
        if (
            self._decoded_through_aliases > 100
            and self._decoded > 1000
            and share > _allowed_alias_share(self._decoded)
        ):
            raise YamlError("yaml: document contains excessive aliasing")

    def _followed(self, alias: _Node, into: Mapping | None) -> object:
        if any(alias is seen for seen in self._within):
            raise YamlError(f"yaml: anchor '{alias.value}' value contains itself")
        assert alias.target is not None
        self._within.append(alias)
        try:
            if into is None:
                return self.decode(alias.target)
            self._count()
            return self._fill(into, alias.target)
        finally:
            self._within.pop()

    def _fill(self, into: Mapping, node: _Node) -> Mapping:
        for key_node, value_node in zip(node.children[::2], node.children[1::2], strict=True):
            if (
                key_node.kind == "scalar"
                and key_node.value == "<<"
                and (key_node.implicit or key_node.tag == LONG_TAG + "merge")
            ):
                self._merge(value_node, into)
                continue
            key = self.decode(key_node)
            if isinstance(key, dict | list):
                raise YamlError(f"yaml: invalid map key: {go_syntax(key)}")
            value = self.decode(value_node)
            entry = (type(key).__name__, key)
            if entry in into:
                line = value_node.line + 1
                self.duplicates.append(f"line {line}: key {_key_syntax(key)} already set in map")
            into[entry] = value
        return into

    def _merge(self, node: _Node, into: Mapping) -> None:
        sources = reversed(node.children) if node.kind == "sequence" else (node,)
        for source in sources:  # the first of a list is merged last, so that it wins
            target = source.target if source.kind == "alias" else source
            if target is None or target.kind != "mapping":
                raise YamlError("yaml: map merge requires map or sequence of maps as the value")
            self._count()
            if source.kind == "alias":
                self._followed(source, into)
            else:
                self._fill(into, source)


def _scalar(node: _Node) -> object:
    if not node.tag and not node.implicit:
        return node.value
    if node.tag == LONG_TAG + "binary":
        try:
            return base64.b64decode(node.value, validate=True).decode("utf-8", "replace")
        except binascii.Error as error:
            raise YamlError("yaml: !!binary value contains invalid base64 data") from error
    try:
        return resolve(node.tag, node.value)
    except ValueError as error:
        raise YamlError(f"yaml: {error}") from error


def _allowed_alias_share(decoded: int) -> float:
    low, high = 400_000, 4_000_000
    if decoded <= low:
        return 0.99
    return 0.10 if decoded >= high else 0.99 - 0.89 * ((decoded - low) / (high - low))


def _json_value(value: object) -> object:
    if isinstance(value, dict):
        members = {_json_key(key, inner): _json_value(inner) for (_, key), inner in value.items()}
        return dict(sorted(members.items()))
    if isinstance(value, list):
        return [_json_value(item) for item in value]
    return value


def float_key(value: float) -> str:
    """A float as a key of a JSON object, in 32 bits as go-yaml writes it."""
    value = float32(value)
    if math.isnan(value) or math.isinf(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    return format_float32(value)


def _json_key(key: object, value: object) -> str:
    match key:
        case str():
            return key
        case bool():
            return "true" if key else "false"
        case int() if key < 1 << 63:
            return str(key)
        case float():
            return float_key(key)
        case _:
            kind = "uint64" if key is not None else "%!s(<nil>)"
            shown = "<nil>" if value is None else go_syntax(value)
            raise YamlError(
                f"unsupported map key of type: {kind}, key: {_key_syntax(key)}, value: {shown}"
            )


def _key_syntax(key: object) -> str:
    if key is None:
        return "<nil>"
    return quote(key) if isinstance(key, str) else go_syntax(key)


LONG_TAG = "tag:yaml.org,2002:"
RESOLVABLE = frozenset(("str", "bool", "int", "float", "null", "timestamp"))
STYLED_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
POINTED_FLOAT = re.compile(r"\.[0-9]+([eE][-+]?[0-9]+)?")
INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<bin>[01]+)|0[oO]?(?P<oct>[0-7]+)"
    r"|(?P<dec>0|[1-9][0-9]*))"
)
TIMESTAMP = re.compile(
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})(?:(?P<between>[Tt ])"
    r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2}):(?P<second>[0-9]{1,2})(?:[.,][0-9]+)?"
    r"(?P<zone>Z|[-+][0-9]{2}:[0-9]{2})?)?"
)
BASE_60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
INFINITIES = (".inf", ".Inf", ".INF")
BASES = {"hex": 16, "bin": 2, "oct": 8, "dec": 10}


def _words(*stems: str) -> list[str]:
    return [form for stem in stems for form in (stem, stem.capitalize(), stem.upper())]


WORDS: dict[str, tuple[str, object]] = {
    **dict.fromkeys(_words("y", "yes", "true", "on"), ("bool", True)),
    **dict.fromkeys(_words("n", "no", "false", "off"), ("bool", False)),
    **dict.fromkeys(["", "~", *_words("null")], ("null", None)),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], ("float", math.nan)),
    **dict.fromkeys(INFINITIES, ("float", math.inf)),
    **dict.fromkeys([f"+{word}" for word in INFINITIES], ("float", math.inf)),
    **dict.fromkeys([f"-{word}" for word in INFINITIES], ("float", -math.inf)),
}


def resolve(tag: str, text: str) -> object:
    """The value of a scalar that is plain or carries `tag` (long form, or empty)."""
    short = tag.removeprefix(LONG_TAG) if tag.startswith(LONG_TAG) else tag
    if short == "str" or (tag and (short == tag or short not in RESOLVABLE)):
        return text
    kind, value = _plain(text, dates=short in ("", "timestamp"))
    if short in ("", kind):
        return value
    if short == "float" and kind == "int" and isinstance(value, int) and value < 1 << 63:
        return float(value)
    raise ValueError(f"cannot decode !!{kind} `{text}` as a !!{short}")


def reads_as_text(text: str) -> bool:
    """Whether a plain scalar would be a string, to go-yaml and to readers that know base 60."""
    return _plain(text, dates=True)[0] == "str" and not BASE_60.fullmatch(text)


def _plain(text: str, *, dates: bool) -> tuple[str, object]:
    if text in WORDS:
        return WORDS[text]
    if text.startswith(".") and POINTED_FLOAT.fullmatch(text):
        return _float(text) or ("str", text)
    if text[0] in "+-0123456789":
        if dates and _is_timestamp(text):
            return "timestamp", text  # which stays a string all the same
        bare = text.replace("_", "")
        return _integer(bare) or _float(bare) or ("str", text)
    return "str", text


def _is_timestamp(text: str) -> bool:
    match = TIMESTAMP.fullmatch(text)
    if match is None or (match["between"] in ("T", "t")) != bool(match["zone"]):
        return False
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    try:
        datetime(int(match["year"]), int(match["month"]), int(match["day"]), hour, minute, second)
    except ValueError:
        return False
    return True


def _integer(bare: str) -> tuple[str, int] | None:
    match = INTEGER.fullmatch(bare)
    if match is None:
        return None
    base = next(name for name in BASES if match[name] is not None)
    value = int(match[base], BASES[base])
    if match["sign"] == "-":
        value = -value
    fits_signed = -(1 << 63) <= value < 1 << 63
    fits_unsigned = not match["sign"] and value < 1 << 64
    return ("int", value) if fits_signed or fits_unsigned else None


def _float(bare: str) -> tuple[str, float] | None:
    if STYLED_FLOAT.fullmatch(bare) is None or math.isinf(float(bare)):
        return None
    return "float", float(bare)
