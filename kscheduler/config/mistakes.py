"""All mistakes in a configuration file at once, each with its place.

The daemon stops at the first value that it cannot read, as kube-scheduler does, and tells nothing
about the rest. Here such a value is noted and left out, and the file is read again, until it can be
read; then come fields that do not exist, violated rules, and plugins that do not exist or refuse
their arguments. Every sentence is the one with which a start would fail if it were the only
mistake.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from kscheduler.config.catalog import Catalog, Runnable
from kscheduler.config.load import StrictError, UnreadableValueError, load_config
from kscheduler.config.meanings import meaning
from kscheduler.config.model import KubeSchedulerConfiguration, Plugins
from kscheduler.config.places import Place, Places, place_of_syntax_error, without
from kscheduler.config.plugin_args import Gates
from kscheduler.config.profiles import complete, refused_args
from kscheduler.config.validation import validate
from kscheduler.errors import ConfigError
from kscheduler.extension_points import Point
from kscheduler.gotext.document import Document, parse_document
from kscheduler.gotext.json_text import parse_json, plain
from kscheduler.gotext.strconv import quote

# More values than this are not looked at: each costs reading the file once more.
MAX_UNREADABLE = 100

_STRICT = re.compile(
    r"(?:decoding \.(?P<args>profiles\[\d+\]\.pluginConfig\[\d+\]): .*)?"
    r'(?:unknown|duplicate) field "(?P<path>.*)"$'
)
_IN_PROFILE = re.compile(r'(?:profile for scheduler name |scheduler name ")(?P<name>[^:"]*)')
_ARGS = re.compile(r"\[?(?P<path>profiles\[\d+\]\.pluginConfig\[\d+\]\.args[^: ]*):")
_QUOTED = re.compile(r'"([^"]+)"')

# The out-of-tree plugins that a configuration can use, by name; raises ConfigError.
Register = Callable[[KubeSchedulerConfiguration], Mapping[str, Runnable]]


class Mistake(msgspec.Struct, frozen=True):
    """One mistake in kube-scheduler's words, and in plainer ones where those need it.

    `place` is None where the file could not be taken apart.
    """

    text: str
    place: Place | None = None
    meaning: str = ""


def find_mistakes(
    text: bytes, catalog: Catalog, *, gates: Gates, register: Register
) -> list[Mistake]:
    """Mistakes in the order of the file; none if a start would succeed as far as it goes here."""
    try:
        document = parse_document(text)
    except ConfigError as error:
        complaint = str(error)
        place = place_of_syntax_error(text, error)
        return [Mistake(complaint, place, meaning(complaint, "", catalog))]
    places = Places(text)
    found = [
        Mistake(one.text, places.of_repeated(one.text) or places.of(one.path), one.meaning)
        for one in _complaints(text, document, catalog, gates, register)
    ]
    return sorted(found, key=lambda mistake: mistake.place or Place(0, 0))


class _Complaint(msgspec.Struct, frozen=True):
    """A complaint about the field at a path, and the plugins that were known by then."""

    text: str
    path: str
    catalog: Catalog

    @property
    def meaning(self) -> str:
        return meaning(self.text, self.path, self.catalog)


def _complaints(
    text: bytes, document: Document, catalog: Catalog, gates: Gates, register: Register
) -> Iterator[_Complaint]:
    """Complaints in the order in which a start would come to them."""
    # go-yaml joins all repeated keys to one text.
    for joined in document.complaints:
        for line in joined.splitlines()[1:]:
            yield _Complaint(line.strip(), "", catalog)
    readable = document.node.raw.encode()
    for _ in range(MAX_UNREADABLE):
        try:
            config = load_config(text, catalog, gates=gates)
            break
        except UnreadableValueError as error:
            yield _Complaint(str(error), error.path, catalog)
            shorter = without(parse_json(readable), error.path).encode()
            if shorter == readable:
                return
            text = readable = shorter
        except StrictError as error:
            for complaint in error.complaints:
                if complaint not in document.complaints:
                    yield _Complaint(complaint, _strict_path(complaint), catalog)
            if error.config is None:
                return
            config = error.config
            break
        except ConfigError as error:
            yield _Complaint(str(error), "", catalog)
            return
    else:
        return
    violated = validate(config, catalog, gates)
    yield from (_Complaint(str(error), error.path, catalog) for error in violated)
    try:
        known = catalog.including(register(config).values())
    except ConfigError as error:
        named = _ARGS.match(str(error))
        yield _Complaint(str(error), named["path"] if named else "", catalog)
        return
    given = plain(parse_json(readable))
    unbuilt = [*_missing_plugins(config, known, given), *_refused_args(config, known, gates)]
    yield from (_Complaint(complaint, path, known) for complaint, path in unbuilt)
    if not violated and not unbuilt:
        try:
            complete(config, known, gates=gates)
        except ConfigError as error:
            path = _path_in_profile(str(error), config, given)
            yield _Complaint(str(error), path, known)


def _strict_path(complaint: str) -> str:
    named = _STRICT.search(complaint)
    if named is None:
        return ""
    return (f"{named['args']}.args." if named["args"] else "") + named["path"]


def _missing_plugins(
    config: KubeSchedulerConfiguration, catalog: Catalog, given: Any
) -> Iterator[tuple[str, str]]:
    """Plugins that are enabled and do not exist: the complaint and the path of each."""
    for i, profile in enumerate(config.profiles):
        for attr, info in Plugins.model_fields.items():
            # What multiPoint enables is missed first at the first point there is.
            point = next((p for p in Point if p.attr == attr), next(iter(Point)))
            names = (plugin.name for plugin in getattr(profile.plugins, attr).enabled)
            for name in dict.fromkeys(names):
                if name in catalog.points_of:
                    continue
                complaint = (
                    f"initializing profiles: creating profile for scheduler name "
                    f"{profile.scheduler_name}: {point.interface} {quote(name)} does not exist"
                )
                yield complaint, _entry_path(given, i, str(info.alias), name)


def _refused_args(
    config: KubeSchedulerConfiguration, catalog: Catalog, gates: Gates
) -> Iterator[tuple[str, str]]:
    """Arguments that only the plugin itself looks at, and refuses: each complaint and its path."""
    for i, profile in enumerate(config.profiles):
        places = {entry.name: j for j, entry in enumerate(profile.plugin_config)}
        for name, problems in refused_args(profile, catalog, gates):
            args_type = catalog.in_tree[name].args
            if args_type is None or args_type.validated_with_file or name not in places:
                continue
            for problem in problems:
                complaint = (
                    f"initializing profiles: creating profile for scheduler name "
                    f"{profile.scheduler_name}: initializing plugin {quote(name)}: {problem}"
                )
                path = f"profiles[{i}].pluginConfig[{places[name]}].args"
                yield complaint, path if isinstance(problem, str) else f"{path}.{problem.path}"


def _path_in_profile(complaint: str, config: KubeSchedulerConfiguration, given: Any) -> str:
    """The profile that a complaint names; there the entry of a plugin, if it names one."""
    named = _IN_PROFILE.search(complaint)
    for i, profile in enumerate(config.profiles):
        if named is None or profile.scheduler_name != named["name"]:
            continue
        for quoted in _QUOTED.findall(complaint):
            for info in Plugins.model_fields.values():
                path = _entry_path(given, i, str(info.alias), quoted)
                if path.endswith("]"):
                    return path
        return f"profiles[{i}]"
    return ""


def _entry_path(given: Any, profile: int, point: str, name: str) -> str:
    """The path of a plugin's entry as the file has it, to which the defaults are not added; of the
    list if it is not there.
    """
    path = f"profiles[{profile}].plugins.{point}.enabled"
    try:
        entries = given["profiles"][profile]["plugins"][point]["enabled"]
        names = [(entry or {}).get("name", "") for entry in entries]
    except (KeyError, IndexError, TypeError):
        return path
    return f"{path}[{names.index(name)}]" if name in names else path
