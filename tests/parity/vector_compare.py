"""What must equal what: an observed attempt against the recorded one.

What plugins that are not built said is left out, and so is what follows from it; see the runner for
the rule.
"""

from collections.abc import Iterator

from kscheduler.config.profiles import Completed, EffectivePlugins
from kscheduler.cycle.attempt import Failed, Feasible, Unschedulable
from kscheduler.extension_points import Point
from kscheduler.framework.status import Status
from kscheduler.plugins import not_built
from tests.parity.vector_attempt import Attempt, Filtered, as_recorded
from tests.parity.vector_difference import Difference, Mismatch, differ, is_ours, says_ours
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
    gated_by_others = {
        record["pod"]
        for record in result["pods"]
        if record["outcome"] == "gated" and not any(map(is_ours, record["preEnqueue"]))
    }
    order = [pod for pod in got if pod not in gated_by_others]
    wanted = result["queueOrder"] or []
    if wanted != order:
        yield Mismatch("", "", "", "queueOrder", wanted, order)


def compare_reserve(record: dict, status: Status | None) -> Iterator[Mismatch]:
    wanted = record.get("reserve", {}).get("status")
    got = None if status is None else as_recorded(status)
    if wanted != got and (wanted is None or is_ours(wanted)):
        yield Mismatch(record["pod"], record["chosen"], "", "reserve", wanted, got)


def compare_volumes(record: dict, attempt: Attempt) -> Iterator[Mismatch]:
    """Which volumes the pod was given, and for which claims there will be new ones."""
    if attempt.left_out or "VolumeBinding" not in attempt.effective[Point.RESERVE]:
        return
    reserve = record.get("reserve", {})
    for what, got in attempt.reserved_volumes().items():
        wanted = reserve.get(what, [])
        if wanted != got:
            yield Mismatch(record["pod"], record["chosen"], "VolumeBinding", what, wanted, got)


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
        wanted = [status for status in self.record.get("preEnqueue", []) if is_ours(status)]
        yield from differ("preEnqueue", _unordered(wanted), _unordered(gated))
        if self.outcome == "gated":
            return
        if self.attempt.pod.terminating or self.outcome == "skipped":
            got = "skipped" if self.attempt.pod.terminating else "tried"
            yield from differ("outcome", self.outcome, got)
            return
        if not self.attempt.left_out:
            yield from self._tried()

    def _tried(self) -> Iterator[Difference]:
        found = self.attempt.find()
        seen = self.attempt.filter()
        yield from self._pre_filter(seen)
        if self.record.get("nominatedOnly"):
            yield from differ("nominated", self.record["feasible"], self._found_names(found))
        elif not self._ended():
            yield from self._filter(seen)
        if not self._depends_on_others():
            yield from self._found(found, seen)
        if "feasible" in self.record:
            yield from self._scores()

    def _ended(self) -> dict | None:
        return self.record.get("preFilter", {}).get("status")

    def _pre_filter(self, seen: Filtered) -> Iterator[Difference]:
        recorded = self.record.get("preFilter", {})
        ended = recorded.get("status")
        asked = [plugin.name for plugin in self.attempt.framework.plugins_at["preFilter"]]
        if ended is not None and not is_ours(ended):
            asked = self._asked_before(ended.get("plugin", ""))
        else:
            yield from differ("preFilter.status", ended, seen.ended)
        wanted = set(recorded.get("skip", ()))
        for plugin in asked:
            one, other = plugin in wanted, plugin in seen.skip
            yield from differ("preFilter.skip", one, other, plugin=plugin)
        restricting = set(recorded.get("nodeNamesPlugins") or ())
        if ended is None and not restricting & not_built().keys():
            names = set(recorded["nodeNames"]) if "nodeNames" in recorded else None
            yield from differ("preFilter.nodeNames", _ordered(names), _ordered(seen.names))
            yield from differ(
                "preFilter.nodeNamesPlugins", _ordered(restricting), _ordered(seen.names_plugins)
            )

    def _asked_before(self, plugin: str) -> list[str]:
        order = self.attempt.effective[Point.PRE_FILTER]
        before = order[: order.index(plugin)] if plugin in order else ()
        return [name for name in before if name not in not_built()]

    def _filter(self, seen: Filtered) -> Iterator[Difference]:
        """Node by node: who rejects it first, and who would have rejected it as well."""
        errors = self.record.get("nodeErrors", {})
        for node in self._judged(seen):
            if node in errors:
                if says_ours(errors[node]):
                    yield from differ("error", errors[node], seen.errors.get(node), node=node)
                continue
            listed = self._rejections(node)
            if listed is None:
                continue
            first = listed[0] if listed else None
            got = seen.first.get(node)
            yield from differ("rejected", first, got, node=node, plugin=_plugin(first, got))
            if node in seen.errors and self._passed_or_ours(node):
                yield from differ("error", None, seen.errors[node], node=node)
            if node not in self._promised() and self.outcome != "error":
                others = seen.alone.get(node, [])
                yield from differ("also", listed, others, node=node, plugin=_plugin(first, got))

    def _judged(self, seen: Filtered) -> list[str]:
        """The nodes that were tried in the recording, and those that only we have tried."""
        recorded = {
            *self.record.get("rejected", {}),
            *self.record.get("feasible", ()),
            *self.record.get("nodeErrors", {}),
        }
        restricting = set(self.record["preFilter"].get("nodeNamesPlugins") or ())
        if restricting & not_built().keys():
            return sorted(recorded)
        return sorted(recorded | seen.first.keys() | seen.errors.keys() | seen.feasible)

    def _rejections(self, node: str) -> list[dict] | None:
        """Our plugins that reject the node, first to last; None if the recording does not tell."""
        rejected = self.record.get("rejected", {}).get(node)
        if rejected is None:
            return []
        if not is_ours(rejected) and node in self._promised():
            return None
        also = self.record.get("also", {}).get(node, [])
        return [status for status in (rejected, *also) if is_ours(status)]

    def _passed_or_ours(self, node: str) -> bool:
        rejected = self.record.get("rejected", {}).get(node)
        return rejected is None or is_ours(rejected)

    def _promised(self) -> set[str]:
        return set(self.attempt.cluster.nominator.nodes)

    def _depends_on_others(self) -> bool:
        """Whether the outcome of Filter owes anything to a plugin that is not built."""
        record = self.record
        statuses = [*record.get("rejected", {}).values(), self._ended() or {}]
        errors = record.get("nodeErrors", {}).values()
        narrowed = set(record.get("preFilter", {}).get("nodeNamesPlugins") or ())
        return (
            not all(map(is_ours, statuses))
            or not all(map(says_ours, errors))
            or bool(narrowed & not_built().keys())
        )

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
        skipped = {name for name in record.get("skipScore", ()) if name not in not_built()}
        yield from differ("skipScore", _ordered(skipped), _ordered(scored.skip))
        recorded = record.get("scores") or {}
        others = {name: one for name, one in recorded.items() if name in not_built()}
        for plugin in (recorded.keys() | scored.scores.keys()) - others.keys():
            yield from self._plugin_scores(
                plugin, recorded.get(plugin, {}), scored.scores.get(plugin, {})
            )
        total = _with_others(scored.total or [0] * len(names), others)
        yield from differ("total", record["total"], total)
        best = [name for name, points in zip(names, total, strict=True) if points == max(total)]
        yield from differ("ties", record["ties"], best)
        yield from differ("chosen", record["chosen"], min(best))
        if not others:
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


def _plugin(first: dict | None, got: dict | None) -> str:
    return (first or got or {}).get("plugin", "")


def _with_others(total: list[int], others: dict[str, dict]) -> list[int]:
    """Our totals, plus what plugins that are not built were recorded to have contributed."""
    for one in others.values():
        total = [
            points + one["weight"] * more
            for points, more in zip(total, one["normalized"], strict=True)
        ]
    return total


def _ordered(names: set[str] | None) -> list[str] | None:
    return None if names is None else sorted(names)


def _unordered(statuses: list[dict]) -> list[dict]:
    return sorted(statuses, key=lambda status: status["plugin"])
