"""Records in words: the objects of `api.explanation`, each with a sentence that answers first.

Worked out when somebody asks: rows become names, bytes become scores, counts become a sentence.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from kscheduler.api.amounts import at_least, at_most
from kscheduler.api.explanation import (
    CONFIGURATION_GENERATION,
    ERROR,
    SCHEDULED,
    AttemptRecord,
    Decision,
    ExtenderAnswer,
    NodeCounts,
    NodeScore,
    OutcomeCount,
    PluginFault,
    QueueWait,
    RejectedNodes,
    RejectionDetail,
    ScorePlugin,
    ScoreTable,
    Shortage,
    Step,
    Victim,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.quantity import nano_value
from kscheduler.api.resource_names import PODS
from kscheduler.api.timestamps import format_micro_time, format_time
from kscheduler.decisions.decision_log import Entry
from kscheduler.decisions.record import BATCH, NOMINATED, Record, RejectedRows, ScoredRows
from kscheduler.framework.status import Code

# Reasons that the sentence names; the rest is counted.
MAX_REASONS = 3
POINTS = ("Reserve", "Permit", "PreBind", "Bind")


class View(msgspec.Struct, frozen=True):
    """How much of a decision is shown.

    Without `per_node`, lists that grow with the nodes have at most the node that was chosen.
    Without `node_names`, nodes are counted, as in the scheduler's events: none is named but the
    pod's own and the one nominated for it, which the pod itself tells, and how much is left on
    them, answers of extenders and faults of plugins are left out. `names_pods_of`
    says of a namespace whether victims there are named.
    """

    per_node: bool = True
    # Whether the nodes are listed that were rejected.
    rejected_nodes: bool = True
    node_names: bool = True
    names_pods_of: Callable[[str], bool] = lambda namespace: True

    @property
    def lists_rejected_nodes(self) -> bool:
        return self.per_node and self.rejected_nodes and self.node_names


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
    return {one.namespace for record in records for one in record.victims}


def attempt_of(record: Record, view: View = WHOLE) -> AttemptRecord:
    """One attempt with names in place of rows."""
    return AttemptRecord(
        number=record.number,
        time=format_micro_time(record.time),
        waited_seconds=round(sum(record.waited), 3),
        waits=_waits(record),
        woken_by=record.woken_by,
        duration_seconds=round(record.duration, 6),
        snapshot_generation=record.generation,
        configuration_generation=CONFIGURATION_GENERATION,
        outcome=record.outcome,
        message=record.message,
        nodes=NodeCounts(
            total=record.total,
            evaluated=record.evaluated,
            feasible=record.feasible,
            not_evaluated=record.total - record.evaluated - record.left_out,
        ),
        only_tried=record.only_tried,
        rejections=_rejections(record, view),
        scores=_score_table(record, view),
        node=_told_node(record, view),
        nominated_before=record.nominated_before,
        nominated_node=record.nominated_node,
        victims=tuple(Victim(*one) for one in record.victims if view.names_pods_of(one.namespace)),
        hidden_victims=sum(not view.names_pods_of(one.namespace) for one in record.victims),
        steps=_steps(record),
        extenders=tuple(
            ExtenderAnswer(
                one.extender, one.verb, one.asked, one.passed, error=one.error, ignored=one.ignored
            )
            for one in record.answers
            if view.node_names
        ),
        faults=tuple(
            PluginFault(one.plugin, one.point, one.fault.value, one.text)
            for one in record.faults
            if view.node_names
        ),
    )


def _waits(record: Record) -> tuple[QueueWait, ...]:
    # Before the first attempt no plugin but a PreEnqueue plugin can have rejected it.
    first = "Gated" if record.number == 1 else "Unschedulable"
    waits = zip((first, "BackingOff", "Active"), record.waited, strict=True)
    return tuple(QueueWait(queue, round(seconds, 3)) for queue, seconds in waits if seconds > 0)


def summary_of(entry: Entry, view: View = WHOLE) -> str:
    """The answer that a colleague would give."""
    record = entry.last
    if record.outcome == SCHEDULED:
        return _placed(record, entry.attempts, view)
    if record.failed_at:
        node = _told_node(record, view) or "a node"
        return (
            f"It was to go to {node}, but {record.failed_at} failed: {record.message}"
            f"{_times(entry)}"
        )
    if record.outcome == ERROR:
        return f"It could not be decided on: {record.message}{_times(entry)}"
    rejections = _joined(_rejections(record, replace(view, rejected_nodes=False)))
    reasons = [f"{_nodes(one.count)}: {_reason(one)}" for one in rejections[:MAX_REASONS]]
    left = len(rejections) - len(reasons)
    text = "; ".join(reasons)
    if left > 0:
        text += f"; and {left} more reason{'s' if left > 1 else ''}"
    if not rejections:
        text = record.message
    lead = f"None of {_nodes(record.total)} can take it"
    if record.victims:
        what = "1 pod" if len(record.victims) == 1 else f"{len(record.victims)} pods"
        ending = f" {what} on {record.nominated_node} will be evicted to make room for it."
    else:
        ending = ""
    return f"{lead}: {text.rstrip('.')}.{ending}{_times(entry)}"


def _told_node(record: Record, view: View) -> str:
    """The node decided on; of an attempt that failed, the pod does not tell it."""
    return record.node if view.node_names or record.outcome == SCHEDULED else ""


def _placed(record: Record, attempts: int, view: View) -> str:
    after = "" if attempts == 1 else f", at attempt {attempts}"
    if record.only_tried == NOMINATED:
        return f"It is on {record.node}, the node nominated for it, where it fits{after}."
    if record.only_tried == BATCH:
        return (
            f"It is on {record.node}, the best node left of those found for the pod before, which "
            f"no plugin can tell from this one{after}."
        )
    others = []
    if record.absent is not None:
        others.append(
            f"{record.left_out} {_was(record.left_out)} left out: {record.absent.message}"
        )
    if unseen := record.total - record.evaluated - record.left_out:
        others.append(f"{unseen} {_was(unseen)} not, as enough were found")
    extra = f" ({'; '.join(others)})" if others else ""
    looked_at = f"{_was(record.evaluated)} looked at{extra}"
    if record.evaluated == 1:
        only = "there is" if record.total == 1 else f"that {looked_at}"
        return f"It is on {record.node}, the only node {only}{after}."
    among = f"of {_nodes(record.evaluated)} that {looked_at}"
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


def _was(count: int) -> str:
    return "was" if count == 1 else "were"


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _reason(rejected: RejectedNodes) -> str:
    """The reason with its numbers."""
    shortage, more = rejected.shortage, []
    if shortage is not None and shortage.resource != PODS:
        text = f"asked {shortage.asked}"
        if shortage.node:
            text += (
                f"; most is left on {shortage.node}, {shortage.most_free}, "
                f"short by {shortage.least_short_by}"
            )
        more.append(text)
    for detail in rejected.details[:MAX_REASONS]:
        on = "" if detail.count == rejected.count else f" on {detail.count}"
        more.append(f"{detail.text}{on}")
    return f"{rejected.reason} ({'; '.join(more)})" if more else rejected.reason


def _rejections(record: Record, view: View) -> tuple[RejectedNodes, ...]:
    """The largest first; nodes that PreFilter left out have the one reason that it gave."""
    found = [_rejected_nodes(record, one, view) for one in record.rejections]
    if record.absent is not None:
        nodes: tuple[str, ...] = ()
        # Of a pod that found a node, it is not kept which they were.
        if view.lists_rejected_nodes and not record.node:
            known = {row for one in record.rejections for row in one.rows.rows.tolist()}
            names = enumerate(record.names.names)
            nodes = tuple([name for row, name in names if name and row not in known])
        found.append(
            RejectedNodes(
                plugin=record.absent.plugin,
                reason=record.absent.message,
                count=record.left_out,
                by_pre_filter=True,
                preemption_might_help=record.absent.code is Code.UNSCHEDULABLE,
                nodes=nodes,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.count))


def _joined(rejections: tuple[RejectedNodes, ...]) -> list[RejectedNodes]:
    """Rejections as a sentence has them: whether preemption might help does not part them."""
    found: dict[tuple[str, str], RejectedNodes] = {}
    for one in rejections:
        key = one.plugin, one.reason
        other = found.get(key)
        if other is None:
            found[key] = one
            continue
        details: dict[str, int] = {}
        for detail in (*other.details, *one.details):
            details[detail.text] = details.get(detail.text, 0) + detail.count
        # The largest comes first, and so do its numbers, unless the other lacks less.
        lacks = [each.shortage for each in (other, one) if each.shortage is not None]
        found[key] = replace(
            other,
            count=other.count + one.count,
            shortage=min(
                lacks, key=lambda each: nano_value(each.least_short_by or 0), default=None
            ),
            details=tuple(RejectionDetail(*item) for item in details.items()),
        )
    return sorted(found.values(), key=lambda one: -one.count)


def _rejected_nodes(record: Record, rejected: RejectedRows, view: View) -> RejectedNodes:
    names = record.names.names
    nodes: tuple[str, ...] = ()
    if view.lists_rejected_nodes:
        nodes = tuple([names[row] for row in rejected.rows.rows.tolist()])
    return RejectedNodes(
        plugin=rejected.plugin,
        reason=rejected.reason,
        count=rejected.count,
        preemption_might_help=rejected.code is Code.UNSCHEDULABLE,
        nodes=nodes,
        shortage=_shortage(record, rejected, view),
        # Domains of a topology and the like: names of nodes may be among them.
        details=tuple(RejectionDetail(*one) for one in rejected.details if view.node_names),
    )


def _shortage(record: Record, rejected: RejectedRows, view: View) -> Shortage | None:
    if rejected.shortage is None:
        return None
    resource, asked, most_free, row = rejected.shortage
    if not view.node_names:
        return Shortage(resource=resource, asked=at_least(resource, asked))
    return Shortage(
        resource=resource,
        asked=at_least(resource, asked),
        most_free=at_most(resource, most_free),
        least_short_by=at_least(resource, asked - most_free),
        node=record.names.names[row],
    )


def _score_table(record: Record, view: View) -> ScoreTable | None:
    scores, rows, names = record.scores, record.scored_rows, record.names.names
    if scores is None or rows is None:
        return None
    totals = scores.totals
    # Stable, so that nodes with equal totals stay in the order in which they were found.
    order = (-totals).argsort(kind="stable").tolist()
    chosen = next((one for one in order if names[rows[one]] == record.node), None)
    runner_up = next((one for one in order if one != chosen), None)
    if not (view.per_node and view.node_names):
        order = [chosen] if chosen is not None and _told_node(record, view) else []
    raw = [scores.raw_of(index)[order].tolist() for index in range(len(scores.plugins))]
    normalized = scores.normalized[:, order].tolist()
    silent = (0,) * len(scores.all_zero)
    total = totals.tolist()
    extra = None if scores.extra is None else scores.extra.tolist()
    found = tuple(
        NodeScore(
            node=names[rows[position]],
            total=total[position],
            raw=(*(one[place] for one in raw), *silent),
            normalized=(*(one[place] for one in normalized), *silent),
            from_extenders=0 if extra is None else extra[position],
        )
        for place, position in enumerate(order)
    )
    margin = None
    if chosen is not None and runner_up is not None:
        margin = total[chosen] - total[runner_up]
    return ScoreTable(
        plugins=_score_plugins(scores),
        nodes=found,
        extenders_scored=extra is not None,
        runner_up=names[rows[runner_up]] if runner_up is not None and view.node_names else "",
        margin=margin,
        ties=int((totals == totals.max()).sum()),
    )


def _score_plugins(scores: ScoredRows) -> tuple[ScorePlugin, ...]:
    scored = zip(scores.plugins, scores.weights.tolist(), strict=True)
    weighted = [*scored, *scores.all_zero.items()]
    return tuple(ScorePlugin(name=name, weight=weight) for name, weight in weighted)


def _steps(record: Record) -> tuple[Step, ...]:
    """Answers after the decision, as far as the attempt came."""
    if not record.node or not record.outcome:
        return ()
    passed: tuple[str, ...] = POINTS
    failed: tuple[Step, ...] = ()
    if record.outcome != SCHEDULED:
        if record.failed_at not in POINTS:
            return ()
        passed = passed[: POINTS.index(record.failed_at)]
        code = "Error" if record.outcome == ERROR else "Unschedulable"
        failed = (Step(record.failed_at, record.failed_by, code, record.message),)
    steps = [Step(point=point, code="Success") for point in passed]
    if record.held_by:
        held = Step("Permit", ", ".join(record.held_by), "Wait")
        steps.insert(1, held)
    if record.bound_by and record.outcome == SCHEDULED:
        steps[-1] = Step("Bind", record.bound_by, "Success")
    return (*steps, *failed)
