"""An attempt and its nodes: all that were looked at in a grid, and one of them in a sentence."""

from __future__ import annotations

from kscheduler.api.explanation import AttemptRecord, Decision, RejectedNodes
from kscheduler.ui.cluster import natural
from kscheduler.ui.grid import Cell, Column, Grid
from kscheduler.ui.html import TIMES

# What the cells of scores show.
SHOWN = {
    "weighted": "what each plugin adds to the total",
    "normalized": "scores from 0 to 100, before weights",
    "raw": "scores as plugins gave them",
}


def node_grid(decision: Decision, attempt: AttemptRecord, show: str) -> Grid:
    """Every node that was looked at: totals and scores by plugin, or who rejected it and why."""
    scores = attempt.scores
    plugins = scores.plugins if scores else ()
    columns = [Column("node", "Node", link="nodes/")]
    if scores:
        columns.append(Column("total", "Total", numeric=True))
        columns += [
            Column(
                plugin.name,
                _short(plugin.name) + (f" {TIMES}{plugin.weight}" if show == "weighted" else ""),
                numeric=True,
                hint=f"{plugin.name}, weight {plugin.weight}",
            )
            for plugin in plugins
        ]
    if attempt.rejections:
        columns += [Column("plugin", "Rejected by"), Column("reason", "Reason")]
    rows: list[list[Cell]] = []
    marks: dict[int, str] = {}
    rejected: list[Cell] = [None, None] if attempt.rejections else []
    if scores:
        for one in scores.nodes:
            if not one.node:
                continue
            if one.node == attempt.node:
                marks[len(rows)] = "chosen"
            elif len(rows) < scores.ties:
                marks[len(rows)] = "equally good"
            elif one.node == scores.runner_up:
                marks[len(rows)] = "runner-up"
            values = one.raw if show == "raw" else one.normalized
            if show == "weighted":
                values = tuple(
                    value * plugin.weight
                    for value, plugin in zip(one.normalized, plugins, strict=True)
                )
            rows.append([one.node, one.total, *values, *rejected])
    elif attempt.node:
        marks[len(rows)] = "chosen"
        rows.append([attempt.node, *rejected])
    blank: list[Cell] = [None] * (len(plugins) + 1) if scores else []
    reasons: dict[str, list[RejectedNodes]] = {}
    for rejection in attempt.rejections:
        for node in rejection.nodes:
            reasons.setdefault(node, []).append(rejection)
    for node in sorted(reasons, key=natural):
        names = ", ".join(dict.fromkeys(why.plugin for why in reasons[node]))
        texts = ", ".join(why.reason for why in reasons[node])
        rows.append([node, *blank, names, texts])
    key = f"{decision.namespace}/{decision.name}"
    return Grid(
        "nodes", f"Nodes for {key}", columns, rows, marks=marks, sort="-total" if scores else ""
    )


def _short(name: str) -> str:
    """A plugin's name as a narrow column has it."""
    return {
        "NodeResourcesFit": "Fit",
        "NodeResourcesBalancedAllocation": "Balanced",
        "PodTopologySpread": "Spread",
        "InterPodAffinity": "PodAffinity",
        "TaintToleration": "Taints",
        "ImageLocality": "Image",
        "VolumeBinding": "Volumes",
        "DynamicResources": "Devices",
    }.get(name, name)


def said_of(attempt: AttemptRecord, node: str) -> str:
    """Part of an attempt about one node."""
    if attempt.node == node:
        return "The last attempt chose this node."
    for one in attempt.rejections:
        if node in one.nodes:
            return f"The last attempt rejected this node: {one.plugin}: {one.reason}."
    scores = attempt.scores
    if scores is not None:
        best = next((one for one in scores.nodes if one.node == attempt.node), None)
        here = next((one for one in scores.nodes if one.node == node), None)
        if best is not None and here is not None:
            gaps = [
                (plugin.name, (theirs - ours) * plugin.weight)
                for plugin, ours, theirs in zip(
                    scores.plugins, here.normalized, best.normalized, strict=True
                )
            ]
            gaps.sort(key=lambda gap: -gap[1])
            most = [f"{name} {gap:+d}" for name, gap in gaps if gap > 0][:3]
            why = f" ({', '.join(most)})" if most else ""
            ahead = best.total - here.total
            return f"The last attempt found it feasible; {attempt.node} scored {ahead} more{why}."
    return "The last attempt did not look at this node."
