"""What must equal what: an observed attempt against the recorded one."""

from collections.abc import Iterator

from kscheduler.config.profiles import Completed, EffectivePlugins
from kscheduler.cycle.attempt import Failed, Feasible, Unschedulable
from kscheduler.extension_points import Point
from kscheduler.framework.status import Status
from tests.parity.vector_api import stable_text
from tests.parity.vector_attempt import Attempt, Filtered, as_recorded
from tests.parity.vector_difference import Difference, Mismatch, differ
from tests.parity.vector_preemption import compare_post_filter

POINTS = (
    Point.QUEUE_SORT,
    Point.PRE_ENQUEUE,
    Point.PRE_FILTER,
    Point.FILTER,
    Point.POST_FILTER,
    Point.PRE_SCORE,
    Point.SCORE,
    Point.RESERVE,
)


def compare_profiles(wanted: dict, completed: Completed) -> Iterator[Mismatch]:
    got = {name: _as_recorded(plugins) for name, plugins in completed.plugins.items()}
    for name in wanted.keys() | got.keys():
        one, other = wanted.get(name, {}), got.get(name, {})
        for key in one.keys() | other.keys():
            # A point without plugins may be recorded as null or not at all.
            if (one.get(key) or None) != (other.get(key) or None):
                what = f"profile {name}, {key}"
                yield Mismatch("", "", "", what, one.get(key), other.get(key))


def _as_recorded(plugins: EffectivePlugins) -> dict:
    weights = {name: plugins.score_weights[name] for name in plugins[Point.SCORE]}
    return {point.value: list(plugins[point]) for point in POINTS} | {"scoreWeights": weights}


def compare_queue_order(result: dict, got: list[str]) -> Iterator[Mismatch]:
    wanted = result["queueOrder"] or []
    if wanted != got:
        yield Mismatch("", "", "", "queueOrder", wanted, got)


def compare_reserve(record: dict, attempt: Attempt, status: Status | None) -> Iterator[Mismatch]:
    """Whether Reserve agreed, and which volumes and devices the pod was given."""
    reserved = record.get("reserve", {})
    claims = {name: stable_text(one) for name, one in reserved.get("claims", {}).items()}
    wanted = {"status": None, "staticBindings": [], "provision": []} | reserved | {"claims": claims}
    seen = {
        "status": None if status is None else as_recorded(status),
        **attempt.reserved_volumes(),
        "claims": attempt.reserved_claims(),
    }
    for what in wanted.keys() | seen.keys():
        one, other = wanted.get(what), seen.get(what)
        if one != other:
            yield Mismatch(record["pod"], record["chosen"], "", f"reserve.{what}", one, other)


def compare_attempt(record: dict, attempt: Attempt) -> Iterator[Mismatch]:
    for about, what, wanted, got in _Comparison(record, attempt).differences():
        node, plugin = about
        yield Mismatch(record["pod"], node, plugin, what, wanted, got)


class _Comparison:
    def __init__(self, record: dict, attempt: Attempt) -> None:
        self.record = record
        self.attempt = attempt
        self.outcome: str = record["outcome"]

    def differences(self) -> Iterator[Difference]:
        if self.attempt.framework is None:
            yield from differ("outcome", self.outcome, "noProfile")
            return
        gated = self.attempt.gated_by()
        wanted = self.record.get("preEnqueue", [])
        yield from differ("preEnqueue", _unordered(wanted), _unordered(gated))
        if self.outcome == "gated":
            return
        if self.attempt.pod.terminating or self.outcome == "skipped":
            got = "skipped" if self.attempt.pod.terminating else "tried"
            yield from differ("outcome", self.outcome, got)
            return
        yield from self._tried()

    def _tried(self) -> Iterator[Difference]:
        found = self.attempt.find()
        seen = self.attempt.filter()
        yield from self._pre_filter(seen)
        if self.record.get("nominatedOnly"):
            yield from differ("nominated", self.record["feasible"], self._found_names(found))
        elif "status" not in self.record["preFilter"]:
            yield from self._filter(seen)
        yield from self._found(found, seen)
        if "feasible" in self.record:
            yield from self._scores()

    def _pre_filter(self, seen: Filtered) -> Iterator[Difference]:
        recorded = self.record["preFilter"]
        ended = recorded.get("status")
        yield from differ("preFilter.status", ended, seen.ended)
        yield from differ("preFilter.skip", sorted(recorded.get("skip", ())), sorted(seen.skip))
        if ended is None:
            names = set(recorded["nodeNames"]) if "nodeNames" in recorded else None
            restricting = recorded.get("nodeNamesPlugins") or ()
            yield from differ("preFilter.nodeNames", _ordered(names), _ordered(seen.names))
            # Upstream adds to this very set what rejects the node that is tried first.
            promised = self.attempt.pod.pod.status.nominated_node_name
            if seen.names is not None and promised in seen.first:
                seen.names_plugins.add(seen.first[promised]["plugin"])
            yield from differ(
                "preFilter.nodeNamesPlugins", sorted(restricting), sorted(seen.names_plugins)
            )

    def _filter(self, seen: Filtered) -> Iterator[Difference]:
        """Node by node: who rejects it first, and who would have rejected it as well."""
        errors = self.record.get("nodeErrors", {})
        rejected, also = self.record.get("rejected", {}), self.record.get("also", {})
        passed = self.record.get("feasible", ())
        recorded = {*rejected, *passed, *errors}
        tried = seen.first.keys() | seen.errors.keys() | seen.feasible
        for node in sorted(recorded | tried):
            yield from differ("error", errors.get(node), seen.errors.get(node), node=node)
            if node in errors:
                continue
            first, got = rejected.get(node), seen.first.get(node)
            plugin = (first or got or {}).get("plugin", "")
            yield from differ("rejected", first, got, node=node, plugin=plugin)
            if node not in self._promised() and self.outcome != "error":
                listed = [*([first] if first else ()), *also.get(node, ())]
                yield from differ(
                    "also", listed, seen.alone.get(node, []), node=node, plugin=plugin
                )

    def _promised(self) -> set[str]:
        return set(self.attempt.cluster.nominator.nodes)

    def _found(self, found: object, seen: Filtered) -> Iterator[Difference]:
        """What `find` made of it: the same nodes, or the same reasons in the same words."""
        match found:
            case Feasible():
                yield from self._found_feasible(found, seen)
            case Unschedulable():
                yield from differ("outcome", self.outcome, "unschedulable")
                yield from differ("fitError", self.record.get("fitError"), found.message)
                diagnosis = found.diagnosis
                for key, got in (
                    ("unschedulablePlugins", diagnosis.unschedulable_plugins),
                    ("pendingPlugins", diagnosis.pending_plugins),
                ):
                    yield from differ(key, self.record.get(key, []), sorted(got))
                yield from compare_post_filter(self.record, self.attempt, found)
            case Failed():
                yield from differ("outcome", self.outcome, "error")
                texts = set(self.record.get("nodeErrors", {}).values())
                texts |= {self.record.get("error", "")}
                if found.status.message not in texts:
                    yield from differ("error", self.record.get("error"), found.status.message)

    def _found_feasible(self, found: Feasible, seen: Filtered) -> Iterator[Difference]:
        names = self._found_names(found)
        if self.outcome == "error":
            # Then it must have been scoring that failed.
            error = self.attempt.choose(sorted(seen.feasible)).error
            yield from differ("error", self.record.get("error"), error)
        elif self.attempt.framework.has_score_plugins:
            yield from differ("found", self.record.get("feasible", []), names)
        else:
            # Without scores to compare, the first feasible node ends the search.
            yield from differ("found", True, names[0] in seen.feasible)

    def _found_names(self, found: object) -> list[str]:
        if not isinstance(found, Feasible):
            return []
        return sorted(self.attempt.nodes.name_of(int(row)) for row in found.rows)

    def _scores(self) -> Iterator[Difference]:
        """Over the recorded feasible nodes, whoever else we would have let through."""
        record = self.record
        names: list[str] = record["feasible"]
        scored = self.attempt.choose(names)
        yield from differ("error", record.get("error", ""), scored.error)
        if scored.error:
            return
        yield from differ("skipScore", sorted(record.get("skipScore", ())), sorted(scored.skip))
        recorded = record.get("scores") or {}
        for plugin in recorded.keys() | scored.scores.keys():
            yield from self._plugin_scores(
                plugin, recorded.get(plugin, {}), scored.scores.get(plugin, {})
            )
        total = scored.total or [0] * len(names)
        yield from differ("total", record["total"], total)
        best = [name for name, points in zip(names, total, strict=True) if points == max(total)]
        yield from differ("ties", record["ties"], best)
        yield from differ("chosen", record["chosen"], min(best))
        yield from differ("picked one of the best", True, scored.picked in best)

    def _plugin_scores(self, plugin: str, wanted: dict, got: dict) -> Iterator[Difference]:
        yield from differ("weight", wanted.get("weight"), got.get("weight"), plugin=plugin)
        for kind in ("raw", "normalized"):
            one, other = wanted.get(kind), got.get(kind)
            if one is None or other is None:
                yield from differ(kind, one, other, plugin=plugin)
                continue
            for node, points, others in zip(self.record["feasible"], one, other, strict=True):
                yield from differ(kind, points, others, node=node, plugin=plugin)


def _ordered(names: set[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _unordered(statuses: list[dict]) -> list[dict]:
    return sorted(statuses, key=lambda status: status["plugin"])
