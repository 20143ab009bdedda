"""Which plugin is at work, found in the stack of the thread that decides.

Timing every call of every plugin would cost a decision 2 % of its 100 µs. So nobody notes whose
turn it is; a thread that wants to know (see `cycle.slow_decisions`) looks at the stack for the
functions that call plugins. Each of them is marked where it is defined:

    @calls_plugins("Filter", by="plugin")
    def _judge(self, plugin, …):

with the local variable that has the plugin, or its name, while the call lasts.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class PluginCall(NamedTuple):
    plugin: str
    extension_point: str


class _Caller(NamedTuple):
    # "" is that of the function's own `self`, an ExtensionPoint.
    extension_point: str
    variable: str


_callers: dict[CodeType, _Caller] = {}


def calls_plugins(extension_point: str = "", *, by: str) -> Callable[[F], F]:
    """Marks a function; it stays as it is, so a call of it costs what it did."""

    def mark(function: F) -> F:
        _callers[function.__code__] = _Caller(extension_point, by)
        return function

    return mark


def plugin_in_stack(innermost: FrameType | None) -> PluginCall | None:
    """The plugin whose extension point the decision has come to; what that one asks of others, as
    preemption asks all filters, is its own time.
    """
    found: tuple[FrameType, _Caller] | None = None
    frame = innermost
    while frame is not None:
        caller = _callers.get(frame.f_code)
        if caller is not None:
            found = frame, caller
        frame = frame.f_back
    if found is None:
        return None
    values, caller = found[0].f_locals, found[1]
    plugin = values.get(caller.variable)
    if plugin is None:
        return None
    name = plugin if isinstance(plugin, str) else plugin.name
    return PluginCall(name, caller.extension_point or values["self"].name)
