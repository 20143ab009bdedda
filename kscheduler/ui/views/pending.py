"""Pending: pods that wait, by reason, and the change that would free most of them."""

from __future__ import annotations

from collections.abc import Sequence

from kscheduler.api.explanation import NodesToAdd, PendingPod
from kscheduler.api.pod_questions import Manifest, fresh
from kscheduler.ui import parts
from kscheduler.ui.cluster import Cluster, Pending
from kscheduler.ui.grid import Cell, Column, Grid
from kscheduler.ui.html import Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.pods import by_reason, reason_of, review_of
from kscheduler.ui.source import Refused, Trouble

# Reasons that are shown, and of how many a change is looked for: each takes a review.
MAX_REASONS = 30
MAX_REVIEWS = 3
# Pods of one reason that are placed on added nodes, how many nodes are tried, and steps towards
# the least number that does: eight reviews at most, of 30 a minute that the scheduler answers.
MAX_FREED = 200
MAX_ADDED = 16
MAX_STEPS = 3


async def pending(cluster: Cluster, page: Page) -> Html:
    found = await cluster.pending()
    pods = found.pods
    groups = by_reason(pods)
    return e(
        "div",
        e("h1", "Pending"),
        e("p.lead#count", _sentence(found, len(groups)), data_live="status decisions"),
        parts.partial(
            f"You see namespace {found.namespace}: listing all pods is not allowed to you."
        )
        if found.namespace
        else None,
        _help(page)
        if any(pod.unschedulable_plugins and pod.queue != "Gated" for pod in pods)
        else None,
        _reasons(page, groups),
        parts.section(
            "All waiting pods",
            grid_of(pods).render(page, "data/pending"),
            name="all",
            live="decisions",
        )
        if pods
        else None,
        _take_along(cluster),
    )


def _sentence(found: Pending, reasons: int) -> str:
    count = len(found.pods)
    if not count:
        return "No pod waits."
    more = "More than " if found.is_cut else ""
    waits = "waits" if count == 1 else "wait"
    return f"{more}{parts.counted(count, 'pod')} {waits}, for {parts.counted(reasons, 'reason')}."


def _help(page: Page) -> Html:
    address = page.to("pending/help")
    return parts.section(
        "What would free most of them",
        e(
            "div#freeing",
            e("p.state.loading", e("a", "Ask for the smallest changes", href=address), "."),
            data_later=address,
        ),
        name="help",
    )


async def freeing(cluster: Cluster, page: Page) -> Html:
    """For the largest groups, the change after which the oldest of them would fit; for the largest
    one, how many nodes would take all of it.
    """
    found = await cluster.pending()
    rows: list[list[Child]] = []
    troubles: list[Child] = []
    groups = {
        reason: pods
        for reason, pods in by_reason(found.pods).items()
        if pods[0].queue != "Gated" and pods[0].unschedulable_plugins
    }
    try:
        for reason, pods in list(groups.items())[:MAX_REVIEWS]:
            oldest = pods[0].metadata
            manifest = fresh(await cluster.pod(oldest.namespace, oldest.name))
            if not rows and (change := await _nodes_for(cluster, manifest, len(pods))):
                rows.append([f"{len(pods):,}", change, page.pod(pods[0].key), reason])
            status = await cluster.review(review_of(manifest), oldest.namespace)
            best = status.remedies[0] if status.remedies else None
            told: Child = "no single change"
            if status.fits:
                told = "nothing: asked now, one fits"
            elif best is not None:
                more = parts.counted(best.more_nodes, "node")
                told = [best.change, ": ", e("span.better", f"{more} could take it")]
            rows.append([f"{len(pods):,}", told, page.pod(pods[0].key), reason])
    except Trouble as trouble:
        troubles.append(parts.trouble(trouble))
    heads = ("Pods", "Change", "Asked for the oldest", "They wait for")
    table = parts.table("Changes that would free pods", heads, rows, (0,)) if rows else None
    return e("div", e("h1", "What would free most of them"), e("div#freeing", table, troubles))


async def _nodes_for(cluster: Cluster, pod: Manifest, count: int) -> Child:
    """How many more nodes of the usual kind would take so many pods like this one; None if nodes
    would not help, or are not to be seen.
    """
    try:
        like = (await cluster.nodes()).usual_node()
    except Refused:
        return None
    wanted = min(count, MAX_FREED)

    async def placed(nodes: int) -> int:
        added = (NodesToAdd(count=nodes, like=like),)
        review = review_of(pod, replicas=wanted, add_nodes=added)
        return (await cluster.review(review, pod["metadata"]["namespace"])).placed

    too_few, enough = 0, 1
    best = await placed(1) if like else 0
    if not best:
        return None
    while best < wanted and enough < MAX_ADDED:
        too_few, enough = enough, enough * 2
        best = await placed(enough)
    # Between the two numbers, in a few steps.
    for _ in range(MAX_STEPS):
        middle = (too_few + enough) // 2
        if best < wanted or middle == too_few:
            break
        if await placed(middle) < wanted:
            too_few = middle
        else:
            enough = middle
    nodes = parts.counted(enough, "more node")
    return [f"{nodes} like {like}: ", e("span.better", f"{best:,} of {wanted:,} would fit")]


def _reasons(page: Page, groups: dict[str, list[PendingPod]]) -> Html:
    if not groups:
        text = (
            "Every pod has its node. Pods that cannot be placed appear here, with what would help."
        )
        return parts.section(
            "By reason", parts.empty(text), name="reasons", live="status decisions"
        )
    most = max(map(len, groups.values()))
    rows: list[list[Child]] = []
    for reason, pods in list(groups.items())[:MAX_REASONS]:
        namespaces = sorted({pod.namespace for pod in pods})
        label = parts.counted(len(pods), "pod")
        rows.append(
            [
                f"{len(pods):,}",
                parts.meter(len(pods), most, label),
                reason,
                ", ".join(namespaces[:3])
                + (f" and {len(namespaces) - 3} more" if len(namespaces) > 3 else ""),
                [
                    page.pod(pods[0].key),
                    " ",
                    e("small", parts.moment(pods[0].metadata.creation_timestamp)),
                ],
                e(
                    "a",
                    "list",
                    href=page.here(filter=reason[:80]) + "#all",
                    aria_label=f"List pods that wait for: {reason}",
                ),
            ]
        )
    heads = ("Pods", "", "Reason", "Namespaces", "Oldest", "")
    left = len(groups) - len(rows)
    return parts.section(
        "By reason",
        parts.table("Waiting pods by reason", heads, rows, (0,)),
        name="reasons",
        live="status decisions",
        note=f"And {parts.counted(left, 'more reason')}." if left > 0 else None,
    )


def grid_of(pods: Sequence[PendingPod]) -> Grid:
    columns = [
        Column("pod", "Pod", link="pods/"),
        Column("queue", "Queue"),
        Column("attempts", "Attempts", numeric=True),
        Column("priority", "Priority", numeric=True),
        Column("since", "Waiting since"),
        Column("nominated", "Nominated"),
        Column("reason", "Reason"),
    ]
    rows: list[list[Cell]] = [
        [
            one.key,
            one.queue,
            one.attempts,
            one.priority,
            one.since,
            one.nominated_node or None,
            reason_of(one),
        ]
        for one in sorted(pods, key=lambda one: one.key)
    ]
    return Grid("pending", "All waiting pods", columns, rows, sort="pod")


def _take_along(cluster: Cluster) -> Html:
    flags = f" {cluster.source.flags}" if cluster.source.flags else ""
    return parts.section(
        "Take along",
        parts.copyable("Command", f"kscheduler pending -A --summary{flags}"),
        parts.copyable("kubectl", "kubectl get pendingpods -A -o wide"),
        name="take",
    )
