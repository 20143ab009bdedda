"""Where plugins from outside come from, and that each of them is fit to be one.

    entry points   group `kscheduler.plugins`, the name being the plugin's; loaded only if the
                   configuration names it, so that what is merely installed does nothing
    --plugin       `module:Class`, or `path/to/file.py:Class`
    app.main       classes by name

Every mistake is told in one sentence that begins with where the plugin comes from.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from kscheduler import logs
from kscheduler.config.field_errors import Path as FieldPath
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.extension_points import Point, points_of
from kscheduler.framework.plugin import Plugin
from kscheduler.framework.views import Views
from kscheduler.runtime.extension_point import text_of
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import args as plugin_args
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.guarded import Guarded
from kscheduler.runtime.out_of_tree.handle import PluginHandle
from kscheduler.runtime.out_of_tree.health import PluginHealth
from kscheduler.runtime.out_of_tree.signatures import problems
from kscheduler.runtime.per_node import adapted

log = logs.logger(__name__)

GROUP = "kscheduler.plugins"
EXISTS = "a plugin named {} already exists"


@dataclass(frozen=True, slots=True)
class Outside:
    """A plugin class of others; called with arguments and a handle, it makes a guarded plugin."""

    name: str
    plugin_class: Any
    # Where it comes from, as mistakes are told: `--plugin my:Scorer`.
    source: str

    @property
    def points(self) -> frozenset[Point]:
        return points_of(self.plugin_class)

    @property
    def args_type(self) -> Any:
        return getattr(self.plugin_class, "args_type", None)

    @property
    def signs(self) -> bool:
        """Whether it can say what makes pods equal to it."""
        return hasattr(self.plugin_class, "sign")

    def __call__(self, args: object, handle: RuntimeHandle) -> Plugin:
        support = handle.outside
        support.watchdog.install()
        health = PluginHealth(self.name, handle.profile_name, support.limits, handle.metrics)
        guard = Guard(health, support.watchdog, support.limits, handle.recorder)
        views = Views()
        decoded = plugin_args.decoded(self.args_type, args, FieldPath("args"))
        made = _made(self.plugin_class, decoded, PluginHandle(self.name, handle, guard, views))
        support.health.add(health)
        return Guarded(adapted(made), guard, views, handle)


def register(
    given: Mapping[str, Any],
    specs: Iterable[str],
    wanted: Container[str],
    in_tree: Container[str],
) -> dict[str, Outside]:
    """Out-of-tree plugins by name: those given, those of flags, those installed and wanted.

    None may have one of the names that are taken `in_tree`.
    """
    found: dict[str, Outside] = {}
    for name, plugin_class in given.items():
        _add(found, checked(plugin_class, f"plugins[{name!r}]", name, in_tree=in_tree))
    for spec in specs:
        source = f"--plugin {spec}"
        _add(found, checked(_loaded(spec, source), source, in_tree=in_tree))
    for entry in installed():
        if entry.name in wanted:
            _add(found, _of_entry(entry, in_tree))
    return found


def everything(
    specs: Iterable[str], in_tree: Container[str]
) -> tuple[dict[str, Outside], list[str]]:
    """All that could be used, and what is wrong with the rest of what is installed."""
    found, problems = register({}, specs, (), in_tree), []
    for entry in installed():
        try:
            _add(found, _of_entry(entry, in_tree))
        except ConfigError as error:
            problems.append(str(error))
    return found, problems


def installed() -> list[EntryPoint]:
    """What is there to be used; nothing of it has been imported yet."""
    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def source_of(entry: EntryPoint) -> str:
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    return f"entry point {entry.name} = {entry.value}{package}"


def checked(
    plugin_class: Any, source: str, name: str = "", *, in_tree: Container[str] = ()
) -> Outside:
    """`name` is what it was registered under, where that is said apart from the class."""
    if isinstance(plugin_class, Outside):
        return plugin_class
    if not isinstance(plugin_class, type):
        raise ConfigError(f"{source}: must be a class, not {type(plugin_class).__name__}")
    found = list(problems(plugin_class))
    if found:
        raise ConfigError(f"{source}: class {plugin_class.__name__}: {'; '.join(found)}")
    own: str = plugin_class.name  # type: ignore[attr-defined]
    if name in in_tree or own in in_tree:
        raise ConfigError(f"{source}: {EXISTS.format(name or own)} in kube-scheduler")
    if name and name != own:
        raise ConfigError(f"{source}: class {plugin_class.__name__} calls itself {own}")
    return Outside(own, plugin_class, source)


def _made(plugin_class: Any, args: Any, handle: PluginHandle) -> Any:
    try:
        return plugin_class(args, handle)
    except KschedulerError:
        raise
    except (Exception, SystemExit) as error:
        # Where it happened is what its author wants to know.
        stack = traceback.format_exc()
        log.error(text_of(error), "Plugin failed", plugin=plugin_class.name, stack=stack)
        raise ConfigError(text_of(error)) from error


def _add(found: dict[str, Outside], one: Outside) -> None:
    if one.name in found:
        other = found[one.name].source
        raise ConfigError(f"{one.source}: {EXISTS.format(one.name)}: {other}")
    found[one.name] = one


def _loaded(spec: str, source: str) -> Any:
    module_name, _, class_name = spec.rpartition(":")
    if not module_name or not class_name:
        raise ConfigError(f"{source}: must be module:Class or file.py:Class")
    try:
        if module_name.endswith(".py"):
            module = _module_in(Path(module_name))
        else:
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{source}: cannot be imported: {text_of(error)}") from error
    try:
        return getattr(module, class_name)
    except AttributeError:
        raise ConfigError(f"{source}: {module_name} has no {class_name}") from None


def _module_in(path: Path) -> ModuleType:
    """A file by itself, known by its stem; imports of its neighbours work as in a script."""
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    # Known under its name before it runs: dataclasses and pickling look there.
    sys.modules.setdefault(path.stem, module)
    specification.loader.exec_module(module)
    return module


def _of_entry(entry: EntryPoint, in_tree: Container[str]) -> Outside:
    source = source_of(entry)
    try:
        plugin_class = entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{source}: cannot be imported: {text_of(error)}") from error
    return checked(plugin_class, source, entry.name, in_tree=in_tree)
