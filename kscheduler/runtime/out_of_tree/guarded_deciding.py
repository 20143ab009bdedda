"""What an attempt asks of a plugin from outside: which nodes, and which of them rather."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SKIP,
    Code,
    Diagnosis,
    Rejection,
    Scores,
    Status,
)
from kscheduler.runtime.out_of_tree import answers
from kscheduler.runtime.out_of_tree.asked import Asked
from kscheduler.runtime.out_of_tree.guard import SCORE
from kscheduler.runtime.out_of_tree.health import Fault, PluginFault
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

NOTHING_TO_OFFER = PostFilterResult(Status(Code.UNSCHEDULABLE))


class GuardedDeciding(Asked):
    def _pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        if self._guard.idle:
            return SKIP
        ask = self._plugin_method("pre_filter")
        return self._guard.ask(
            "PreFilter",
            pod.pod,
            answers.status_or_names,
            ask,
            cycle,
            self._pod(pod),
            self._nodes(nodes),
        )

    def _add_pod(
        self, cycle: CycleState, pod: PodInfo, added: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._extend("add_pod", cycle, pod, added, row, nodes)

    def _remove_pod(
        self, cycle: CycleState, pod: PodInfo, removed: PodInfo, row: int, nodes: Nodes
    ) -> Status | None:
        return self._extend("remove_pod", cycle, pod, removed, row, nodes)

    def _extend(
        self,
        method: str,
        cycle: CycleState,
        pod: PodInfo,
        other: PodInfo,
        row: int,
        nodes: Nodes,
    ) -> Status | None:
        if self._guard.idle:
            return None
        return self._guard.ask(
            "PreFilterExtension",
            pod.pod,
            answers.status,
            self._plugin_method(method),
            cycle,
            self._pod(pod),
            self._pod(other),
            row,
            self._nodes(nodes),
        )

    def _filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterable[Rejection]:
        if self._guard.idle:
            return ()
        check = partial(answers.rejections, size=len(nodes))
        return self._guard.ask("Filter", pod.pod, check, self._all_rejections, cycle, pod, nodes)

    def _all_rejections(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Any:
        """With all that a generator has to say, which it says while it is watched."""
        found = self.plugin.filter(cycle, self._pod(pod), self._nodes(nodes))
        return list(found) if inspect.isgenerator(found) else found

    def _post_filter(
        self, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        if self._guard.idle:
            return NOTHING_TO_OFFER
        ask = self._plugin_method("post_filter")
        seen = _copied(diagnosis)
        result = self._guard.ask(
            "PostFilter", pod.pod, answers.post_filter_result, ask, cycle, self._pod(pod), seen
        )
        if result.preparation is None:
            return result
        return replace(result, preparation=self._prepared(pod, result.preparation))

    def _prepared(
        self, pod: PodInfo, work: Callable[[], Awaitable[PostFilterResult]]
    ) -> Callable[[], Awaitable[PostFilterResult]]:
        check = answers.post_filter_result
        return lambda: self._guard.wait_for("PostFilter", pod.pod, check, work)

    def _pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if self._guard.idle:
            return SKIP
        ask = self._plugin_method("pre_score")
        return self._guard.ask(
            "PreScore", pod.pod, answers.status, ask, cycle, self._pod(pod), self._nodes(nodes)
        )

    def _score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        scores = self._scores(self.plugin.score, cycle, pod, nodes)
        return scores if hasattr(self.plugin, "normalize") else self._final(scores)

    def _normalize(self, cycle: CycleState, pod: PodInfo, scores: Scores, nodes: Nodes) -> Scores:
        return self._final(self._scores(self.plugin.normalize, cycle, pod, nodes, scores))

    def _scores(
        self, ask: Callable[..., Any], cycle: CycleState, pod: PodInfo, nodes: Nodes, *raw: Scores
    ) -> Scores:
        size = len(nodes)
        if self._guard.idle:
            return np.zeros(size, np.int64)
        check = partial(answers.scores, size=size)
        seen = (cycle, self._pod(pod), *raw, self._nodes(nodes))
        return self._guard.ask(SCORE, pod.pod, check, ask, *seen)

    def _final(self, scores: Scores) -> Scores:
        """What is out of range is told later; only for who has failed before it matters now."""
        health = self._guard.health
        if health.has_failed and len(scores) and _in_range(scores):
            health.succeeded(SCORE)
        return scores

    def out_of_range(self, pod: PodInfo, text: str) -> None:
        """Its scores, which were numbers, are beyond 0..100 in the end."""
        self._guard.blame(SCORE, pod.pod, PluginFault(Fault.SCORE, text))


def _in_range(scores: Scores) -> bool:
    return bool(scores.min() >= MIN_NODE_SCORE and scores.max() <= MAX_NODE_SCORE)


def _copied(diagnosis: Diagnosis) -> Diagnosis:
    return replace(
        diagnosis,
        charges=list(diagnosis.charges),
        unschedulable_plugins=set(diagnosis.unschedulable_plugins),
        pending_plugins=set(diagnosis.pending_plugins),
    )
