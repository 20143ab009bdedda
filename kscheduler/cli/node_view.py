"""A pod and one node: why it is not there, or that it could be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from kscheduler.api.explanation import (
    SCHEDULED,
    AttemptRecord,
    Decision,
    NodeScore,
    PlacementReviewStatus,
    RejectedNodes,
)
from kscheduler.api.pod_questions import OF_THE_WISH
from kscheduler.cli.decision_view import PARTIAL, differences, weighted
from kscheduler.cli.page import answer_about, joined, listed, table, whole_seconds, wrapped

PART_HIDDEN = "Which nodes were rejected, and why which, is not shown to you."


class AboutNode(msgspec.Struct, frozen=True):
    """Part of an attempt about one node; all empty if it was not looked at."""

    rejections: tuple[RejectedNodes, ...] = ()
    score: NodeScore | None = None
    is_chosen: bool = False

    @property
    def was_looked_at(self) -> bool:
        return bool(self.rejections or self.score or self.is_chosen)


def about_node(attempt: AttemptRecord, node: str) -> AboutNode:
    scored = attempt.scores.nodes if attempt.scores else ()
    return AboutNode(
        rejections=tuple(one for one in attempt.rejections if node in one.nodes),
        score=next((one for one in scored if one.node == node), None),
        is_chosen=attempt.node == node,
    )


def narrowed(decision: Decision, attempt: AttemptRecord, node: str) -> Decision:
    """The decision with what it says about one node and the chosen one; for programs."""
    about = about_node(attempt, node)
    rejections = tuple(replace(one, count=1, nodes=(node,)) for one in about.rejections)
    scores = attempt.scores
    if scores is not None:
        kept = tuple(one for one in scores.nodes if one.node in (node, attempt.node))
        scores = replace(scores, nodes=kept)
    last = replace(attempt, rejections=rejections, scores=scores)
    return replace(decision, first=None, last=last)


def node_explained(
    decision: Decision,
    attempt: AttemptRecord,
    node: str,
    now: PlacementReviewStatus | None,
) -> Iterator[str]:
    """The record first; then, if it was asked, what a review limited to the node says `now`.

    Where both say the same, it is said once, with today's numbers, which are those of this node.
    """
    pod = f"{decision.metadata.namespace}/{decision.metadata.name}"
    about = about_node(attempt, node)
    when = f"at {whole_seconds(attempt.time)}"
    if decision.attempts > 1:
        when = f"in attempt {attempt.number}, {when}"
    elsewhere = f"{pod} is on {attempt.node}. " if attempt.outcome == SCHEDULED else ""
    there = rejected_now(now, node) if now is not None else ()
    if about.is_chosen and attempt.outcome == SCHEDULED:
        yield answer_about(pod, decision.summary)
        return
    if about.is_chosen:
        yield wrapped(f"{pod} was to go to {node} {when}: {attempt.message}")
    elif about.score is not None:
        yield from _scored_lower(pod, attempt, node, about.score)
    elif not about.rejections and decision.partial:
        yield wrapped(f"{elsewhere or pod + ': '}{PART_HIDDEN}")
    elif not about.rejections:
        yield wrapped(f"{elsewhere}As for {node}, {_not_looked_at(attempt, when)}")
    elif there and _alike(about.rejections, there):
        it = "It" if elsewhere else pod
        yield wrapped(f"{elsewhere}{it} cannot go to {node}: {_reasons(there, node)}.")
    else:
        it = "It" if elsewhere else pod
        refused = _reasons(about.rejections, node)
        yield wrapped(f"{elsewhere}{it} could not go to {node} {when}: {refused}.")
    if now is not None:
        is_said = bool(there) and _alike(about.rejections, there)
        yield from node_now("it", node, now, is_said=is_said)
    if decision.partial:
        yield wrapped(PARTIAL)


def node_now(
    pod: str, node: str, now: PlacementReviewStatus, *, is_said: bool = False
) -> Iterator[str]:
    """The answer of a review of the pod that was limited to the node; `is_said` leaves only what
    would help to be told.
    """
    there = rejected_now(now, node)
    if now.fits:
        note = now.placements[0].message if now.placements else ""
        yield wrapped(f"Asked now, {pod} would fit on {node}{f', {note}' if note else ''}.")
        return
    if not is_said:
        why = _reasons(there, node) if there else (now.message or now.summary).rstrip(".")
        yield wrapped(f"Asked now, {pod} does not fit on {node}: {why}.")
    changes = [one.change for one in now.remedies if not one.change.startswith(OF_THE_WISH)]
    # Not what a profile's addedAffinity enforces.
    if any(one.plugin == "NodeAffinity" and "Pod's" in one.reason for one in there):
        changes.insert(0, "without its node selector or affinity")
    if changes:
        yield listed("What would help:", changes)


def rejected_now(now: PlacementReviewStatus, node: str) -> tuple[RejectedNodes, ...]:
    """Reasons of a review against this node, which was the only one looked at.

    In a partial view nodes have no names, but a single one can only be this. Nodes that PreFilter
    left out are the others.
    """
    placement = now.placements[0] if now.placements else None
    told = placement.explanation.rejections if placement and placement.explanation else ()
    found = [one for one in told if not one.by_pre_filter]
    is_alone = now.partial and all(one.count == 1 for one in found)
    return tuple(one for one in found if node in one.nodes or is_alone)


def _alike(some: Sequence[RejectedNodes], others: Sequence[RejectedNodes]) -> bool:
    reasons = [{(one.plugin, one.reason) for one in found} for found in (some, others)]
    return reasons[0] == reasons[1]


def fits(about: AboutNode, attempt: AttemptRecord, now: PlacementReviewStatus | None) -> bool:
    """Whether the node can take the pod: today's answer goes before the record's."""
    if now is not None:
        return now.fits
    if about.is_chosen:
        return attempt.outcome == SCHEDULED
    return about.score is not None


def _reasons(rejections: Sequence[RejectedNodes], node: str) -> str:
    texts = []
    for one in rejections:
        short = one.shortage
        numbers = ""
        if short is not None and short.most_free and (one.count == 1 or short.node == node):
            numbers = (
                f" (asked {short.asked}, {short.most_free} left, short by {short.least_short_by})"
            )
        elif short is not None:
            numbers = f" (asked {short.asked})"
        texts.append(f"{one.reason}{numbers}")
    return f"{joined(texts)}, says {rejections[0].plugin}"


def _scored_lower(pod: str, attempt: AttemptRecord, node: str, score: NodeScore) -> Iterator[str]:
    scores = attempt.scores
    assert scores is not None
    best = next((one for one in scores.nodes if one.node == attempt.node), None)
    if best is None:
        yield wrapped(f"{pod} fits on {node}, with a score of {score.total}.")
        return
    if best.total == score.total:
        yield wrapped(
            f"{pod} could have gone to {node} as well: {scores.ties} nodes shared the highest "
            f"score, {score.total}, and {best.node} was drawn."
        )
    else:
        (name, by), *_ = differences(scores, best, score)
        yield wrapped(
            f"{pod} could have gone to {node}, but {best.node} scored higher, {best.total} to "
            f"{score.total}; most of it is by {name}, {by:+d}."
        )
    ours, theirs = weighted(scores, best), weighted(scores, score)
    rows = [
        (plugin.name, str(plugin.weight), str(first), str(second), f"{second - first:+d}")
        for plugin, first, second in zip(scores.plugins, ours, theirs, strict=True)
        if first or second
    ]
    if scores.extenders_scored:
        first, second = best.total - sum(ours), score.total - sum(theirs)
        rows.append(("(extenders)", "", str(first), str(second), f"{second - first:+d}"))
    behind = score.total - best.total
    rows.append(("TOTAL", "", str(best.total), str(score.total), f"{behind:+d}"))
    header = ("PLUGIN", "WEIGHT", best.node, node, "DIFFERENCE")
    yield table(header, rows, numbers=header[1:])


def _not_looked_at(attempt: AttemptRecord, when: str) -> str:
    counts = attempt.nodes
    if attempt.only_tried == "nominated":
        return f"it was not looked at ({when}), as the nominated node took the pod."
    if attempt.only_tried:
        return f"it was not looked at ({when}), as a node found for the pod before took this one."
    if counts.not_evaluated:
        return (
            f"it was not looked at ({when}): {counts.evaluated} of {counts.total} nodes were, "
            "and enough of them fitted."
        )
    left_out = next((one.reason for one in attempt.rejections if one.by_pre_filter), "")
    if left_out:
        return f"it was left out before any node was looked at ({when}): {left_out}."
    return f"there is nothing about it in the record ({when}); was it a node of the cluster then?"
