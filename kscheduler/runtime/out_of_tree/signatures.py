"""Does a class keep the contract, as far as that can be seen without running it?"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from typing import Any

from kscheduler.extension_points import METHOD_OF_POINT, METHODS, Method, points_of
from kscheduler.runtime.out_of_tree.args import is_args_type


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
    for method in METHODS.values():
        yield from _method_problems(plugin_class, method)


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
