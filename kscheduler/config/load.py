"""A configuration file read and completed with defaults.

    text → JSON tree → kind and version → strict decoding → plugin arguments → defaults

The first step that fails for good says so alone; complaints about unknown or repeated fields wait
until everything else has been read. Mirrors cmd/kube-scheduler/app/options/configfile.go and the
decoder behind it. Differs: where upstream's answer depends on the order of a Go map, ours is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kscheduler.config.catalog import Catalog
from kscheduler.config.defaults import changed, with_defaults
from kscheduler.config.model import KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig
from kscheduler.config.plugin_args import Gates, PluginArgs, RawArgs
from kscheduler.config.wire import GROUP, Model, decode
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.document import INTERNAL_VERSION, Kind, kind_of, parse_document, with_default
from kscheduler.gotext.strconv import quote
from kscheduler.gotext.unmarshal import UnmarshalError

SCHEME = quote("pkg/scheduler/apis/config/scheme/scheme.go:29")


class StrictError(ConfigError):
    """Fields that do not exist or stand there twice; everything else was readable.

    `config` is what was read, without these fields; None if it is no configuration.
    """

    def __init__(
        self, complaints: list[str], config: KubeSchedulerConfiguration | None = None
    ) -> None:
        super().__init__(f"strict decoding error: {', '.join(complaints)}")
        self.complaints = complaints
        self.config = config


class UnreadableValueError(ConfigError):
    """A value that cannot be read, for its type or its text; `path` is where it stands."""

    def __init__(self, text: str, path: str) -> None:
        super().__init__(text)
        self.path = path


class Decoded(msgspec.Struct, frozen=True):
    value: Model
    kind: Kind
    complaints: list[str]


def load_config_file(path: str, catalog: Catalog, *, gates: Gates) -> KubeSchedulerConfiguration:
    return load_config(files.read(path), catalog, gates=gates)


def load_config(text: bytes, catalog: Catalog, *, gates: Gates) -> KubeSchedulerConfiguration:
    """The configuration in `text`, with defaults; not validated yet."""
    decoded = decode_document(text, catalog)
    config = decoded.value
    if not isinstance(config, KubeSchedulerConfiguration):
        if decoded.complaints:
            raise StrictError(decoded.complaints)
        kind = decoded.kind
        raise ConfigError(
            "couldn't decode as KubeSchedulerConfiguration, "
            f"got {kind.api_version}, Kind={kind.name}: "
        )
    internal = decoded.kind.version == INTERNAL_VERSION
    complaints = decoded.complaints
    if not internal:
        config, more = _with_decoded_args(config, catalog)
        complaints = [*complaints, *more]
        config = with_defaults(config, catalog, gates)
    config = changed(config, api_version=decoded.kind.api_version)
    if complaints:
        raise StrictError(complaints, config)
    return config


def decode_document(text: bytes, catalog: Catalog, default: Kind | None = None) -> Decoded:
    """A document of any registered kind; `default` stands in for a kind it does not name."""
    document = parse_document(text)
    kind = with_default(kind_of(document.node), default)
    shown = text.decode("utf-8", "replace")
    if not kind.name:
        raise ConfigError(f"Object 'Kind' is missing in '{shown}'")
    if not kind.version:
        raise ConfigError(f"Object 'apiVersion' is missing in '{shown}'")
    models: Mapping[str, type[Model]] = {}
    if kind.group == GROUP and kind.version in ("v1", INTERNAL_VERSION):
        models = {**catalog.kinds, KubeSchedulerConfiguration.__name__: KubeSchedulerConfiguration}
    model = models.get(kind.name)
    if model is None:
        where = f"version {quote(kind.api_version)}"
        if kind.version == INTERNAL_VERSION:
            where = f"the internal version of group {quote(kind.group)}"
        raise ConfigError(
            f"no kind {quote(kind.name)} is registered for {where} in scheme {SCHEME}"
        )
    try:
        value, strict = decode(document.node, model, internal=kind.version == INTERNAL_VERSION)
    except UnmarshalError as error:
        raise UnreadableValueError(str(error), error.path) from error
    return Decoded(value, kind, [*document.complaints, *strict])


def _with_decoded_args(
    config: KubeSchedulerConfiguration, catalog: Catalog
) -> tuple[KubeSchedulerConfiguration, list[str]]:
    """Raw arguments replaced by typed ones for every plugin that has a kind for them."""
    complaints: list[str] = []
    profiles: list[KubeSchedulerProfile] = []
    for i, profile in enumerate(config.profiles):
        entries: list[PluginConfig] = []
        for j, entry in enumerate(profile.plugin_config):
            try:
                args, strict = _decoded_args(entry, catalog)
            except UnreadableValueError as error:
                where = f"profiles[{i}].pluginConfig[{j}]"
                path = f"{where}.args.{error.path}".removesuffix(".")
                raise UnreadableValueError(f"decoding .{where}: {error}", path) from error
            complaints += (f"decoding .profiles[{i}].pluginConfig[{j}]: {c}" for c in strict)
            entries.append(changed(entry, args=args))
        profiles.append(changed(profile, plugin_config=tuple(entries)))
    return changed(config, profiles=tuple(profiles)), complaints


def _decoded_args(
    entry: PluginConfig, catalog: Catalog
) -> tuple[PluginArgs | RawArgs | None, list[str]]:
    args_type = catalog.args_of(entry.name)
    if args_type is None:
        return entry.args, []
    wanted = Kind(GROUP, "v1", args_type.__name__)
    text = entry.args.text.encode() if isinstance(entry.args, RawArgs) else b""
    try:
        decoded = decode_document(text, catalog, wanted)
    except ConfigError as error:
        path = error.path if isinstance(error, UnreadableValueError) else ""
        raise UnreadableValueError(
            f"decoding args for plugin {entry.name}: {error}", path
        ) from error
    if decoded.kind.in_group != wanted.in_group:
        raise UnreadableValueError(
            f"args for plugin {entry.name} were not of type {wanted.in_group}, "
            f"got {decoded.kind.in_group}",
            "",
        )
    assert isinstance(decoded.value, PluginArgs)
    if not decoded.complaints:
        return decoded.value, []
    inner = StrictError(decoded.complaints)
    outer = StrictError([f"decoding args for plugin {entry.name}: {inner}"])
    return decoded.value, [str(outer)]
