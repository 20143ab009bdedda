"""PreScore and Score: how well each feasible node suits the pod.

Per plugin one array of whole numbers, brought into 0..100 and multiplied by the plugin's weight; a
node's total is the sum over plugins. A plugin that said Skip in PreScore contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from kscheduler import logs
from kscheduler.api.meta import EMPTY
from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.in_tree import NormalizeScore, PreScorePlugin, ScorePlugin
from kscheduler.framework.status import (
    ALL_ZERO,
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SKIP,
    Code,
    Rows,
    Scores,
    Status,
)
from kscheduler.metrics import Counter, Metrics
from kscheduler.runtime.plugin_calls import PluginCalls, calls_plugins
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

ScoreMatrix = NDArray[np.int64]  # [plugins, nodes]
_Normalize = Callable[[CycleState, PodInfo, Scores, Nodes], Scores]

log = logs.logger(__name__)

# The -v at which a plugin says how a node came to its score.
SCORED_NODES_FROM = 10

_INT64 = np.dtype(np.int64)
_TOO_LARGE = 2.0**63


class PluginScores(NamedTuple):
    """One plugin's opinion: as it gave it, brought into 0..100, and how much that counts."""

    plugin: str
    weight: int
    raw: Scores
    normalized: Scores


class ScoreBoard(msgspec.Struct):
    """The scores of the feasible nodes, in the order of the view that was scored."""

    plugins: list[str]
    weights: NDArray[np.int64]
    raw: list[Scores]
    normalized: ScoreMatrix
    total: Scores
    # Rows of the nodes, and per plugin whether it normalizes, or its raw scores count as they are.
    rows: Rows
    normalizes: Sequence[bool]
    # Weights of the plugins that gave zero to every node; the fields above leave them out.
    all_zero: Mapping[str, int] = EMPTY

    def __iter__(self) -> Iterator[PluginScores]:
        weights = self.weights.tolist()
        for name, weight, raw, normalized in zip(
            self.plugins, weights, self.raw, self.normalized, strict=True
        ):
            yield PluginScores(name, weight, raw, normalized)
        zeros = np.zeros(len(self.total), _INT64)
        for name, weight in self.all_zero.items():
            yield PluginScores(name, weight, zeros, zeros)


class _PreScore(NamedTuple):
    name: str
    ask: Callable[[CycleState, PodInfo, Nodes], Status | None]
    evaluations: Counter


class _Score(NamedTuple):
    name: str
    weight: int
    ask: Callable[[CycleState, PodInfo, Nodes], Scores]
    normalize: _Normalize | None
    evaluations: Counter
    # Says in the log how each node came to its score.
    log_scored: Callable[[CycleState, PodInfo, Nodes, Scores], None] | None


class _Panel(NamedTuple):
    """Plugins that score an attempt, in order; `weights` is [plugins]."""

    plugins: list[_Score]
    names: list[str]
    weights: NDArray[np.int64]
    normalizes: tuple[bool, ...]


class ScoringError(Exception):
    """A plugin did not give usable scores; the text is what the attempt fails with."""


class Scoring:
    """Runs the plugins of PreScore and Score."""

    def __init__(
        self,
        profile: str,
        metrics: Metrics,
        pre_score: Sequence[PreScorePlugin],
        score: Sequence[ScorePlugin],
        weights: Mapping[str, int],
    ) -> None:
        self._pre_score_point = PluginCalls("PreScore", profile, metrics)
        self._score_point = PluginCalls("Score", profile, metrics)
        self._pre_scores = [
            _PreScore(one.name, one.pre_score, self._pre_score_point.evaluations(one.name))
            for one in pre_score
        ]
        self._timed_pre_scores = [
            one._replace(ask=self._pre_score_point.timed(one.name, one.ask))
            for one in self._pre_scores
        ]
        self._scores = [
            _Score(
                one.name,
                weights[one.name],
                one.score,
                one.normalize if isinstance(one, NormalizeScore) else None,
                self._score_point.evaluations(one.name),
                getattr(one, "log_scored", None),
            )
            for one in score
        ]
        # Callbacks for out-of-range scores, by plugin name.
        self._out_of_range: dict[str, Callable[[PodInfo, str], None]] = {
            one.name: one.out_of_range for one in score if hasattr(one, "out_of_range")
        }
        self._panels: dict[tuple[frozenset[str], bool], _Panel] = {}

    @calls_plugins("PreScore", by="name")
    def run_pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """None, or the error of the plugin that could not prepare."""
        started = perf_counter()
        status: Status | None = None
        skipping = cycle.skip_score = set()
        for name, ask, evaluations in self._timed_pre_scores if cycle.sampled else self._pre_scores:
            try:
                answer = ask(cycle, pod, nodes)
            except Exception as error:
                answer = self._pre_score_point.exception_status(name, error)
            if answer is SKIP or (answer is not None and answer.code is Code.SKIP):
                skipping.add(name)
                continue
            evaluations.value += 1
            if answer is not None and answer.code is not Code.SUCCESS:
                text = f'running PreScore plugin "{name}": {answer.message}'
                status = Status(Code.ERROR, (text,))
                break
        self._pre_score_point.observe(status, started)
        return status

    def run_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> ScoreBoard | Status:
        started = perf_counter()
        result: ScoreBoard | Status
        try:
            result = self._board(cycle, pod, nodes)
        except ScoringError as error:
            result = Status(Code.ERROR, (str(error),))
        self._score_point.observe(result if isinstance(result, Status) else None, started)
        return result

    @calls_plugins("Score", by="plugin")
    def _board(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> ScoreBoard:
        # Plugins that were not skipped.
        skipped, sampled = frozenset(cycle.skip_score), cycle.sampled
        panel = self._panels.get((skipped, sampled)) or self._new_panel(skipped, sampled=sampled)
        size = len(nodes)
        shape = (size,)
        verbose = bool(log.v(SCORED_NODES_FROM))
        raw = []
        all_zero: dict[str, int] = {}
        for plugin in panel.plugins:
            plugin.evaluations.value += size
            try:
                scores = plugin.ask(cycle, pod, nodes)
                if type(scores) is np.ndarray and scores.dtype is _INT64 and scores.shape == shape:
                    raw.append(scores)
                elif scores is not ALL_ZERO:
                    raw.append(whole_numbers(scores, size))
                elif sampled:
                    # Every call is timed then, normalize's too.
                    raw.append(np.zeros(size, _INT64))
                else:
                    all_zero[plugin.name] = plugin.weight
            except Exception as error:
                raise self._failed("running Score plugins", plugin, error) from error
            if verbose and plugin.log_scored is not None and scores is not ALL_ZERO:
                plugin.log_scored(cycle, pod, nodes, raw[-1])
        if all_zero:
            skipped = skipped.union(all_zero)
            panel = self._panels.get((skipped, sampled)) or self._new_panel(
                skipped, sampled=sampled
            )
        plugins, names, weights, normalizes = panel
        # One matrix, so that checking the range and weighing are one operation each.
        normalized = np.empty((len(plugins), size), _INT64)
        for index, plugin in enumerate(plugins):
            scores = raw[index]
            if plugin.normalize is not None:
                try:
                    scores = whole_numbers(plugin.normalize(cycle, pod, scores, nodes), size)
                except Exception as error:
                    what = "running Normalize on Score plugins"
                    raise self._failed(what, plugin, error) from error
            normalized[index] = scores
        beyond = _out_of_range(normalized)
        if beyond is not None:
            index, score = beyond
            text = (
                "applying score defaultWeights on Score plugins: "
                f'plugin "{names[index]}" returns an invalid score {score}, '
                f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
            )
            if names[index] in self._out_of_range:
                self._out_of_range[names[index]](pod, text)
            raise ScoringError(text)
        total = weights.dot(normalized)
        return ScoreBoard(names, weights, raw, normalized, total, nodes.rows, normalizes, all_zero)

    def _failed(self, what: str, plugin: _Score, error: Exception) -> ScoringError:
        status = self._score_point.exception_status(plugin.name, error)
        return ScoringError(f'{what}: plugin "{plugin.name}" failed with: {status.message}')

    def _new_panel(self, skipped: frozenset[str], *, sampled: bool) -> _Panel:
        """All plugins but these; the few combinations that occur are kept."""
        plugins = [one for one in self._scores if one.name not in skipped]
        names = [one.name for one in plugins]
        weights = np.array([one.weight for one in plugins], _INT64)
        if sampled:
            timed = self._score_point.timed
            plugins = [
                one._replace(
                    ask=timed(one.name, one.ask),
                    normalize=one.normalize
                    and timed(one.name, one.normalize, "ScoreExtensionNormalize"),
                )
                for one in plugins
            ]
        panel = self._panels[skipped, sampled] = _Panel(
            plugins, names, weights, tuple([one.normalize is not None for one in plugins])
        )
        return panel


class BadScoresError(KschedulerError):
    """An answer that is not scores: too many or too few, or not numbers."""

    def __init__(self, text: str, *, not_a_number: bool = False) -> None:
        super().__init__(text)
        self.not_a_number = not_a_number


def whole_numbers(scores: Scores, size: int) -> Scores:
    """The scores as int64, one per node; floats lose their fraction but must be numbers."""
    if type(scores) is np.ndarray and scores.dtype is _INT64 and scores.shape == (size,):
        return scores
    array = np.asarray(scores)
    if array.shape != (size,):
        got = f"an array of shape {array.shape}" if array.shape else type(scores).__name__
        raise BadScoresError(f"expected an array of {size} scores, got {got}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise BadScoresError("a score is not a number", not_a_number=True)
    if array.dtype.kind in "fu" and (np.abs(array) >= _TOO_LARGE).any():
        raise BadScoresError("a score does not fit 64 bits")
    if array.dtype.kind not in "iufb":
        raise BadScoresError(f"scores are {array.dtype}, not numbers")
    return array.astype(_INT64)


def _out_of_range(normalized: ScoreMatrix) -> tuple[int, int] | None:
    """The index of the plugin whose score is the first out of range, and that score.

    First by node, then by plugin, as upstream finds it. `normalized` is [plugins, nodes].
    """
    # Read as unsigned, a negative score is a huge one: one maximum finds both kinds.
    unsigned = normalized.view(np.uint64)
    if not normalized.size or unsigned.item(unsigned.argmax()) <= MAX_NODE_SCORE:
        return None
    node, index = np.argwhere(unsigned.T > MAX_NODE_SCORE)[0].tolist()
    return index, int(normalized[index, node])
