"""All extenders together: how their answers combine with each other and with plugins' ones.

They are asked one after the other, those that may be ignored last; only for scores all at once.
Whoever waits for them holds the view of the cluster still (`held`), so that what was found before
the question is still true after the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any, NamedTuple, Protocol

import numpy as np

from kscheduler import logs
from kscheduler.errors import KschedulerError
from kscheduler.framework.status import MAX_NODE_SCORE, Code, Diagnosis, Rows, Scores
from kscheduler.gotext.strconv import quote
from kscheduler.runtime.extenders.extender import Extender, ExtenderError
from kscheduler.runtime.extenders.questions import Victims
from kscheduler.state.columns import wrap_int64
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)
preemption_log = logs.logger(__name__, "PostFilter.DefaultPreemption")

# Under which name extenders appear among the plugins that rejected a pod.
EXTENDER = "Extender"
MAX_EXTENDER_PRIORITY = 10
# How long the next decision waits for what piled up behind one that waited for extenders.
CATCH_UP_SECONDS = 0.25
# How upstream's log shows an extender.
_SHOWN: Mapping[str, Any] = {}


class World(Protocol):
    """What tells us of the cluster, and can be made to wait."""

    def hold(self) -> AbstractContextManager[None]:
        """Nothing is told until the block ends."""

    async def moving(self) -> None:
        """Return when nobody holds it."""

    async def catch_up(self, seconds: float, /) -> None:
        """Return when what piled up has been told, or so much time has passed."""


class Still:
    """A world that never changes by itself."""

    def hold(self) -> AbstractContextManager[None]:
        return nullcontext()

    async def moving(self) -> None:
        pass

    async def catch_up(self, seconds: float, /) -> None:
        await asyncio.sleep(0)


class ExtenderBinding(NamedTuple):
    """`unsettled` is whether one that may be ignored was asked to bind and has not answered."""

    is_bound: bool
    unsettled: bool = False


class Extenders:
    def __init__(self, extenders: Iterable[Extender] = (), world: World | None = None) -> None:
        self._all = sorted(extenders, key=lambda one: one.is_ignorable)
        self._world = world or Still()
        self.held = self._world.hold
        self.moving = self._world.moving
        self.can_filter = any(one.filters for one in self._all)
        self.can_prioritize = any(one.prioritizes for one in self._all)

    def __bool__(self) -> bool:
        return bool(self._all)

    async def catch_up(self) -> None:
        await self._world.catch_up(CATCH_UP_SECONDS)

    def concern(self, pod: PodInfo) -> bool:
        """Whether any of them wants to be asked which nodes suit the pod."""
        return any(
            (one.filters or one.prioritizes) and one.is_interested_in(pod) for one in self._all
        )

    async def filter(self, pod: PodInfo, nodes: Nodes, rows: Rows, diagnosis: Diagnosis) -> Rows:
        """Of these rows those that all let through; why others fail goes into the diagnosis, in
        place of what was said of them before, by plugins or by other extenders.

        Raises KschedulerError if one that matters fails.
        """
        for extender in self._all:
            if not len(rows):
                break
            if not extender.filters or not extender.is_interested_in(pod):
                continue
            view = nodes.take(rows)
            try:
                names, failed, unresolvable = await extender.filter(pod, view)
            except KschedulerError as error:
                if not extender.is_ignorable:
                    raise
                what = "Skipping extender as it returned error and has ignorable flag set"
                log.info(what, pod=logs.ref(pod.pod), extender=_SHOWN, err=str(error))
                continue
            diagnosis.acquit(_rows(nodes, chain(failed, unresolvable)))
            _charge(diagnosis, nodes, unresolvable, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)
            left = {name: why for name, why in failed.items() if name not in unresolvable}
            _charge(diagnosis, nodes, left, Code.UNSCHEDULABLE)
            rows = _rows(nodes, names)
        return rows

    async def prioritize(self, pod: PodInfo, nodes: Nodes) -> Scores:
        """What they add to the totals of these nodes; those that fail add nothing."""
        asked = [one for one in self._all if one.prioritizes and one.is_interested_in(pod)]
        given = await asyncio.gather(*(self._scores(one, pod, nodes) for one in asked))
        total = [wrap_int64(sum(scores)) for scores in zip(*given, strict=True)]
        return np.array(total or np.zeros(len(nodes)), np.int64)

    async def _scores(self, extender: Extender, pod: PodInfo, nodes: Nodes) -> list[int]:
        scores = [0] * len(nodes)
        try:
            given = await extender.prioritize(pod, nodes)
        except KschedulerError as error:
            log.v(5).info(
                "Failed to run extender's priority function. No score given by this extender.",
                error=str(error),
                pod=logs.ref(pod.pod),
                extender=extender.name,
            )
            return scores
        position = {name: number for number, name in enumerate(nodes.names)}
        times = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_PRIORITY)
        for host, score in given:
            if host in position:
                scores[position[host]] += score * times
        return scores

    def may_choose_victims_for(self, pod: PodInfo) -> bool:
        """Whether any of them has a say in whom the pod may preempt."""
        return bool(self._choosing_victims_for(pod))

    def _choosing_victims_for(self, pod: PodInfo) -> Sequence[Extender]:
        return [one for one in self._all if one.preempts and one.is_interested_in(pod)]

    async def choose_victims(
        self, pod: PodInfo, victims: Mapping[str, Victims], nodes: Nodes
    ) -> Mapping[str, Victims]:
        """By node, what all let happen. Raises KschedulerError if one that matters fails."""
        for extender in self._choosing_victims_for(pod):
            try:
                chosen = await extender.choose_victims(pod, victims, nodes)
            except KschedulerError as error:
                if not extender.is_ignorable:
                    raise
                what = "Skipped extender as it returned error and has ignorable flag set"
                preemption_log.v(2).info(what, extender=extender.name, err=str(error))
                continue
            victims = _with_victims(extender, chosen)
            if not victims:
                break
        return victims

    async def bind(self, pod: PodInfo, node: str) -> ExtenderBinding:
        """Whether one of them has bound the pod. Raises KschedulerError if it should have."""
        unsettled = False
        for extender in self._all:
            if not extender.binds or not extender.is_interested_in(pod):
                continue
            try:
                await extender.bind(pod, node)
            except KschedulerError as error:
                if not extender.is_ignorable:
                    raise
                what = "Skipping extender in bind as it returned error and has ignorable flag set"
                log.info(what, pod=logs.ref(pod.pod), extender=_SHOWN, err=str(error))
                unsettled = unsettled or error.unsettled
                continue
            return ExtenderBinding(is_bound=True)
        return ExtenderBinding(is_bound=False, unsettled=unsettled)


def _rows(nodes: Nodes, names: Iterable[str]) -> Rows:
    """Each once, in the order of their names here; names nobody has are left out."""
    found = (nodes.row_of(name) for name in dict.fromkeys(names))
    return np.array([row for row in found if row is not None], np.intp)


def _charge(diagnosis: Diagnosis, nodes: Nodes, reasons: Mapping[str, str], code: Code) -> None:
    by_reason: dict[str, list[str]] = {}
    for name, reason in reasons.items():
        by_reason.setdefault(reason, []).append(name)
    for reason, names in by_reason.items():
        diagnosis.charge("", _rows(nodes, names), code, reason)


def _with_victims(extender: Extender, chosen: Mapping[str, Victims]) -> dict[str, Victims]:
    kept = {}
    for name, victims in chosen.items():
        if victims.pods:
            kept[name] = victims
        elif extender.is_ignorable:
            what = "Ignored node for which the extender didn't report victims"
            preemption_log.v(2).info(what, node=name, extender=extender.name)
        else:
            raise ExtenderError(f"expected at least one victim pod on node {quote(name)}")
    return kept
