"""Overview: who decides, how fast, where there is room, who waits, and what was decided last."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from kscheduler.api.explanation import PendingPod, SchedulerStatus
from kscheduler.ui import parts
from kscheduler.ui.cluster import Brief, Cluster, NodeColumns
from kscheduler.ui.feed import Feed, Gap
from kscheduler.ui.html import DASH, Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.question import Question, node_fields
from kscheduler.ui.source import Trouble

T = TypeVar("T")

# Decisions of the stream.
LINES = 30
# The page is painted without what takes longer; the script asks again.
PATIENCE_SECONDS = 1.2
GROUP_KEY = "topology.kubernetes.io/zone"
# In the order of a pod's way: name here, name in the scheduler's counts, meaning.
QUEUES = (
    ("Active", "active", "will be tried next"),
    ("BackingOff", "backoff", "wait after a failed attempt"),
    ("Unschedulable", "unschedulable", "wait for something to change"),
    ("Gated", "gated", "are held back by a gate"),
)


async def overview(cluster: Cluster, feed: Feed, page: Page) -> Html:
    status, nodes, pending, _ = await asyncio.gather(
        _settled(cluster.statuses()),
        _settled(cluster.nodes()),
        _settled(cluster.pending()),
        feed.listed(PATIENCE_SECONDS),
    )
    leader: SchedulerStatus | Trouble | None = (
        status if isinstance(status, Trouble) else next((s for s in status or () if s.leader), None)
    )
    pods = () if isinstance(pending, Trouble) or pending is None else pending.pods
    return e(
        "div.overview",
        e("h1.hidden", "Overview"),
        _who(leader, [] if isinstance(status, Trouble) else list(status or ())),
        _scope(feed, pending.namespace if pending and not isinstance(pending, Trouble) else ""),
        _pulse(leader, feed),
        e(
            "div.columns",
            room(page, nodes),
            _queue(page, leader, pods, pending if isinstance(pending, Trouble) else None),
        ),
        stream(page, feed),
    )


async def _settled(question: Coroutine[Any, Any, T]) -> T | Trouble | None:
    """The answer, Trouble as a value, or None if it takes too long for the first paint."""
    try:
        return await asyncio.wait_for(question, PATIENCE_SECONDS)
    except Trouble as trouble:
        return trouble
    except TimeoutError:
        return None


def _who(leader: SchedulerStatus | Trouble | None, all_: list[SchedulerStatus]) -> Html:
    if isinstance(leader, Trouble):
        return e("div#who", parts.trouble(leader), data_live="status recovered")
    if leader is None:
        return e(
            "p.lead#who", "No instance leads at present: nothing is decided.", data_live="status"
        )
    waiting = sum(leader.queue.get(name, 0) for _, name, _ in QUEUES)
    standby = len(all_) - 1
    return e(
        "div#who",
        e(
            "p.lead",
            e("strong", leader.identity),
            " decides: ",
            parts.counted(leader.cache.get("pods", 0), "pod"),
            " on ",
            parts.counted(leader.cache.get("nodes", 0), "node"),
            ", ",
            "none waits" if not waiting else f"{parts.counted(waiting, 'pod')} waiting",
            ".",
        ),
        parts.facts(
            [
                ("Profiles", ", ".join(leader.profiles)),
                ("Version", f"{leader.version} (Kubernetes {leader.kubernetes_version})"),
                ("Configuration", leader.configuration_hash),
                ("Since", parts.moment(leader.started)),
                ("Standby", str(standby) if standby else "none known"),
                (
                    "Decisions kept",
                    f"{leader.decisions.get('kept', 0):,}"
                    + (f", {d:,} fell out" if (d := leader.decisions.get("dropped", 0)) else ""),
                ),
            ]
        ),
        data_live="status recovered",
    )


def _scope(feed: Feed, namespace: str) -> Html | None:
    namespace = namespace or feed.namespace
    if not namespace:
        return None
    return parts.partial(
        f"You see namespace {namespace}: listing pods of all namespaces is not allowed to you."
    )


def _pulse(leader: SchedulerStatus | Trouble | None, feed: Feed) -> Html:
    plots = feed.plots()
    rates: Mapping[str, float] = leader.rates if isinstance(leader, SchedulerStatus) else {}
    told = ", ".join(f"{value:.1f}/s {name}" for name, value in rates.items())
    thousand = [
        [None if v is None else v * 1000 for v in one] for one in (plots.median, plots.slow)
    ]
    return parts.section(
        "Pace",
        e(
            "div.plots",
            parts.plot("Scheduled", "per s", plots.scheduled),
            parts.plot("Not scheduled", "per s", plots.failed),
            parts.plot("Attempt, median / p99", "ms", *thousand),
        ),
        name="pace",
        live="status decisions",
        note=f"Over the last minute: {told}." if told else None,
    )


def room(page: Page, nodes: NodeColumns | Trouble | None) -> Html:
    """The heat map, and the same by group in a table."""
    if isinstance(nodes, Trouble):
        counts = parts.partial("You see counts: listing nodes is not allowed to you.")
        return parts.section("Room", counts, parts.trouble(nodes))
    if nodes is None:
        waiting = e("p.state.loading", "Reading the nodes…", role="status")
        return parts.section("Room", waiting, later=page.here())
    if not nodes.names:
        return parts.section("Room", parts.empty("The cluster has no nodes."), live="nodes")
    key, by = _shown(page, nodes)
    controls = e(
        "form.controls",
        e("label", "Group by", for_="group"),
        e(
            "select#group",
            e("option", "nothing", value="", selected=not key),
            [e("option", one, value=one, selected=one == key) for one in nodes.label_keys()],
            name="group",
        ),
        e("label", "Show", for_="by"),
        e(
            "select#by",
            [e("option", r, value=r, selected=r == by) for r in nodes.resources],
            name="by",
        ),
        e("button", "Show"),
        e("a", "All nodes as a table", href=page.to("nodes")),
        method="get",
    )
    return parts.section("Room", controls, heat_map(page, nodes), by_group(page, nodes, key, by))


def _shown(page: Page, nodes: NodeColumns) -> tuple[str, str]:
    """The label that nodes are grouped by, and the resource that is shown."""
    key = page.query.get("group", GROUP_KEY if GROUP_KEY in nodes.label_keys() else "")
    by = page.query.get("by", nodes.resources[0])
    return key, by if by in nodes.resources else nodes.resources[0]


def heat_map(
    page: Page,
    nodes: NodeColumns,
    *,
    marks: Mapping[str, int] | None = None,
    question: Question | None = None,
) -> Html:
    """A cell per node; `marks` counts pods that would come, `question` changes the nodes."""
    key, by = _shown(page, nodes)
    changes = {} if question is None else node_fields(question)
    return e(
        "div.heat",
        e(
            "noscript",
            e(
                "img",
                src=page.to("heatmap.svg", group=key, by=by, **changes),
                alt=f"{by} in use by node",
            ),
        ),
        e("canvas", tabindex=0, role="application", aria_label=_spoken(nodes, by, marks)),
        e("output.reading", "", aria_live="polite"),
        _legend(is_question=marks is not None, has_added="add" in changes),
        data_heat=page.to("data/nodes", group=key, **changes),
        data_by=by,
        data_marks=_marks(marks),
    )


def _marks(marks: Mapping[str, int] | None) -> str | None:
    if not marks:
        return None
    return "\n".join(f"{node}\t{count}" for node, count in marks.items())


def _spoken(nodes: NodeColumns, by: str, marks: Mapping[str, int] | None) -> str:
    table = "The table below has the same numbers by group."
    if marks is not None:
        table = f"{parts.counted(len(marks), 'node')} would get pods; a table below names them."
    return (
        f"{by} in use on {parts.counted(len(nodes.names), 'node')}: arrow keys move between nodes, "
        f"Enter opens one. {table}"
    )


def _legend(*, is_question: bool, has_added: bool) -> Html:
    steps = [e(f"span.step.s{i}", aria_hidden="true") for i in range(6)]
    return e(
        "p.legend",
        e(
            "span.scale",
            e("span", "0 %"),
            steps,
            e("span", "100 % of allocatable requested" + (" now" if is_question else "")),
        ),
        e("span", "✕ cordoned"),
        e("span", "+ added") if has_added else None,
        e("span", "framed: pods would come, the number says how many") if is_question else None,
    )


def by_group(page: Page, nodes: NodeColumns, key: str, by: str) -> Html:
    rows: list[list[Child]] = []
    groups = nodes.groups(key)
    for value, indexes in list(groups.items())[:20]:
        offered = sum(nodes.allocatable[by][i] for i in indexes)
        taken = sum(nodes.requested[by][i] for i in indexes)
        shares = sorted(s for i in indexes if (s := nodes.used(by, i)) is not None)
        share = 100 * taken / offered if offered else 0.0
        label = f"{share:.0f} % of {by} requested"
        rows.append(
            [
                value or ("all nodes" if not key else "without this label"),
                f"{len(indexes):,}",
                parts.meter(taken, offered, label),
                f"{share:.0f} %",
                f"{parts.amount(by, taken)} of {parts.amount(by, offered)}",
                f"{shares[0]:.0f}{DASH}{shares[-1]:.0f} %" if shares else DASH,
            ]
        )
    left = len(groups) - len(rows)
    heads = (key or "Group", "Nodes", f"{by} requested", "Share", "Amount", f"Least{DASH}most")
    more = e("p.note", f"and {left:,} more groups") if left > 0 else None
    return e(
        "div#groups",
        parts.table(f"{by} by {key or 'cluster'}", heads, rows, (1, 3, 4, 5)),
        more,
        data_live="nodes",
    )


def _queue(
    page: Page,
    leader: SchedulerStatus | Trouble | None,
    pods: Sequence[PendingPod],
    trouble: Trouble | None,
) -> Html:
    counts = leader.queue if isinstance(leader, SchedulerStatus) else {}
    rows: list[list[Child]] = []
    for queue, name, meaning in QUEUES:
        mine = [pod for pod in pods if pod.queue == queue]
        oldest = min(mine, key=lambda pod: pod.since or "~", default=None)
        rows.append(
            [
                e("span", queue, title=f"Pods that {meaning}"),
                f"{counts.get(name, len(mine)):,}",
                [page.pod(oldest.key), " ", e("small", parts.moment(oldest.since))]
                if oldest
                else DASH,
            ]
        )
    link = e("p.note", e("a", "By reason, and what would help", href=page.to("pending")))
    return parts.section(
        "Queue",
        parts.trouble(trouble) if trouble else None,
        parts.table("Waiting pods by queue", ("Queue", "Pods", "Oldest"), rows, (1,)),
        link,
        live="status decisions",
    )


def stream(page: Page, feed: Feed) -> Html:
    recent = feed.recent(LINES)
    if feed.trouble is not None and not recent:
        content: Child = parts.trouble(feed.trouble)
    elif not recent:
        content = parts.empty(
            "Nothing has been decided yet. The first pod without a node appears here."
        )
    else:
        content = None
    lines = e(
        "ol.stream",
        [gap(one) if isinstance(one, Gap) else line(page, one) for one in recent],
        data_stream=LINES,
        data_feed=f"{feed.epoch} {feed.last_id} {feed.told}",
    )
    counted = e("p.note#counted", f"The last {LINES}, as they are made.")
    return parts.section(
        "Decisions", counted, content, lines, name="decisions", live="reset recovered"
    )


def gap(one: Gap) -> Html:
    text = (
        f"▲ Until {one.until[11:19]} decisions may be missing: the scheduler could not be asked, "
        "or another instance leads since."
    )
    moment = e("time", one.since[11:19], datetime=one.since, title=one.since)
    return e("li.gap", moment, e("span.said", text))


def line(page: Page, brief: Brief) -> Html:
    clock = brief.last.time[11:19]
    return e(
        "li",
        e("time", clock, datetime=brief.last.time, title=brief.last.time),
        page.pod(brief.key),
        parts.badge(brief.outcome),
        e("span.said", brief.summary),
    )
