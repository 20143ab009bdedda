"""Registration of out-of-tree plugins: where they come from, and that each keeps the contract.

    entry points   group `kscheduler.plugins`, the name being the plugin's; loaded only if the
                   configuration names it, so that what is merely installed does nothing
    --plugin       `module:Class`, or `path/to/file.py:Class`
    app.main       classes by name

A class is checked as far as that is possible without running it. Every mistake is told in one
sentence that begins with where the plugin comes from. The result is a factory, as the registry of
in-tree plugins has them.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from kscheduler import logs
from kscheduler.api.field_errors import Path as FieldPath
from kscheduler.api.field_errors import aggregate
from kscheduler.config.model import KubeSchedulerConfiguration
from kscheduler.config.profiles import named_plugins
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.extension_points import METHOD_OF_POINT, METHODS, Method, Point, points_of
from kscheduler.framework.in_tree import Plugin
from kscheduler.framework.views import Views
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.out_of_tree import args as plugin_args
from kscheduler.runtime.out_of_tree.guard import Guard
from kscheduler.runtime.out_of_tree.guarded import Guarded
from kscheduler.runtime.out_of_tree.handle import PluginHandle
from kscheduler.runtime.out_of_tree.health import PluginHealth
from kscheduler.runtime.out_of_tree.per_node import adapted
from kscheduler.runtime.plugin_calls import text_of
from kscheduler.runtime.tracebacks import traceback_of
from kscheduler.suggestions import nearest

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

log = logs.logger(__name__)

GROUP = "kscheduler.plugins"
EXISTS = "a plugin named {} already exists"


class RegisteredPlugin(msgspec.Struct, frozen=True):
    """A class that keeps the contract; called with arguments and a handle it makes a plugin."""

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
        """A guarded instance for one profile."""
        services = handle.out_of_tree
        services.watchdog.install()
        health = PluginHealth(self.name, handle.profile_name, services.limits, handle.metrics)
        guard = Guard(health, services.watchdog, services.limits, handle.recorder)
        views = Views()
        decoded = plugin_args.decoded(self.args_type, args, FieldPath("args"))
        try:
            plugin = self.plugin_class(decoded, PluginHandle(self.name, handle, guard, views))
        except KschedulerError:
            raise
        except (Exception, SystemExit) as error:
            # Where it happened is what its author wants to know.
            stack = traceback_of(error)
            log.error(text_of(error), "Plugin failed", plugin=self.name, stack=stack)
            raise ConfigError(text_of(error)) from error
        services.health.add(health)
        return Guarded(adapted(plugin), guard, views, handle)


def register(
    given: Mapping[str, Any],
    specs: Iterable[str],
    wanted: Collection[str],
    in_tree: Container[str],
) -> dict[str, RegisteredPlugin]:
    """Out-of-tree plugins by name: those given, those of flags, those installed and wanted.

    None may have one of the names that are taken `in_tree`.
    """
    found: dict[str, RegisteredPlugin] = {}
    for name, plugin_class in given.items():
        _add(found, register_class(plugin_class, f"plugins[{name!r}]", name, in_tree=in_tree))
    for spec in specs:
        source = f"--plugin {spec}"
        _add(found, register_class(_load(spec, source), source, in_tree=in_tree))
    # Asking all packages takes 7 ms, and the module for it as long: not for who wants none of them.
    if any(name not in found and name not in in_tree for name in wanted):
        for entry in installed():
            if entry.name in wanted:
                _add(found, _register_entry(entry, in_tree))
    return found


def register_configured(
    config: KubeSchedulerConfiguration,
    given: Mapping[str, Any],
    specs: Iterable[str],
    in_tree: Container[str],
) -> dict[str, RegisteredPlugin]:
    """The plugins that a configuration can use; ConfigError if it has arguments they refuse."""
    registered = register(given, specs, named_plugins(config), in_tree)
    types = {name: one.args_type for name, one in registered.items()}
    if found := list(plugin_args.check_all(config, types)):
        raise ConfigError(aggregate(found))
    return registered


def register_available(
    specs: Iterable[str], in_tree: Container[str]
) -> tuple[dict[str, RegisteredPlugin], dict[str, str]]:
    """All plugins that could be used; and of those installed that cannot, by the name of their
    entry point, what is wrong.
    """
    found, problems = register({}, specs, (), in_tree), {}
    for entry in installed():
        try:
            _add(found, _register_entry(entry, in_tree))
        except ConfigError as error:
            problems[entry.name] = str(error)
    return found, problems


def installed() -> list[EntryPoint]:
    """Entry points of installed plugins; none of them has been imported yet."""
    from importlib.metadata import entry_points

    return sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value))


def register_class(
    plugin_class: Any, source: str, name: str = "", *, in_tree: Container[str] = ()
) -> RegisteredPlugin:
    """`name` is what it was registered under, where that is said apart from the class."""
    if isinstance(plugin_class, RegisteredPlugin):
        return plugin_class
    if not isinstance(plugin_class, type):
        raise ConfigError(f"{source}: must be a class, not {type(plugin_class).__name__}")
    found = list(contract_problems(plugin_class))
    if found:
        raise ConfigError(f"{source}: class {plugin_class.__name__}: {'; '.join(found)}")
    own: str = plugin_class.name  # type: ignore[attr-defined]
    if name in in_tree or own in in_tree:
        raise ConfigError(f"{source}: {EXISTS.format(name or own)} in kube-scheduler")
    if name and name != own:
        raise ConfigError(f"{source}: class {plugin_class.__name__} calls itself {own}")
    return RegisteredPlugin(own, plugin_class, source)


def _register_entry(entry: EntryPoint, in_tree: Container[str]) -> RegisteredPlugin:
    package = f" of {entry.dist.name} {entry.dist.version}" if entry.dist else ""
    source = f"entry point {entry.name} = {entry.value}{package}"
    try:
        plugin_class = entry.load()
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{source}: cannot be imported: {text_of(error)}") from error
    return register_class(plugin_class, source, entry.name, in_tree=in_tree)


def _add(found: dict[str, RegisteredPlugin], one: RegisteredPlugin) -> None:
    if one.name in found:
        other = found[one.name].source
        raise ConfigError(f"{one.source}: {EXISTS.format(one.name)}: {other}")
    found[one.name] = one


def _load(spec: str, source: str) -> Any:
    module_name, _, class_name = spec.rpartition(":")
    if not module_name or not class_name:
        raise ConfigError(f"{source}: must be module:Class or file.py:Class")
    try:
        if module_name.endswith(".py"):
            module = _import_file(Path(module_name))
        else:
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{source}: cannot be imported: {text_of(error)}") from error
    try:
        return getattr(module, class_name)
    except AttributeError:
        classes = (name for name, member in vars(module).items() if isinstance(member, type))
        near = nearest(class_name, classes)
        hint = f"; did you mean {near}?" if near else ""
        raise ConfigError(f"{source}: {module_name} has no {class_name}{hint}") from None


def _import_file(path: Path) -> ModuleType:
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


def contract_problems(plugin_class: type) -> Iterator[str]:
    """Everything that is wrong with the class, one sentence each."""
    name = getattr(plugin_class, "name", None)
    if not isinstance(name, str) or not name:
        yield 'it has no name: give the class an attribute, name = "…"'
    if not points_of(plugin_class):
        yield _extends_nothing(plugin_class)
    args_type = getattr(plugin_class, "args_type", None)
    if args_type is not None and not plugin_args.is_args_type(args_type):
        yield "args_type must be a msgspec.Struct, a dataclass or a pydantic model"
    if not _takes(plugin_class, ("args", "handle")):
        yield "its constructor must take (args, handle)"
    for method in METHODS.values():
        yield from _method_problems(plugin_class, method)


def _extends_nothing(plugin_class: type) -> str:
    text = "it extends nothing: it has none of the methods of extension points"
    for attribute in vars(plugin_class):
        # Upstream's spelling is a likely mistake: PreFilter for pre_filter.
        snaked = "".join(f"_{c.lower()}" if c.isupper() else c for c in attribute).lstrip("_")
        close = difflib.get_close_matches(snaked, METHOD_OF_POINT.values(), 1, 0.75)
        if close:
            return f"{text} (did you mean {close[0]} by {attribute}?)"
    return text


def _method_problems(plugin_class: type, method: Method) -> Iterator[str]:
    name = method.name
    function = inspect.getattr_static(plugin_class, name, None)
    if function is None:
        return
    wanted = f"({', '.join(method.arguments)})"
    bound = getattr(plugin_class, name)
    if not callable(bound):
        yield f"{name} must be a method {wanted}"
        return
    static = isinstance(function, staticmethod | classmethod)
    if not _takes(bound, method.arguments if static else ("self", *method.arguments)):
        yield f"{name} must take {wanted}"
    if inspect.iscoroutinefunction(bound) and not method.may_wait:
        waiting = sorted(one.name for one in METHODS.values() if one.may_wait)
        yield f"{name} must not be async: only {', '.join(waiting)} may wait"


def _takes(function: Any, arguments: tuple[str, ...]) -> bool:
    """Whether it can be called with so many arguments, as far as that can be seen."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True
