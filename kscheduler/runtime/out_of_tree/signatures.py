"""Does a class keep the contract, as far as that can be seen without running it?"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from typing import Any

from kscheduler.framework.plugin import METHOD_OF_POINT, points_of
from kscheduler.runtime.out_of_tree.args import is_args_type

# What each method is called with.
_ABOUT_NODES = ("cycle", "pod", "nodes")
_ABOUT_NODE = ("cycle", "pod", "node")
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "pre_enqueue": ("pod",),
    "sort_key": ("queued",),
    "pre_filter": _ABOUT_NODES,
    "add_pod": ("cycle", "pod", "added", "row", "nodes"),
    "remove_pod": ("cycle", "pod", "removed", "row", "nodes"),
    "filter": _ABOUT_NODES,
    "filter_node": _ABOUT_NODE,
    "post_filter": ("cycle", "pod", "diagnosis"),
    "pre_score": _ABOUT_NODES,
    "score": _ABOUT_NODES,
    "score_node": _ABOUT_NODE,
    "normalize": ("cycle", "pod", "scores", "nodes"),
    "reserve": _ABOUT_NODE,
    "unreserve": _ABOUT_NODE,
    "permit": _ABOUT_NODE,
    "pre_bind_pre_flight": _ABOUT_NODE,
    "pre_bind": _ABOUT_NODE,
    "bind": _ABOUT_NODE,
    "post_bind": _ABOUT_NODE,
    "events_to_register": (),
    "sign": ("pod",),
    "close": (),
}
MAY_WAIT = frozenset({"permit", "pre_bind", "bind", "post_bind"})


def problems(plugin_class: type) -> Iterator[str]:
    """Everything that is wrong with it, one sentence each."""
    name = getattr(plugin_class, "name", None)
    if not isinstance(name, str) or not name:
        yield 'it has no name: give the class an attribute, name = "…"'
    if not points_of(plugin_class):
        yield _extends_nothing(plugin_class)
    args_type = getattr(plugin_class, "args_type", None)
    if args_type is not None and not is_args_type(args_type):
        yield "args_type must be a msgspec.Struct, a dataclass or a pydantic model"
    if not _takes(plugin_class, ("args", "handle")):
        yield "its constructor must take (args, handle)"
    for method, arguments in _ARGUMENTS.items():
        yield from _method_problems(plugin_class, method, arguments)


def _method_problems(plugin_class: type, method: str, arguments: tuple[str, ...]) -> Iterator[str]:
    function = inspect.getattr_static(plugin_class, method, None)
    if function is None:
        return
    wanted = f"({', '.join(arguments)})"
    bound = getattr(plugin_class, method)
    if not callable(bound):
        yield f"{method} must be a method {wanted}"
        return
    static = isinstance(function, staticmethod | classmethod)
    if not _takes(bound, arguments if static else ("self", *arguments)):
        yield f"{method} must take {wanted}"
    if inspect.iscoroutinefunction(bound) and method not in MAY_WAIT:
        yield f"{method} must not be async: only {', '.join(sorted(MAY_WAIT))} may wait"


def _takes(function: Any, arguments: tuple[str, ...]) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _extends_nothing(plugin_class: type) -> str:
    text = "it extends nothing: it has none of the methods of extension points"
    for attribute in vars(plugin_class):
        close = difflib.get_close_matches(_snaked(attribute), METHOD_OF_POINT.values(), 1, 0.75)
        if close:
            return f"{text} (did you mean {close[0]} by {attribute}?)"
    return text


def _snaked(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
