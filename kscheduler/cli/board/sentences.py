"""Decisions in a line each: where a pod went and by which scores, or what keeps it waiting.

web-3 → node-4: Fit 98 + Spread 200 + Taints 300 = 598, next node-1 595
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from kscheduler.api.explanation import SCHEDULED, RejectedNodes, ScoreTable
from kscheduler.api.resource_names import PODS
from kscheduler.cli.decision_view import weighted
from kscheduler.cli.page import tamed
from kscheduler.decisions.explain import View, attempt_of
from kscheduler.decisions.record import BATCH, NOMINATED, Record

# Score plugins by a word; others have their names.
SHORT = {
    "NodeResourcesFit": "Fit",
    "NodeResourcesBalancedAllocation": "Balance",
    "PodTopologySpread": "Spread",
    "InterPodAffinity": "PodAffinity",
    "ImageLocality": "Image",
    "VolumeBinding": "Volumes",
    "DynamicResources": "Devices",
    "TaintToleration": "Taints",
}
# The order in which they are told; others come before the last, which seldom makes a difference.
_ORDER = {name: place for place, name in enumerate(SHORT)}
# Reasons that a line names; the rest is counted.
MAX_REASONS = 3
MAX_VICTIMS = 4
# Of a table of scores, only the node that was chosen is read out of the record.
_CHOSEN = View(per_node=False)

GOOD, POD, QUIET, BAD = "green", "bold", "dim", "red"
STRUCK = "strike red"


def pod_name(namespace: str, name: str) -> str:
    return name if namespace == "default" else f"{namespace}/{name}"


def decision_line(pod: str, record: Record, *, brief: bool = False) -> Text:
    """One attempt: the pod's way to a node, its victims, or why it waits; `brief` leaves out the
    parts of a sum.
    """
    line = Text(no_wrap=True)
    line.append(tamed(pod), POD)
    if record.outcome == SCHEDULED:
        line.append(" → ", GOOD)
        line.append(tamed(record.node), GOOD)
        line.append(": ")
        line.append(tamed(_scored(record, brief=brief)))
    elif record.victims:
        line.append(" evicts ", BAD)
        for victim in record.victims[:MAX_VICTIMS]:
            line.append(tamed(pod_name(victim.namespace, victim.name)), STRUCK)
            line.append(" ")
        if len(record.victims) > MAX_VICTIMS:
            line.append(f"and {len(record.victims) - MAX_VICTIMS} more ")
        line.append(f"to get {tamed(record.nominated_node)}")
    else:
        line.append(" waits: ", "yellow")
        line.append(tamed(refusal(record)))
    return line


def _scored(record: Record, *, brief: bool) -> str:
    if record.only_tried == NOMINATED:
        return "nominated for it, where room was made"
    if record.only_tried == BATCH:
        return "the best node left of those found for the pod before it"
    table = attempt_of(record, _CHOSEN).scores
    if table is None or not table.nodes:
        return f"the only node that fits, of {record.evaluated}"
    total = str(table.nodes[0].total) if brief else score_sum(table)
    return f"{total}{_rivals(table)}"


def score_sum(table: ScoreTable) -> str:
    """Contributions of the plugins to the chosen node's total, those that gave nothing left out."""
    chosen = table.nodes[0]
    values = zip((one.name for one in table.plugins), weighted(table, chosen), strict=True)
    ordered = sorted(values, key=lambda one: _ORDER.get(one[0], len(_ORDER) - 1.5))
    parts = [f"{SHORT.get(name, name)} {value}" for name, value in ordered if value]
    if chosen.from_extenders:
        parts.append(f"extenders {chosen.from_extenders}")
    return f"{' + '.join(parts)} = {chosen.total}" if len(parts) > 1 else f"{chosen.total}"


def _rivals(table: ScoreTable) -> str:
    if table.margin is None or not table.runner_up:
        return ""
    if table.ties > 1:
        return f", drawn among {table.ties} equals"
    return f", next {table.runner_up} {table.nodes[0].total - table.margin}"


def refusal(record: Record) -> str:
    """Why no node took the pod: reasons with counts, and how much was missing at least."""
    if record.failed_at:
        return f"{record.failed_at} on {record.node} failed: {record.message}"
    rejections = attempt_of(record, _CHOSEN).rejections
    return reasons(rejections) or record.message


def reasons(rejections: Sequence[RejectedNodes]) -> str:
    told = [_reason(one) for one in rejections[:MAX_REASONS]]
    if len(rejections) > MAX_REASONS:
        told.append(f"and {len(rejections) - MAX_REASONS} more reasons")
    return "; ".join(told)


def _reason(rejected: RejectedNodes) -> str:
    text = f"{rejected.count} {rejected.reason}"
    short = rejected.shortage
    if short is not None and short.resource != PODS:
        where = f" on {short.node}" if short.node else ""
        return f"{text} (asks {short.asked}, at most {short.most_free} left{where})"
    if rejected.details:
        return f"{text} ({rejected.details[0].text})"
    return text
