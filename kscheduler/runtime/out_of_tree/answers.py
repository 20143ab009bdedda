"""Checks of what out-of-tree plugins answer; a wrong answer is a fault that says what was expected.

Each function takes an answer and returns it, in the runtime's form; or raises a PluginFault.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NoReturn

import msgspec
import numpy as np

from kscheduler.framework.cluster_event import Action, ClusterEvent, EventWithHint, Hint
from kscheduler.framework.plugin import NodeNames, PostFilterResult, PreFlight, Wait
from kscheduler.framework.status import Code, Rejection, Scores, Status
from kscheduler.runtime.out_of_tree.health import Fault, PluginFault
from kscheduler.runtime.score import BadScoresError, whole_numbers

_REJECTING = frozenset(code for code in Code if code.rejected) | {Code.ERROR}


def wrong(got: object, expected: str) -> NoReturn:
    shown = f"{type(got).__name__} {got!r}"[:120]
    if isinstance(got, np.ndarray):
        shown = f"an array of shape {got.shape} and type {got.dtype}"
    raise PluginFault(Fault.ANSWER, f"returned {shown}, expected {expected}")


def one_of(*kinds: type, expected: str) -> Callable[[Any], Any]:
    """A check for None or a sound instance of one of these."""

    def check(answer: Any) -> Any:
        if answer is None:
            return None
        if not isinstance(answer, kinds):
            wrong(answer, expected)
        if sound := _SOUND.get(type(answer)):
            sound(answer)
        return answer

    return check


def _sound_status(answer: Status) -> None:
    if not isinstance(answer.code, Code):
        wrong(answer, "a Status with a Code")
    reasons = answer.reasons
    if not isinstance(reasons, tuple) or not all(isinstance(one, str) for one in reasons):
        wrong(answer, "a Status whose reasons are a tuple of strings")


def _sound_names(answer: NodeNames) -> None:
    if not isinstance(answer.names, Set):
        wrong(answer, "NodeNames of a set of strings")


def _sound_wait(answer: Wait) -> None:
    seconds = answer.timeout_seconds
    if not isinstance(seconds, int | float) or math.isnan(seconds):
        wrong(answer, "a Wait for a number of seconds")


_SOUND: dict[type, Callable[[Any], None]] = {
    Status: _sound_status,
    NodeNames: _sound_names,
    Wait: _sound_wait,
}


status = one_of(Status, expected="a Status or None")
status_or_names = one_of(Status, NodeNames, expected="a Status, NodeNames or None")
status_or_wait = one_of(Status, Wait, expected="a Status, a Wait or None")
status_or_pre_flight = one_of(Status, PreFlight, expected="a Status, a PreFlight or None")


def nothing(answer: Any) -> None:
    """For methods whose answer has no meaning."""


def anything(answer: Any) -> Any:
    return answer


def rejections(answer: Any, size: int) -> list[Rejection]:
    if answer is None:
        return []
    if isinstance(answer, Status | np.ndarray | Rejection) or not isinstance(answer, Iterable):
        wrong(answer, "an iterable of Rejections")
    found = list(answer)
    for one in found:
        if not isinstance(one, Rejection):
            wrong(one, "Rejections, as unschedulable() makes them")
        mask, code, reason = one
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (size,):
            wrong(mask, f"a mask: an array of {size} booleans")
        if code not in _REJECTING:
            wrong(code, "a code that rejects, or Code.ERROR")
        if not isinstance(reason, str):
            wrong(reason, "a reason in words")
    return found


def scores(answer: Any, size: int) -> Scores:
    try:
        return whole_numbers(answer, size)
    except BadScoresError as error:
        fault = Fault.SCORE if error.not_a_number else Fault.ANSWER
        raise PluginFault(fault, str(error)) from error


def post_filter_result(answer: Any) -> PostFilterResult:
    if not isinstance(answer, PostFilterResult) or not isinstance(answer.status, Status):
        wrong(answer, "a PostFilterResult")
    _sound_status(answer.status)
    if not isinstance(answer.nominated_node, str | None):
        wrong(answer, "a PostFilterResult with a node's name")
    return answer


def signature(answer: Any) -> Mapping[str, object] | Status:
    if isinstance(answer, Status):
        return answer
    if not isinstance(answer, Mapping):
        wrong(answer, "a mapping or a Status")
    try:
        msgspec.json.encode(dict(answer))
    except (TypeError, ValueError) as error:
        raise PluginFault(Fault.ANSWER, f"its signature is not JSON: {error}") from error
    return answer


def registrations(answer: Any) -> list[EventWithHint]:
    if not isinstance(answer, Iterable):
        wrong(answer, "a list of EventWithHint")
    found = list(answer)
    for one in found:
        if not isinstance(one, EventWithHint):
            wrong(one, "a list of EventWithHint")
        event, hint = one.event, one.hint
        if not isinstance(event, ClusterEvent) or not isinstance(event.resource, str):
            wrong(event, "a ClusterEvent")
        if not isinstance(event.action, Action):
            wrong(event.action, "an Action")
        if hint is not None and not callable(hint):
            wrong(hint, "a hint that can be called with (pod, old, new)")
    return found


def hint(answer: Any) -> Hint:
    if not isinstance(answer, Hint):
        wrong(answer, "a Hint")
    return answer
