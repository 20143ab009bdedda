"""Decisions told to people: one sentence first, then candidates, then every node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kscheduler.api.explanation import (
    SCHEDULED,
    AttemptRecord,
    Decision,
    NodeScore,
    PendingPod,
    PlacementReviewStatus,
    RejectedNodes,
    Remedy,
    ScoreTable,
    Victim,
)
from kscheduler.cli.page import answer_about, counted, joined, listed, table, whole_seconds, wrapped

# Rows of a table of candidates: by default, with -o wide, and with --all.
FEW, MANY, ALL = 5, 25, 1 << 30
# Plugins that are named as what makes the difference between two nodes.
MAX_DIFFERENCES = 3
CHOSEN = "chosen"
PARTIAL = (
    "This is a partial view: node names take the right to list nodes, and names of other pods the "
    "right to get pods in their namespaces."
)


def explained(
    decision: Decision,
    attempt: AttemptRecord,
    pending: PendingPod | None,
    review: PlacementReviewStatus | None,
    *,
    wide: bool = False,
    every_node: bool = False,
) -> Iterator[str]:
    """The answer to "why is it there, or not", in blocks; `review` is what would be now."""
    subject = f"{decision.metadata.namespace}/{decision.metadata.name}"
    if attempt is decision.last:
        yield answer_about(subject, decision.summary)
    else:
        yield answer_about(subject, past_attempt(decision, attempt))
    if attempt.outcome != SCHEDULED:
        if pending is not None:
            yield wrapped(pending.summary)
        if review is not None:
            yield remedies(review)
    yield victims(attempt.victims, attempt.nominated_node)
    rows = ALL if every_node else MANY if wide else FEW
    if attempt.scores is not None:
        yield candidates(attempt.scores, attempt.node, rows, wide=wide)
    if every_node:
        yield rejected_nodes(attempt.rejections)
        if attempt.nodes.not_evaluated:
            yield wrapped(
                f"{counted(attempt.nodes.not_evaluated, 'node')} were not looked at, and so are "
                "not listed."
            )
    elif wide or attempt.outcome != SCHEDULED:
        yield rejections(attempt.rejections)
    else:
        yield in_short(attempt.rejections)
    if wide:
        yield steps(attempt)
        yield history(decision)
        yield facts(decision, attempt)
    if decision.partial:
        yield wrapped(PARTIAL)


def past_attempt(decision: Decision, attempt: AttemptRecord) -> str:
    ordinal = f"Attempt {attempt.number} of {decision.attempts}, at {whole_seconds(attempt.time)},"
    if attempt.outcome == SCHEDULED:
        return f"{ordinal} chose {attempt.node}."
    return f"{ordinal} ended {attempt.outcome}: {attempt.message}"


def remedies(review: PlacementReviewStatus) -> str:
    """Changes that would help, or that none has to: a cluster changes while a pod waits."""
    if review.fits and review.placements:
        return wrapped(f"Asked again now, it would fit, on {review.placements[0].node}.")
    if review.remedies:
        return listed("What would help:", map(remedy_text, review.remedies))
    if review.message and review.total:
        return wrapped("No single change to the pod would make room for it.")
    return ""


def remedy_text(remedy: Remedy) -> str:
    return f"{remedy.change}: {counted(remedy.more_nodes, 'node')} could take it"


def victims(pods: Sequence[Victim], node: str) -> str:
    if not pods:
        return ""
    rows = [
        (
            f"{pod.namespace}/{pod.name}" if pod.name else "(not to be named)",
            str(pod.priority),
            "violated" if pod.violates_budget else "",
        )
        for pod in pods
    ]
    title = f"Evicted from {node} to make room:" if node else "Evicted to make room:"
    return f"{title}\n{table(('POD', 'PRIORITY', 'BUDGET'), rows, numbers=('PRIORITY',))}"


def weighted(scores: ScoreTable, node: NodeScore) -> list[int]:
    """Contribution of each plugin to a node's total."""
    return [
        value * plugin.weight for value, plugin in zip(node.normalized, scores.plugins, strict=True)
    ]


def differences(scores: ScoreTable, best: NodeScore, other: NodeScore) -> list[tuple[str, int]]:
    """By plugin, how far `other` is from `best`, the largest difference first."""
    pairs = zip(scores.plugins, weighted(scores, best), weighted(scores, other), strict=True)
    found = [(plugin.name, theirs - ours) for plugin, ours, theirs in pairs if ours != theirs]
    rest = (other.total - best.total) - sum(by for _, by in found)
    if rest:
        found.append(("extenders", rest))
    return sorted(found, key=lambda one: -abs(one[1]))


def candidates(scores: ScoreTable, chosen: str, rows: int, *, wide: bool) -> str:
    """Feasible nodes, the chosen one first, and why the others are behind."""
    nodes = sorted(scores.nodes, key=lambda one: (one.node != chosen, -one.total))
    if not nodes or not nodes[0].node:
        return ""
    best, shown = nodes[0], nodes[:rows]
    plugins = [f"{p.name}*{p.weight}" if p.weight != 1 else p.name for p in scores.plugins]
    header = ("NODE", "SCORE", "BEHIND", *(plugins if wide else ()), "WHY")
    have_said = [any(values) for values in zip(*(one.normalized for one in nodes), strict=True)]
    lines = []
    for one in shown:
        if one.node == chosen:
            why = CHOSEN
            if scores.ties > 1 and one.total == max(node.total for node in nodes):
                why = f"{CHOSEN}, drawn among {scores.ties} with this score"
        else:
            named = differences(scores, best, one)[:MAX_DIFFERENCES]
            why = ", ".join(f"{name} {by:+d}" for name, by in named) or "equal"
        behind = str(best.total - one.total) if one.node != chosen else ""
        # Plugins that gave nothing to any node are left out, as columns without a cell are.
        parts = [
            str(value) if has_said else ""
            for value, has_said in zip(weighted(scores, one), have_said, strict=True)
        ]
        # Beside the scores themselves, differences are not worth a column.
        told = why if not wide or one.node == chosen else ""
        lines.append((one.node, str(one.total), behind, *(parts if wide else ()), told))
    text = table(header, lines, numbers=header[1:-1], marked=chosen)
    if len(nodes) > len(shown):
        text += f"\n{more(len(nodes) - len(shown), wide=wide)}"
    return text


def more(count: int, *, wide: bool) -> str:
    flag = "--all" if wide else "-o wide, --all"
    return f"and {counted(count, 'more node')} ({flag})"


def rejections(found: Sequence[RejectedNodes]) -> str:
    """Reasons with the number of nodes, and the numbers of the node that is nearest."""
    if not found:
        return ""
    rows = []
    for one in found:
        short = one.shortage
        left = f"{short.most_free} on {short.node}" if short and short.node else ""
        rows.append(
            (
                str(one.count),
                one.plugin,
                one.reason,
                short.asked if short else "",
                left or (short.most_free if short else ""),
                short.least_short_by if short else "",
                "yes" if one.preemption_might_help else "no",
            )
        )
    header = ("NODES", "PLUGIN", "REASON", "ASKED", "MOST LEFT", "SHORT BY", "PREEMPTION HELPS")
    return table(header, rows, numbers=("NODES",))


def in_short(found: Sequence[RejectedNodes]) -> str:
    """Rejected nodes of a pod that found its place: a sentence."""
    if not found:
        return ""
    # Nodes that preemption could help and others have entries of their own; here they are one.
    counts: Counter[tuple[str, str]] = Counter()
    for one in found:
        # PreFilter's reason for the nodes that it left out names its plugins.
        counts["PreFilter" if one.by_pre_filter else one.plugin, one.reason] += one.count
    reasons = [
        f"{count} by {plugin} ({reason})" for (plugin, reason), count in counts.most_common(FEW)
    ]
    left = len(counts) - len(reasons)
    if left:
        reasons.append(counted(left, "other reason"))
    total = sum(one.count for one in found)
    were = "was" if total == 1 else "were"
    return wrapped(f"{counted(total, 'node')} {were} rejected: {joined(reasons)}.")


def rejected_nodes(found: Iterable[RejectedNodes]) -> str:
    """Every rejected node with its reason."""
    rows = [(node, one.plugin, one.reason) for one in found for node in one.nodes]
    return table(("NODE", "PLUGIN", "REASON"), sorted(rows)) if rows else rejections(tuple(found))


def steps(attempt: AttemptRecord) -> str:
    if not attempt.steps:
        return ""
    rows = [(one.point, one.plugin, one.code, one.message) for one in attempt.steps]
    return table(("STEP", "PLUGIN", "ANSWER", "MESSAGE"), rows)


def history(decision: Decision) -> str:
    """Attempts by how they ended, if there was more than one."""
    if decision.attempts < 2:
        return ""
    rows = [
        (str(one.count), one.outcome, one.first_time, one.last_time, one.message)
        for one in decision.outcomes
    ]
    header = ("ATTEMPTS", "OUTCOME", "FIRST", "LAST", "MESSAGE")
    return table(header, rows, numbers=("ATTEMPTS",))


def facts(decision: Decision, attempt: AttemptRecord) -> str:
    counts = attempt.nodes
    looked = f"{counts.evaluated} of {counted(counts.total, 'node')} looked at"
    if attempt.only_tried:
        looked = {"nominated": "only the nominated node tried"}.get(
            attempt.only_tried, "only the best node left of the pod before tried"
        )
    return wrapped(
        f"Attempt {attempt.number} at {attempt.time} by {decision.scheduler_name}: waited "
        f"{attempt.waited_seconds:g} s, decided in {attempt.duration_seconds * 1000:.3g} ms, "
        f"{looked}, {counts.feasible} feasible; snapshot {attempt.snapshot_generation}, "
        f"configuration {attempt.configuration_generation}."
    )
