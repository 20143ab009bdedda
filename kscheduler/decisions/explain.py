"""Records in words: the objects of `api.explanation`, each with a sentence that answers first.

Worked out when somebody asks: rows become names, bytes become scores, counts become a sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kscheduler.api.explanation import (
    ERROR,
    SCHEDULED,
    AttemptRecord,
    Decision,
    NodeCounts,
    NodeScore,
    OutcomeCount,
    RejectedNodes,
    ScorePlugin,
    ScoreTable,
    Shortage,
    Step,
    Victim,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.resource_names import CPU, MEMORY
from kscheduler.api.timestamps import format_micro_time, format_time
from kscheduler.decisions.decision_log import Entry
from kscheduler.decisions.record import BATCH, NOMINATED, Record, RejectedRows, ScoredRows
from kscheduler.framework.status import Code

# Reasons that the sentence names; the rest is counted.
MAX_REASONS = 3
POINTS = ("Reserve", "Permit", "PreBind", "Bind")
BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi")


class View(msgspec.Struct, frozen=True):
    """How much of a decision is shown.

    Without `per_node`, lists that grow with the nodes have at most the node that was chosen.
    Without `node_names`, no node is named but the pod's own and the one nominated for it, which the
    pod itself tells. `names_pods_of` says of a namespace whether victims there are named.
    """

    per_node: bool = True
    # Whether the nodes are listed that were rejected.
    rejected_nodes: bool = True
    node_names: bool = True
    names_pods_of: Callable[[str], bool] = lambda namespace: True


WHOLE = View()


def decision_of(entry: Entry, view: View = WHOLE) -> Decision:
    first, last = entry.first, entry.last
    hidden = any(not view.names_pods_of(namespace) for namespace in victim_namespaces(entry))
    return Decision(
        metadata=ObjectMeta(
            name=entry.name,
            namespace=entry.namespace,
            uid=entry.uid,
            resource_version=str(entry.version),
            labels=entry.labels,
            creation_timestamp=format_time(entry.created),
        ),
        summary=summary_of(entry, view),
        outcome=last.outcome,
        node=last.node if last.outcome == SCHEDULED else "",
        scheduler_name=entry.profile,
        pod_uid=entry.uid,
        attempts=entry.attempts,
        outcomes=tuple(
            OutcomeCount(
                outcome=end.outcome,
                message=end.message,
                count=end.count,
                first_time=format_time(end.first),
                last_time=format_time(end.last),
            )
            for end in entry.ends
        ),
        first=None if first is last else attempt_of(first, view),
        last=attempt_of(last, view),
        partial=hidden or not view.node_names,
    )


def victim_namespaces(entry: Entry) -> set[str]:
    """Namespaces of the pods that the decision names besides its own."""
    records = (entry.first, entry.last)
    return {namespace for record in records for namespace, _, _ in record.victims}


def attempt_of(record: Record, view: View = WHOLE) -> AttemptRecord:
    """One attempt with names in place of rows."""
    return AttemptRecord(
        number=record.number,
        time=format_micro_time(record.time),
        waited_seconds=round(record.waited, 3),
        duration_seconds=round(record.duration, 6),
        snapshot_generation=record.generation,
        configuration_generation=1,
        outcome=record.outcome,
        message=record.message,
        nodes=NodeCounts(
            total=record.total,
            evaluated=record.evaluated,
            feasible=record.feasible,
            not_evaluated=record.total - record.evaluated,
        ),
        only_tried=record.only_tried,
        rejections=tuple(_rejected_nodes(record, one, view) for one in _largest_first(record)),
        scores=_score_table(record, view),
        node=record.node,
        nominated_node=record.nominated_node,
        victims=tuple(
            # Those that violate a budget come first, as preemption lists them.
            Victim(
                namespace=namespace,
                name=name,
                priority=priority,
                violates_budget=index < record.budget_violations,
            )
            for index, (namespace, name, priority) in enumerate(record.victims)
            if view.names_pods_of(namespace)
        ),
        hidden_victims=sum(not view.names_pods_of(one[0]) for one in record.victims),
        steps=_steps(record),
    )


def summary_of(entry: Entry, view: View = WHOLE) -> str:
    """The answer that a colleague would give."""
    record = entry.last
    if record.outcome == SCHEDULED:
        return _placed(record, entry.attempts, view)
    if record.failed_at:
        return (
            f"It was to go to {record.node}, but {record.failed_at} failed: {record.message}"
            f"{_times(entry)}"
        )
    if record.outcome == ERROR:
        return f"It could not be decided on: {record.message}{_times(entry)}"
    counted = sum(one.count for one in record.rejected)
    reasons = [
        f"{_nodes(one.count)}: {_reason(record, one, view)}"
        for one in _largest_first(record)[:MAX_REASONS]
    ]
    left = len(record.rejected) - len(reasons)
    text = "; ".join(reasons)
    if left > 0:
        text += f"; and {left} more reason{'s' if left > 1 else ''}"
    if not counted:
        text = record.message
    lead = f"None of {_nodes(record.total)} can take it"
    if record.victims:
        what = "1 pod" if len(record.victims) == 1 else f"{len(record.victims)} pods"
        ending = f" {what} on {record.nominated_node} will be evicted to make room for it."
    else:
        ending = ""
    return f"{lead}: {text.rstrip('.')}.{ending}{_times(entry)}"


def _placed(record: Record, attempts: int, view: View) -> str:
    after = "" if attempts == 1 else f", at attempt {attempts}"
    if record.only_tried == NOMINATED:
        return f"It is on {record.node}, the node nominated for it, where it fits{after}."
    if record.only_tried == BATCH:
        return (
            f"It is on {record.node}, the best node left of those found for the pod before, which "
            f"no plugin can tell from this one{after}."
        )
    among = f"of {_nodes(record.evaluated)} that were looked at"
    if record.evaluated < record.total:
        among += f" ({record.total - record.evaluated} were not, as enough were found)"
    table = _score_table(record, replace(view, per_node=False))
    if table is None:
        return f"It is on {record.node}, the only node that fits {among}{after}."
    best = f"It is on {record.node}, one of {record.feasible} that fit {among}"
    if table.ties > 1:
        return f"{best}: drawn among {table.ties} nodes with the highest score{after}."
    if table.margin is None:
        return f"{best}{after}."
    behind = f"{table.runner_up}'s" if table.runner_up else "the next"
    return f"{best}: its score is the highest, {table.margin} above {behind}{after}."


def _times(entry: Entry) -> str:
    if entry.attempts == 1:
        return ""
    return f" (attempt {entry.attempts}, the first at {format_time(entry.created)})"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _reason(record: Record, rejected: RejectedRows, view: View) -> str:
    shortage = _shortage(record, rejected, view)
    if shortage is None:
        return rejected.reason
    if rejected.resource == "pods":
        return f"{rejected.reason}"
    where = f" on {shortage.node}" if shortage.node else ""
    return (
        f"{rejected.reason} (asked {shortage.asked}; most is left{where}, "
        f"{shortage.most_free}, short by {shortage.least_short_by})"
    )


def _largest_first(record: Record) -> list[RejectedRows]:
    return sorted(record.rejected, key=lambda one: -one.count)


def _rejected_nodes(record: Record, rejected: RejectedRows, view: View) -> RejectedNodes:
    names = record.names.names
    nodes: tuple[str, ...] = ()
    if view.per_node and view.rejected_nodes and view.node_names:
        nodes = tuple([names[row] for row in rejected.rows.rows.tolist()])
    return RejectedNodes(
        plugin=rejected.plugin,
        reason=rejected.reason,
        count=rejected.count,
        preemption_might_help=rejected.code is Code.UNSCHEDULABLE,
        nodes=nodes,
        shortage=_shortage(record, rejected, view),
    )


def _shortage(record: Record, rejected: RejectedRows, view: View) -> Shortage | None:
    if not rejected.resource:
        return None
    amount = rejected.resource
    return Shortage(
        resource=amount,
        asked=in_notation(amount, rejected.asked),
        most_free=in_notation(amount, rejected.most_free),
        least_short_by=in_notation(amount, rejected.asked - rejected.most_free),
        node=record.names.names[rejected.best_row] if view.node_names else "",
    )


def in_notation(resource: str, amount: int) -> str:
    """An amount of a resource as people write it: 250m, 3.2Gi, 2."""
    if resource == CPU:
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    if resource == MEMORY or resource == "ephemeral-storage" or resource.startswith("hugepages-"):
        size, suffix = float(amount), 0
        while abs(size) >= 1024 and suffix < len(BINARY_SUFFIXES) - 1:
            size, suffix = size / 1024, suffix + 1
        return f"{size:.4g}{BINARY_SUFFIXES[suffix]}"
    return str(amount)


def _score_table(record: Record, view: View) -> ScoreTable | None:
    scores, rows, names = record.scores, record.rows, record.names.names
    if scores is None or rows is None:
        return None
    totals = scores.totals
    # Stable, so that nodes with equal totals stay in the order in which they were found.
    order = (-totals).argsort(kind="stable").tolist()
    chosen = next((one for one in order if names[rows[one]] == record.node), None)
    runner_up = next((one for one in order if one != chosen), None)
    if not (view.per_node and view.node_names):
        order = [] if chosen is None else [chosen]
    raw = [scores.raw_of(index)[order].tolist() for index in range(len(scores.plugins))]
    normalized = scores.normalized[:, order].tolist()
    silent = (0,) * len(scores.all_zero)
    total = totals.tolist()
    found = tuple(
        NodeScore(
            node=names[rows[position]],
            total=total[position],
            raw=(*(one[place] for one in raw), *silent),
            normalized=(*(one[place] for one in normalized), *silent),
        )
        for place, position in enumerate(order)
    )
    margin = None
    if chosen is not None and runner_up is not None:
        margin = total[chosen] - total[runner_up]
    return ScoreTable(
        plugins=_score_plugins(scores),
        nodes=found,
        extenders_scored=scores.extra is not None,
        runner_up=names[rows[runner_up]] if runner_up is not None and view.node_names else "",
        margin=margin,
        ties=int((totals == totals.max()).sum()),
    )


def _score_plugins(scores: ScoredRows) -> tuple[ScorePlugin, ...]:
    weighted = [*zip(scores.plugins, scores.weights, strict=True), *scores.all_zero]
    return tuple(ScorePlugin(name=name, weight=weight) for name, weight in weighted)


def _steps(record: Record) -> tuple[Step, ...]:
    """Answers after the decision, as far as the attempt came."""
    if not record.node or not record.outcome:
        return ()
    if record.outcome == SCHEDULED:
        return tuple(Step(point=point, code="Success") for point in POINTS)
    if record.failed_at not in POINTS:
        return ()
    passed = POINTS[: POINTS.index(record.failed_at)]
    code = "Error" if record.outcome == ERROR else "Unschedulable"
    failed = Step(record.failed_at, record.failed_by, code, record.message)
    return (*(Step(point=point, code="Success") for point in passed), failed)
