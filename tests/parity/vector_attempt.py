"""One attempt to place a pod, observed in the words of the recording.

What an attempt does is done by the scheduler's own `find` and `choose`. They keep what a daemon
needs; a recording also has what every plugin thinks on its own, so the framework is asked for that.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from kscheduler.config.profiles import EffectivePlugins
from kscheduler.cycle import attempt
from kscheduler.cycle.attempt import Failed, Feasible, Unschedulable, at_once
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.plugin import PostFilterResult
from kscheduler.framework.status import Charge, Code, Diagnosis, Status
from kscheduler.plugins.volume_binding.plugin import VolumeBindingState
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.pre_filter import PreFilterOutcome
from kscheduler.runtime.score import ScoreBoard
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo
from tests.parity.vector_api import at_end
from tests.parity.vector_cluster import Cluster


@dataclass
class Filtered:
    """What PreFilter and Filter said; nodes by name."""

    skip: set[str]
    # Recorded only when PreFilter ended the attempt, as all that follows is then missing.
    ended: dict | None = None
    names: set[str] | None = None
    names_plugins: set[str] = field(default_factory=set)
    first: dict[str, dict] = field(default_factory=dict)
    alone: dict[str, list[dict]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    feasible: set[str] = field(default_factory=set)


@dataclass
class Scored:
    """What PreScore and Score said of the nodes in the order they were asked about."""

    skip: set[str]
    scores: dict[str, dict]
    total: list[int]
    # The node that was really chosen, by chance among the best.
    picked: str
    error: str = ""


class Attempt:
    def __init__(self, cluster: Cluster, pod: PodInfo) -> None:
        self.cluster = cluster
        self.pod = pod
        self.framework: Framework | None = cluster.frameworks.get(pod.pod.spec.scheduler_name)
        self.nodes: Nodes = cluster.cache.snapshot()
        self.cycle = CycleState()

    @property
    def effective(self) -> EffectivePlugins:
        """What the pod's profile runs by its configuration, built or not."""
        return self.cluster.completed.plugins[self.pod.pod.spec.scheduler_name]

    def gated_by(self) -> list[dict]:
        """The PreEnqueue plugins that hold the pod back, each asked by itself."""
        answers = []
        for plugin in self.framework.plugins_at["preEnqueue"]:
            status = plugin.pre_enqueue(self.pod)
            if status is not None:
                answers.append(as_recorded(status.by(plugin.name)))
        first = self.framework.run_pre_enqueue(self.pod)
        assert (first is None) == (not answers)
        return answers

    def find(self) -> Feasible | Unschedulable | Failed:
        self.cycle = CycleState()
        return at_once(self.cluster.algorithm.find_nodes_that_fit_pod(self._attempt(self.cycle)))

    def _attempt(self, cycle: CycleState) -> attempt.Attempt:
        assert self.framework is not None
        queued = QueuedPodInfo(self.pod, timestamp=0.0)
        return attempt.Attempt(queued, self.framework, cycle, self.nodes)

    def filter(self) -> Filtered:
        cycle = CycleState()
        outcome = self.framework.run_pre_filter(cycle, self.pod, self.nodes)
        seen = Filtered(set(cycle.skip_filter), names_plugins=set(outcome.plugins))
        if outcome.status is not None:
            seen.ended = as_recorded(outcome.status)
            return seen
        view = self._narrowed(outcome, seen)
        filtered = self.framework.filter_with_nominated(cycle, self.pod, view)
        seen.first = self.by_node(filtered.charges)
        seen.errors = {
            self._name(row): charge.reason for charge in filtered.errors for row in charge.rows
        }
        seen.feasible = {self._name(row) for row in filtered.feasible}
        seen.alone = self._alone(cycle, view)
        return seen

    def _narrowed(self, outcome: PreFilterOutcome, seen: Filtered) -> Nodes:
        """The nodes to look at: those PreFilter left, and the one promised to the pod."""
        if outcome.names is None:
            return self.nodes
        seen.names = set(outcome.names)
        tried = seen.names | {self.pod.pod.status.nominated_node_name}
        rows = [self.nodes.row_of(name) for name in sorted(tried)]
        return self.nodes.take([row for row in rows if row is not None])

    def _alone(self, cycle: CycleState, view: Nodes) -> dict[str, list[dict]]:
        """Per node every plugin that rejects it, whatever the plugins before said."""
        found: dict[str, list[dict]] = {}
        for plugin in self.framework.plugins_at["filter"]:
            if plugin.name in cycle.skip_filter:
                continue
            charges = [
                Charge(plugin.name, view.rows[one.mask & view.valid], one.code, one.reason)
                for one in plugin.filter(cycle, self.pod, view)
                if one.code is not Code.ERROR
            ]
            for name, status in self.by_node(charges).items():
                found.setdefault(name, []).append(status)
        return found

    def choose(self, names: Iterable[str]) -> Scored:
        """Scores these nodes, though there be only one of them."""
        rows = np.array([self.nodes.row_of(name) for name in names], np.intp)
        view = self.nodes.take(rows)
        cycle = self.cycle.clone()
        problem = self.framework.run_pre_score(cycle, self.pod, view)
        if problem is not None:
            return Scored(set(), {}, [], "", problem.message)
        board = self.framework.run_score(cycle, self.pod, view)
        if isinstance(board, Status):
            return Scored(set(cycle.skip_score), {}, [], "", board.message)
        algorithm = self.cluster.algorithm
        scores = at_once(algorithm.prioritize_nodes(self._attempt(self.cycle.clone()), view))
        assert isinstance(scores, ScoreBoard)
        picked = view.name_of(algorithm.select_host(scores.total))
        return Scored(set(cycle.skip_score), _scores(board), board.total.tolist(), picked)

    def post_filter(self, diagnosis: Diagnosis) -> PostFilterResult:
        """PostFilter's answer, after what it waits for."""
        result = self.framework.run_post_filter(self.cycle, self.pod, diagnosis)
        while result.preparation is not None:
            result = at_end(result.preparation())
        return result

    def reserve(self, node: str) -> Status | None:
        """Assume the pod on the node and reserve what it needs there.

        What DynamicResources has reserved is written at once, as in the recording: the plugin does
        it in PreBind, of which the plugins for volumes take no part here.
        """
        placed = self.cluster.place(self.pod, node)
        status = self.framework.run_reserve(self.cycle, placed, node)
        if status is not None:
            self.framework.run_unreserve(self.cycle, placed, node)
            self.cluster.take_back(self.pod)
            return status
        for plugin in self.framework.plugins_at["preBind"]:
            if plugin.name == "DynamicResources":
                status = at_end(plugin.pre_bind(self.cycle, placed, node))
        return status

    def reserved_claims(self) -> dict[str, str]:
        """Allocations of the claims that are reserved for the pod, as JSON by name."""
        return self.cluster.api.claims_of(self.pod.pod)

    def reserved_volumes(self) -> dict[str, list]:
        """What VolumeBinding has reserved: existing volumes, and claims to make volumes for."""
        state = self.cycle.get(VolumeBindingState)
        if state is None or state.assumed is None:
            return {"staticBindings": [], "provision": []}
        reserved = state.assumed
        return {
            "staticBindings": [
                [one.claim.name, one.volume.name] for one in reserved.static_bindings
            ],
            "provision": [one.claim.name for one in reserved.dynamic_provisions],
        }

    def by_node(self, charges: Iterable[Charge]) -> dict[str, dict]:
        """Per node its status; a node is charged by one plugin, perhaps for several reasons."""
        found: dict[str, dict] = {}
        for charge in charges:
            for row in charge.rows:
                status = found.setdefault(
                    self._name(row), {"plugin": charge.plugin, "code": charge.code, "reasons": []}
                )
                status["code"] = max(status["code"], charge.code)
                status["reasons"].append(charge.reason)
        for status in found.values():
            status["code"] = Code(status["code"]).text
            status["reasons"].sort()
        return found

    def _name(self, row: int) -> str:
        return self.nodes.name_of(row)


def _scores(board: ScoreBoard) -> dict[str, dict]:
    return {
        one.plugin: {
            "weight": one.weight,
            "raw": one.raw.tolist(),
            "normalized": one.normalized.tolist(),
        }
        for one in board
    }


def as_recorded(status: Status) -> dict:
    known = {
        "plugin": status.plugin,
        "code": status.code.text,
        "reasons": sorted(status.reasons),
    }
    return {key: value for key, value in known.items() if value}
