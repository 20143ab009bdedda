"""Nodes: all of them in a table, and one with its pods, its room, and why a pod is not here."""

from __future__ import annotations

import asyncio
from typing import Any

from kscheduler.api.explanation import Decision, NodeInfo, PendingPod, RejectedNodes
from kscheduler.api.pod_questions import OF_THE_WISH, fresh, limited_to
from kscheduler.api.quantity import QuantityError, milli_value
from kscheduler.api.resource_names import CPU, PODS
from kscheduler.ui import parts
from kscheduler.ui.cluster import FIRST_RESOURCES, Cluster, NodeColumns, number
from kscheduler.ui.grid import Cell, Column, Grid
from kscheduler.ui.html import Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.pods import review_of
from kscheduler.ui.source import Trouble
from kscheduler.ui.views.attempt import said_of
from kscheduler.ui.views.overview import GROUP_KEY

# Decisions that are searched for a rejection of this node.
MAX_SEARCHED = 50


async def nodes(cluster: Cluster, page: Page) -> Html:
    columns = await cluster.nodes()
    grid = nodes_grid(columns)
    return e(
        "div",
        e("h1", "Nodes"),
        e(
            "p.lead",
            f"{parts.counted(len(columns.names), 'node')}, as the scheduler's cache has them.",
        ),
        parts.section("All nodes", grid.render(page, "data/nodes-table"), live="nodes"),
    )


def nodes_grid(nodes: NodeColumns) -> Grid:
    others = [
        name
        for name in nodes.resources
        if name not in FIRST_RESOURCES and name != "ephemeral-storage"
    ]
    columns = [
        Column("node", "Node", link="nodes/"),
        Column("zone", "Zone"),
        Column(
            "cpu",
            "CPU",
            numeric=True,
            suffix=" %",
            bar_of=100,
            hint="Share of allocatable that is requested",
        ),
        Column("cpu-free", "free, cores", numeric=True, digits=2),
        Column("memory", "Memory", numeric=True, suffix=" %", bar_of=100),
        Column("memory-free", "free, GiB", numeric=True, digits=1),
        Column("pods", "Pods", numeric=True),
        Column("pods-free", "places free", numeric=True),
        *(Column(name, name, numeric=True, suffix=" %", bar_of=100) for name in others),
        Column("state", "State"),
    ]
    rows: list[list[Cell]] = []
    for index, name in enumerate(nodes.names):
        state = [
            word
            for word, is_so in (
                ("cordoned", nodes.cordoned[index]),
                ("tainted", nodes.tainted[index]),
            )
            if is_so
        ]
        free = {
            resource: nodes.allocatable[resource][index] - nodes.requested[resource][index]
            for resource in FIRST_RESOURCES
        }
        rows.append(
            [
                name,
                nodes.labels[index].get(GROUP_KEY, ""),
                nodes.used("cpu", index),
                free["cpu"],
                nodes.used("memory", index),
                free["memory"] / (1 << 30),
                nodes.requested[PODS][index],
                free[PODS],
                *(nodes.used(resource, index) for resource in others),
                ", ".join(state) or "ready for pods",
            ]
        )
    return Grid("nodes", "All nodes", columns, rows, sort="node")


async def node(cluster: Cluster, page: Page, name: str) -> Html:
    info, pods, chosen, rejected, waiting = await asyncio.gather(
        cluster.node(name),
        _or_trouble(cluster.pods_on(name)),
        _or_trouble(cluster.decisions({"fieldSelector": f"node={name}"}, 100)),
        _or_trouble(_rejections(cluster, name)),
        _or_trouble(cluster.pending()),
    )
    asked = page.query.get("pod", "")
    return e(
        "div",
        e("h1", name, " ", e("span.badge.failed", "▲ cordoned") if info.unschedulable else None),
        e("p.lead", _sentence(info)),
        e(
            "div.columns",
            e("div", _room(info), _pods(page, pods)),
            e(
                "div",
                _why_not(page, waiting, asked),
                await _answer(cluster, page, name, asked) if asked else None,
                _labels(info),
            ),
        ),
        _decided(page, name, chosen, rejected),
    )


async def _or_trouble(question: Any) -> Any:
    try:
        return await question
    except Trouble as trouble:
        return trouble


def _sentence(info: NodeInfo) -> str:
    places = info.allocatable.get(PODS, "0")
    text = f"{parts.counted(info.pods, 'pod')} of {places}"
    for resource in (CPU, "memory"):
        offered = number(info.allocatable.get(resource, "0"))
        if offered:
            free = offered - number(info.requested.get(resource, "0"))
            left, all_ = parts.amount(resource, free), parts.amount(resource, offered)
            text += f"; {left} of {all_} {resource} left"
    return text + "."


def _room(info: NodeInfo) -> Html:
    rows: list[list[Child]] = []
    for resource, offered_text in sorted(
        info.allocatable.items(), key=lambda item: (item[0] not in FIRST_RESOURCES, item[0])
    ):
        offered = number(offered_text)
        taken = float(info.pods) if resource == PODS else number(info.requested.get(resource, "0"))
        share = 100 * taken / offered if offered else 0.0
        label = f"{share:.0f} % of {resource} requested"
        rows.append(
            [
                resource,
                parts.meter(taken, offered, label),
                f"{share:.0f} %",
                parts.amount(resource, taken),
                parts.amount(resource, offered),
                parts.amount(resource, offered - taken),
            ]
        )
    heads = ("Resource", "In use", "Share", "Requested", "Allocatable", "Left")
    return parts.section(
        "Room", parts.table("Room by resource", heads, rows, (2, 3, 4, 5)), live="nodes"
    )


def _pods(page: Page, pods: list[dict[str, Any]] | Trouble) -> Html:
    if isinstance(pods, Trouble):
        return parts.section("Pods", parts.trouble(pods))
    if not pods:
        return parts.section(
            "Pods", parts.empty("No pod that you may see is on this node."), live="nodes"
        )
    rows = [
        (
            _amount(pod, CPU),
            [
                page.pod(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"),
                parts.amount(CPU, _amount(pod, CPU)),
                parts.amount("memory", _amount(pod, "memory")),
                f"{pod['spec'].get('priority', 0):,}",
                pod.get("status", {}).get("phase", ""),
            ],
        )
        for pod in pods
    ]
    rows.sort(key=lambda row: -row[0])
    table = parts.table(
        "Pods on this node",
        ("Pod", "CPU", "Memory", "Priority", "Phase"),
        [row for _, row in rows],
        (1, 2, 3),
    )
    return parts.section("Pods", table, live="nodes")


def _amount(pod: dict[str, Any], resource: str) -> float:
    """Requests of the containers of a pod, as its manifest says."""
    total = 0.0
    for container in pod["spec"].get("containers", ()):
        text = container.get("resources", {}).get("requests", {}).get(resource)
        if text is not None:
            try:
                total += milli_value(text) / 1000
            except QuantityError:
                continue
    return total


def _why_not(page: Page, waiting: Any, asked: str) -> Html:
    pods: list[PendingPod] = [] if isinstance(waiting, Trouble) else list(waiting.pods)
    options = [
        e("option", pod.key, value=pod.key, selected=pod.key == asked)
        for pod in sorted(pods, key=lambda one: one.key)[:500]
    ]
    form = e(
        "form.filter",
        e("label", "Pod", for_="why-pod"),
        e(
            "input",
            id="why-pod",
            name="pod",
            value=asked,
            list="waiting",
            placeholder="namespace/pod",
            required=True,
        ),
        e("datalist#waiting", options),
        e("button", "Ask"),
        method="get",
    )
    return parts.section(
        "Why not here?",
        form,
        name="why-not",
        note=f"{parts.counted(len(pods), 'waiting pod')} to choose from; any other can be named.",
    )


async def _answer(cluster: Cluster, page: Page, node: str, key: str) -> Html:
    """Whether the pod would fit on this node now, and what its last attempt said of it."""
    namespace, slash, name = key.partition("/")
    if not slash:
        return parts.empty("Name a pod by namespace/name.")
    content: list[Child] = [e("h2", page.pod(key), f" on {node}")]
    try:
        decision = await cluster.decision(namespace, name)
        if decision.last is not None:
            content.append(e("p", said_of(decision.last, node)))
    except Trouble as trouble:
        content.append(parts.trouble(trouble))
    try:
        manifest = limited_to(fresh(await cluster.pod(namespace, name)), node)
        status = await cluster.review(review_of(manifest, detail="All"), namespace)
        if status.fits:
            content.append(e("p", e("strong", f"Asked now, it would fit on {node}.")))
        else:
            placement = status.placements[0] if status.placements else None
            found = placement.explanation.rejections if placement and placement.explanation else ()
            here = [one for one in found if node in one.nodes]
            why = "; ".join(_reason(one) for one in here) or status.message
            content.append(e("p", e("strong", "Asked now, it does not fit: "), why))
            # The wish for this very node is ours, and no change of it would help.
            changes = [one for one in status.remedies if not one.change.startswith(OF_THE_WISH)]
            if changes:
                items = [e("li", one.change) for one in changes]
                content.append(e("h3", "What would help"))
                content.append(e("ol.remedies", items))
    except Trouble as trouble:
        content.append(parts.trouble(trouble))
    return e("section", content)


def _reason(rejected: RejectedNodes) -> str:
    short = rejected.shortage
    if short is None or not short.most_free:
        return f"{rejected.plugin}: {rejected.reason}"
    numbers = f"asked {short.asked}, {short.most_free} left, short by {short.least_short_by}"
    return f"{rejected.plugin}: {rejected.reason} ({numbers})"


async def _rejections(cluster: Cluster, name: str) -> list[tuple[Decision, str, str]]:
    """Recent decisions that rejected the node: of pods that are on no node."""
    query = {"fieldSelector": "outcome=Unschedulable", "detail": "All", "limit": str(MAX_SEARCHED)}
    found = []
    for decision in await cluster.decisions(query, MAX_SEARCHED):
        for one in decision.last.rejections if decision.last else ():
            if name in one.nodes:
                found.append((decision, one.plugin, one.reason))
                break
    return found


def _decided(page: Page, name: str, chosen: Any, rejected: Any) -> Html:
    """Decisions about the node, the latest first."""
    content: list[Child] = []
    found: list[tuple[Decision, str, str]] = []
    if isinstance(chosen, Trouble):
        content.append(parts.trouble(chosen))
    else:
        found += [(one, "● chose it", one.summary) for one in chosen]
    if not isinstance(rejected, Trouble):
        found += [(one, "○ rejected it", f"{plugin}: {why}") for one, plugin, why in rejected]
    found.sort(key=lambda item: item[0].last.time if item[0].last else "", reverse=True)
    rows: list[list[Child]] = [
        [parts.moment(one.last.time if one.last else None), page.pod(one.key), decision, why]
        for one, decision, why in found
    ]
    if rows:
        content.append(
            parts.table("Decisions about this node", ("When", "Pod", "Decision", "Why"), rows)
        )
    elif not content:
        content.append(parts.empty("No decision that is still kept was about this node."))
    return parts.section("Recent decisions", content, name="recent", live="decisions")


def _labels(info: NodeInfo) -> Html:
    labels = sorted(info.metadata.labels.items())
    return parts.section(
        "Labels and taints",
        e("ul.plain", [e("li", e("code", f"{key}={value}")) for key, value in labels]),
        e("h3", "Taints") if info.taints else None,
        e("ul.plain", [e("li", e("code", taint)) for taint in info.taints])
        if info.taints
        else e("p.note", "No taints."),
        name="labels",
    )
