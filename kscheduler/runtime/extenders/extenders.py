"""All extenders together: how their results combine with each other and with those of plugins.

They are called one after the other, those that may be ignored last; only for scores all at once.
While an attempt waits for them, informers are held (`held`), so that what was found before the call
is still true after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from kscheduler import logs
from kscheduler.errors import KschedulerError
from kscheduler.framework.status import MAX_NODE_SCORE, Code, Diagnosis, Rows, Scores
from kscheduler.gotext.strconv import quote
from kscheduler.runtime.extenders.extender import Extender, ExtenderError
from kscheduler.runtime.extenders.messages import Victims
from kscheduler.state.columns import wrap_int64
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)
preemption_log = logs.logger(__name__, "PostFilter.DefaultPreemption")

# The name of extenders among the plugins that rejected a pod.
EXTENDER = "Extender"
MAX_EXTENDER_PRIORITY = 10
# How long the next decision waits for events that piled up while informers were held.
CATCH_UP_SECONDS = 0.25
NO_ROWS: Rows = np.empty(0, np.intp)
# How upstream's log shows an extender.
_SHOWN: Mapping[str, Any] = {}


class Informers(Protocol):
    """Informers as far as they can be held."""

    def hold(self) -> AbstractContextManager[None]:
        """No event is handled until the block ends."""

    async def moving(self) -> None:
        """Return when they are not held."""

    async def catch_up(self, seconds: float, /) -> None:
        """Return when events that piled up have been handled, or so much time has passed."""


class NoInformers:
    """Stands for informers where nothing changes by itself."""

    def hold(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def moving(self) -> None:
        pass

    async def catch_up(self, seconds: float, /) -> None:
        await asyncio.sleep(0)


class ExtenderBinding(NamedTuple):
    """`unsettled`: whether an ignorable extender was called and may or may not have bound."""

    is_bound: bool
    unsettled: bool = False
    # The one that has bound the pod.
    extender: str = ""


class ExtenderAnswer(NamedTuple):
    """Answer of an extender about some nodes, for whoever asks later."""

    extender: str
    verb: str
    asked: int
    # Nodes that it let pass, gave a score, or left as candidates for preemption.
    passed: int = 0
    # Rows that it rejected with a reason.
    rejected: Rows = NO_ROWS
    # Why there is no answer; `ignored` if the attempt goes on without it.
    error: str = ""
    ignored: bool = False


FILTER, PRIORITIZE, PREEMPT, BIND = "Filter", "Prioritize", "ProcessPreemption", "Bind"


class Extenders:
    def __init__(
        self, extenders: Iterable[Extender] = (), informers: Informers | None = None
    ) -> None:
        self._all = sorted(extenders, key=lambda one: one.is_ignorable)
        self._informers = informers or NoInformers()
        self.held = self._informers.hold
        self.moving = self._informers.moving
        self.can_filter = any(one.filters for one in self._all)
        self.can_prioritize = any(one.prioritizes for one in self._all)

    def __bool__(self) -> bool:
        return bool(self._all)

    async def catch_up(self) -> None:
        await self._informers.catch_up(CATCH_UP_SECONDS)

    def any_interested(self, pod: PodInfo) -> bool:
        """Whether any of them filters or scores nodes for the pod."""
        return any((one.filters or one.prioritizes) and one.is_interested(pod) for one in self._all)

    async def filter(
        self,
        pod: PodInfo,
        nodes: Nodes,
        rows: Rows,
        diagnosis: Diagnosis,
        answers: list[ExtenderAnswer],
    ) -> Rows:
        """Of these rows those that pass all extenders. Why others fail goes into the diagnosis, in
        place of earlier verdicts on them, by plugins or by other extenders.

        Raises KschedulerError if an extender fails that is not ignorable.
        """
        for extender in self._all:
            if not len(rows):
                break
            if not extender.filters or not extender.is_interested(pod):
                continue
            view = nodes.take(rows)
            try:
                names, failed, unresolvable = await extender.filter(pod, view)
            except KschedulerError as error:
                answers.append(_failed(extender, FILTER, len(rows), error))
                if not extender.is_ignorable:
                    raise
                what = "Skipping extender as it returned error and has ignorable flag set"
                log.info(what, pod=logs.ref(pod.pod), extender=_SHOWN, err=str(error))
                continue
            against = _rows(nodes, chain(failed, unresolvable))
            diagnosis.acquit(against)
            _charge(diagnosis, nodes, unresolvable, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            left = {name: why for name, why in failed.items() if name not in unresolvable}
            _charge(diagnosis, nodes, left, Code.UNSCHEDULABLE)
            asked, rows = len(rows), _rows(nodes, names)
            answers.append(ExtenderAnswer(extender.name, FILTER, asked, len(rows), against))
        return rows

    async def prioritize(self, pod: PodInfo, nodes: Nodes, answers: list[ExtenderAnswer]) -> Scores:
        """Scores to add to the totals of these nodes; extenders that fail add nothing."""
        called = [one for one in self._all if one.prioritizes and one.is_interested(pod)]
        given = await asyncio.gather(*(self._scores(one, pod, nodes, answers) for one in called))
        total = [wrap_int64(sum(scores)) for scores in zip(*given, strict=True)]
        return np.array(total or np.zeros(len(nodes)), np.int64)

    async def _scores(
        self, extender: Extender, pod: PodInfo, nodes: Nodes, answers: list[ExtenderAnswer]
    ) -> list[int]:
        scores = [0] * len(nodes)
        try:
            given = await extender.prioritize(pod, nodes)
        except KschedulerError as error:
            answers.append(_failed(extender, PRIORITIZE, len(nodes), error)._replace(ignored=True))
            log.v(5).info(
                "Failed to run extender's priority function. No score given by this extender.",
                error=str(error),
                pod=logs.ref(pod.pod),
                extender=extender.name,
            )
            return scores
        if v := log.v(10):
            ref = logs.ref(pod.pod)
            for host, score in given:
                v.info(
                    "Extender scored node for pod",
                    pod=ref,
                    extender=extender.name,
                    node=host,
                    score=score,
                )
        position = {name: number for number, name in enumerate(nodes.names)}
        times = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
        scored = 0
        for host, score in given:
            if host in position:
                scores[position[host]] += score * times
                scored += 1
        answers.append(ExtenderAnswer(extender.name, PRIORITIZE, len(nodes), scored))
        return scores

    def support_preemption(self, pod: PodInfo) -> bool:
        """Whether any of them has a say in which pods this one preempts."""
        return any(one.preempts and one.is_interested(pod) for one in self._all)

    async def process_preemption(
        self,
        pod: PodInfo,
        victims: Mapping[str, Victims],
        nodes: Nodes,
        answers: list[ExtenderAnswer],
    ) -> Mapping[str, Victims]:
        """Victims by node that all extenders leave.

        Raises KschedulerError if an extender fails that is not ignorable.
        """
        for extender in self._all:
            if not extender.preempts or not extender.is_interested(pod):
                continue
            try:
                chosen = await extender.process_preemption(pod, victims, nodes)
            except KschedulerError as error:
                answers.append(_failed(extender, PREEMPT, len(victims), error))
                if not extender.is_ignorable:
                    raise
                what = "Skipped extender as it returned error and has ignorable flag set"
                preemption_log.v(2).info(what, extender=extender.name, err=str(error))
                continue
            answers.append(ExtenderAnswer(extender.name, PREEMPT, len(victims), len(chosen)))
            victims = {}
            for name, of_node in chosen.items():
                if of_node.pods:
                    victims[name] = of_node
                elif extender.is_ignorable:
                    what = "Ignored node for which the extender didn't report victims"
                    preemption_log.v(2).info(what, node=name, extender=extender.name)
                else:
                    raise ExtenderError(f"expected at least one victim pod on node {quote(name)}")
            if not victims:
                break
        return victims

    async def bind(self, pod: PodInfo, node: str, answers: list[ExtenderAnswer]) -> ExtenderBinding:
        """Whether one of them has bound the pod. Raises KschedulerError if it should have."""
        unsettled = False
        for extender in self._all:
            if not extender.binds or not extender.is_interested(pod):
                continue
            try:
                await extender.bind(pod, node)
            except KschedulerError as error:
                answers.append(_failed(extender, BIND, 1, error))
                if not extender.is_ignorable:
                    raise
                what = "Skipping extender in bind as it returned error and has ignorable flag set"
                log.info(what, pod=logs.ref(pod.pod), extender=_SHOWN, err=str(error))
                unsettled = unsettled or error.unsettled
                continue
            answers.append(ExtenderAnswer(extender.name, BIND, 1, 1))
            return ExtenderBinding(is_bound=True, extender=extender.name)
        return ExtenderBinding(is_bound=False, unsettled=unsettled)


def _failed(extender: Extender, verb: str, asked: int, error: KschedulerError) -> ExtenderAnswer:
    ignored = extender.is_ignorable
    return ExtenderAnswer(extender.name, verb, asked, error=str(error), ignored=ignored)


def _rows(nodes: Nodes, names: Iterable[str]) -> Rows:
    """Rows by names, each once and in their order; unknown names are left out."""
    found = (nodes.row_of(name) for name in dict.fromkeys(names))
    return np.array([row for row in found if row is not None], np.intp)


def _charge(diagnosis: Diagnosis, nodes: Nodes, reasons: Mapping[str, str], code: Code) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        diagnosis.charge("", _rows(nodes, names), code, reason)
