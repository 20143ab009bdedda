"""Meanings of complaints: beside Go's words, what they say to one who does not write Go."""

from __future__ import annotations

import re

from kscheduler.config.catalog import Catalog
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.places import steps
from kscheduler.config.wire import V1, go_struct
from kscheduler.extension_points import Point
from kscheduler.gotext.unmarshal import (
    Bytes,
    GoType,
    ListOf,
    MapOf,
    Pointer,
    Scalar,
    Struct,
    Text,
)
from kscheduler.suggestions import nearest

# JSON's kinds, as Go names what it found.
FOUND = {
    "string": "text",
    "bool": "true or false",
    "object": "a mapping",
    "array": "a list",
    "number": "a number",
}
# Go's scalars, as one would say what has to be there.
WANTED = {
    "string": "text, in quotes if it looks like a number or a word such as true",
    "bool": "true or false, without quotes",
    "int32": "a whole number without quotes, at most 2147483647",
    "int64": "a whole number without quotes",
    "float32": "a number without quotes",
    "uint8": "a number from 0 to 255",
}
_MISTYPED = re.compile(r"cannot unmarshal (?P<found>\w+)(?: (?P<value>\S+))? into Go .* of type ")
_UNKNOWN = re.compile(r'unknown field "(?:.*\.)?(?P<name>[^".]+)"$')
_IN_ARGS = re.compile(r"decoding args for plugin (?P<plugin>\w+): ")
_NO_KIND = re.compile(r'no kind "(?P<kind>[^"]*)" is registered for version "(?P<version>[^"]*)"')
_NO_PLUGIN = re.compile(r'\w+Plugin "(?P<name>[^"]*)" does not exist')
_NO_POINT = re.compile(r'plugin "(?P<name>[^"]*)" does not extend (?P<point>\w+)Plugin plugin')
# Complaints that are explained by a sentence alone.
SENTENCES = (
    (
        r"time: (missing unit|unknown unit|invalid duration)",
        "a duration is a number with a unit (ms, s, m, h), such as 15s or 1m30s",
    ),
    (r"already set in map", "the key stands there twice; remove one"),
    (r"duplicate field", "the key stands there twice; remove one"),
    (
        r"Object 'Kind' is missing",
        f"a file begins with apiVersion: {V1} and kind: KubeSchedulerConfiguration",
    ),
    (r"Object 'apiVersion' is missing", f"a file begins with apiVersion: {V1}"),
    (r"json parse error: (invalid|unexpected)", "the file opens with a brace, but is not JSON"),
    (r"couldn't get version/kind", "the file has to be a mapping with apiVersion and kind"),
    (r"illegal base64 data", "certificates and keys are base64 text, as `base64 -w0 FILE` writes"),
    (r"found character that cannot start any token", "YAML is indented by spaces, never by tabs"),
    (
        r"mapping values are not allowed",
        "a colon where none can be: mend the indentation, or put the text in quotes",
    ),
    (
        r"did not find expected|could not find expected",
        "a bracket, quote or dash is missing here or above, or a line is indented wrongly",
    ),
    (r"only one queue sort plugin", "disable the queueSort plugin that another replaces"),
    (r"at least one bind plugin", "enable DefaultBinder, or a plugin that binds, at bind"),
    (r"Required value", "this field must be given"),
    (r"no such file or directory", "there is no file of this name"),
)


def meaning(complaint: str, path: str, catalog: Catalog) -> str:
    """The complaint about the field at a path in plainer words; "" where its own are plain."""
    if found := _MISTYPED.search(complaint):
        value = found["value"] or FOUND.get(found["found"], found["found"])
        return f"this must be {_described(_kind_at(complaint, path, catalog))}; it is {value}"
    if found := _UNKNOWN.search(complaint):
        around = _kind_at(complaint, path.removesuffix(found["name"]).removesuffix("."), catalog)
        near = nearest(found["name"], around.by_name if isinstance(around, Struct) else ())
        return f"there is no such field here{f'; did you mean {near}?' if near else ''}"
    if found := _NO_KIND.search(complaint):
        if found["kind"] == KubeSchedulerConfiguration.__name__:
            return f"this release reads {V1} only"
        near = nearest(found["kind"], (KubeSchedulerConfiguration.__name__, *catalog.kinds))
        return f"did you mean kind {near}?" if near else "a configuration has another kind"
    if found := _NO_PLUGIN.search(complaint):
        if near := nearest(found["name"], catalog.points_of):
            return f"did you mean {near}?"
        return "no plugin has this name; one of your own is installed, or named by --plugin"
    if found := _NO_POINT.search(complaint):
        points = catalog.points_of.get(found["name"], frozenset())
        return f"it can be enabled at {', '.join(p for p in Point if p in points)}"
    for pattern, sentence in SENTENCES:
        if re.search(pattern, complaint):
            return sentence
    return ""


def _described(kind: GoType | None) -> str:
    match kind:
        case Scalar(kind=basic):
            return WANTED[basic]
        case Text():
            return "a duration in quotes or bare, such as 15s or 1m30s"
        case Bytes():
            return "base64 text"
        case ListOf():
            return "a list, each entry with a dash"
        case _:
            return "a mapping, that is key: value"


def _kind_at(complaint: str, path: str, catalog: Catalog) -> GoType | None:
    """The type of the field at a path; None if there is no such field, or it takes anything."""
    kind: GoType = go_struct(KubeSchedulerConfiguration, internal=False)
    within = _IN_ARGS.search(complaint)
    args = catalog.args_of(within["plugin"]) if within else None
    if args is not None:
        kind = go_struct(args, internal=False)
        path = path.partition(".args")[2]
    for step in steps(path):
        if isinstance(kind, ListOf):
            kind = kind.item
        elif isinstance(kind, MapOf):
            kind = kind.value
        elif isinstance(kind, Struct) and step in kind.by_name:
            kind = kind.by_name[str(step)].type
        else:
            return None
        while isinstance(kind, Pointer):
            kind = kind.inner
    return kind
