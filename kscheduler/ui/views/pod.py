"""A pod: the answer in one sentence, its attempts, every node with its reason or its scores, what
would help, who had to go, and who else wants the same room.
"""

from __future__ import annotations

import asyncio
import time

from kscheduler.api.explanation import (
    SCHEDULED,
    AttemptRecord,
    Decision,
    PendingPod,
    PlacementReviewStatus,
    WakingEvent,
)
from kscheduler.api.pod_questions import fresh
from kscheduler.api.timestamps import TimestampError, parse_time
from kscheduler.ui import parts
from kscheduler.ui.cluster import Cluster
from kscheduler.ui.html import Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.pods import reason_of, review_of
from kscheduler.ui.source import Missing, Trouble
from kscheduler.ui.views.attempt import SHOWN, node_grid

MAX_RIVALS = 10
MAX_WAKING = 8
TIMELINE_WIDTH = 900


async def pod(cluster: Cluster, page: Page, namespace: str, name: str) -> Html:
    key = f"{namespace}/{name}"
    decision, waiting = await asyncio.gather(
        cluster.decision(namespace, name),
        cluster.pending_pod(namespace, name),
        return_exceptions=True,
    )
    for answer in (decision, waiting):
        if isinstance(answer, BaseException) and not isinstance(answer, Trouble):
            raise answer
    if isinstance(waiting, Trouble) and isinstance(decision, Trouble):
        # The sentence of the decision says why there is none.
        raise decision
    head = _head(key, decision, waiting)
    content: list[Child] = []
    attempt = None
    if isinstance(decision, Decision):
        attempt = decision.last
        if decision.partial:
            content.append(
                parts.partial(
                    "Where names are missing you see counts: "
                    "listing nodes, or pods of other namespaces, is not allowed to you."
                )
            )
    elif isinstance(decision, Missing):
        content.append(parts.empty("It has not been decided on yet."))
    elif isinstance(decision, Trouble):
        content.append(parts.trouble(decision))
    if isinstance(waiting, PendingPod):
        content.append(e("div.halves", _waits(waiting), help_later(page, namespace, name)))
    if isinstance(decision, Decision) and attempt is not None:
        content.append(_attempts(decision, attempt))
        content.append(_reasons(page, attempt))
        content.append(_victims(page, attempt))
        content.append(_nodes(page, decision, attempt, namespace, name))
        content += [_steps(attempt), _extenders(attempt), _faults(attempt)]
    if isinstance(waiting, PendingPod):
        content.append(await _rivals(cluster, page, waiting))
    content.append(_take_along(cluster, namespace, name))
    return e("div", head, content, data_pod=key, data_whole=True)


def _head(
    key: str, decision: Decision | BaseException, waiting: PendingPod | BaseException
) -> Html:
    told = isinstance(decision, Decision)
    outcome = decision.outcome if isinstance(decision, Decision) else ""
    sentence = ""
    if isinstance(decision, Decision):
        sentence = decision.summary
    elif isinstance(waiting, PendingPod):
        sentence = waiting.summary
    lines: list[tuple[str, Child]] = []
    if isinstance(decision, Decision) and decision.last is not None:
        last = decision.last
        lines = [
            ("Profile", decision.scheduler_name),
            ("Attempts", f"{decision.attempts:,}"),
            ("Last attempt", parts.moment(last.time)),
            ("Waited before it", _waited(last)),
            ("Took", parts.duration(last.duration_seconds)),
            ("Nodes looked at", f"{last.nodes.evaluated:,} of {last.nodes.total:,}"),
            ("Feasible", f"{last.nodes.feasible:,}"),
        ]
    return e(
        "div#answer",
        e("h1", key, " ", parts.badge(outcome) if told else None),
        e("p.lead", sentence),
        parts.facts(lines) if lines else None,
        data_live="decisions",
    )


def _waited(attempt: AttemptRecord) -> str:
    """How long the pod waited for the attempt, in which queues, and the event that ended it."""
    text = parts.duration(attempt.waited_seconds)
    if len(attempt.waits) > 1:
        each = (f"{one.queue} {parts.duration(one.seconds)}" for one in attempt.waits)
        text += f" ({', '.join(each)})"
    return f"{text}, until {attempt.woken_by}" if attempt.woken_by else text


def _waits(waiting: PendingPod) -> Html:
    events: dict[str, list[WakingEvent]] = {}
    for event in waiting.wakes_on:
        events.setdefault(event.description, []).append(event)
    items = [
        e(
            "li",
            description,
            " ",
            e("small", ", ".join(sorted({event.plugin for event in same if event.plugin}))),
        )
        for description, same in events.items()
    ]
    facts: list[tuple[str, Child]] = [
        ("Queue", waiting.queue),
        ("Since", parts.moment(waiting.since)),
        ("Attempts", str(waiting.attempts)),
        ("Priority", f"{waiting.priority:,}"),
    ]
    if waiting.backoff_until:
        facts.append(("Backs off until", parts.moment(waiting.backoff_until)))
    if waiting.nominated_node:
        facts.append(("Nominated to", waiting.nominated_node))
    first, rest = items[:MAX_WAKING], items[MAX_WAKING:]
    return parts.section(
        "Where it waits",
        e("p", waiting.summary),
        parts.facts(facts),
        e("h3", "Tried again when") if items else None,
        e("ul.plain", first) if items else None,
        e("details", e("summary", f"{len(rest)} more events"), e("ul.plain", rest))
        if rest
        else None,
        name="waits",
        live="decisions status",
    )


def help_later(page: Page, namespace: str, name: str) -> Html:
    """The place of what would help: it takes a question to the scheduler."""
    address = page.to(f"pods/{page.quoted(f'{namespace}/{name}')}/help")
    return parts.section(
        "What would help",
        e(
            "div#remedies",
            e("p.state.loading", e("a", "Ask for the smallest change", href=address), "."),
            data_later=address,
        ),
        name="help",
    )


async def remedies(cluster: Cluster, page: Page, namespace: str, name: str) -> Html:
    """Single changes after which the pod would fit, the smallest first."""
    manifest = fresh(await cluster.pod(namespace, name))
    status = await cluster.review(review_of(manifest), namespace)
    key = f"{namespace}/{name}"
    return e(
        "div",
        e("h1", "What would help ", page.pod(key)),
        e("div#remedies", remedy_list(page, status, key)),
    )


def remedy_list(page: Page, status: PlacementReviewStatus, key: str = "") -> Html:
    if status.fits:
        return e("p", "Asked now, it fits: it only has to be tried again.")
    try_it = (
        e("p.note", e("a", "Try changes out", href=page.to("what-if", pod=key))) if key else None
    )
    if not status.remedies:
        return e("div", e("p", "No single change would make it fit. ", status.message), try_it)
    items = [
        e(
            "li",
            one.change,
            ": ",
            e("span.better", f"{parts.counted(one.more_nodes, 'node')} could take it"),
        )
        for one in status.remedies
    ]
    return e("div", e("ol.remedies", items), try_it)


def _attempts(decision: Decision, attempt: AttemptRecord) -> Html | None:
    """How attempts ended, over time."""
    if decision.attempts < 2:
        return None
    rows: list[list[Child]] = [
        [
            parts.badge(one.outcome),
            f"{one.count:,}",
            parts.moment(one.first_time),
            parts.moment(one.last_time),
            one.message,
        ]
        for one in decision.outcomes
    ]
    heads = ("Outcome", "Attempts", "First", "Last", "Message")
    return parts.section(
        "Attempts",
        timeline(decision),
        parts.table("Attempts by how they ended", heads, rows, (1,)),
        live="decisions",
    )


def timeline(decision: Decision, now: float | None = None) -> Html | None:
    now = time.time() if now is None else now
    try:
        spans = [
            (one, parse_time(one.first_time), parse_time(one.last_time))
            for one in decision.outcomes
        ]
    except TimestampError:
        return None
    start = min((first for _, first, _ in spans), default=now)
    length = max(now - start, 1.0)
    marks: list[Html] = []
    for row, (one, first, last) in enumerate(spans):
        x = (first - start) / length * (TIMELINE_WIDTH - 8) + 2
        width = max((last - first) / length * (TIMELINE_WIDTH - 8), 5)
        kind = "placed" if one.outcome == SCHEDULED else "span"
        label = f"{parts.counted(one.count, 'attempt')}: {one.outcome}"
        y = 6 + row * 16
        marks.append(
            e(
                f"rect.{kind}",
                e("title", label),
                x=f"{x:.1f}",
                y=y,
                width=f"{width:.1f}",
                height=9,
                rx=2,
            )
        )
    bottom = 10 + 16 * len(spans)
    return e(
        "svg.timeline",
        e("title", f"{parts.counted(decision.attempts, 'attempt')} over {parts.duration(length)}"),
        e("line.axis", x1=0, x2=TIMELINE_WIDTH, y1=bottom, y2=bottom),
        marks,
        e("text", f"{parts.duration(length)} ago", x=2, y=bottom + 14),
        e("text", "now", x=TIMELINE_WIDTH - 2, y=bottom + 14, text_anchor="end"),
        viewBox=f"0 0 {TIMELINE_WIDTH} {bottom + 20}",
        role="img",
    )


def _reasons(page: Page, attempt: AttemptRecord) -> Html | None:
    if not attempt.rejections:
        return None
    rows: list[list[Child]] = []
    has_amounts = any(one.shortage for one in attempt.rejections)
    for one in attempt.rejections:
        amounts: list[Child] = ["", "", ""] if has_amounts else []
        if short := one.shortage:
            most = f"{short.most_free} on {short.node}" if short.node else short.most_free
            amounts = [short.asked, most, short.least_short_by]
        details = [
            e("li", f"{detail.text} ", e("small", parts.counted(detail.count, "node")))
            for detail in one.details
        ]
        rows.append(
            [
                f"{one.count:,}",
                one.plugin,
                [one.reason, e("ul.plain.details", details) if details else None],
                *amounts,
                "might help" if one.preemption_might_help else "no",
            ]
        )
    amount_heads = ("Asked", "Most left", "Short by") if has_amounts else ()
    heads = ("Nodes", "Plugin", "Reason", *amount_heads, "Preemption")
    return parts.section(
        "Why nodes were rejected",
        parts.table("Rejected nodes by reason", heads, rows, (0, 3, 5) if has_amounts else (0,)),
        name="reasons",
        live="decisions",
    )


def _victims(page: Page, attempt: AttemptRecord) -> Html | None:
    if not attempt.victims and not attempt.hidden_victims:
        return None
    rows: list[list[Child]] = [
        [
            page.pod(f"{one.namespace}/{one.name}"),
            f"{one.priority:,}",
            [
                ", ".join(one.budgets) or "none",
                e("strong", " ▲ violated") if one.violates_budget else None,
            ],
        ]
        for one in attempt.victims
    ]
    hidden = attempt.hidden_victims
    note = (
        f"And {parts.counted(hidden, 'pod')} in namespaces that you may not see."
        if hidden
        else None
    )
    where = f"Evicted from {attempt.nominated_node}" if attempt.nominated_node else "Evicted"
    return parts.section(
        "Victims",
        e("p", f"{where} to make room."),
        parts.table("Victims", ("Pod", "Priority", "Disruption budgets"), rows, (1,)),
        note=note,
        live="decisions",
    )


def _nodes(
    page: Page, decision: Decision, attempt: AttemptRecord, namespace: str, name: str
) -> Html | None:
    grid = node_grid(decision, attempt, page.query.get("show", "weighted"))
    if not grid.rows:
        if not attempt.nodes.feasible and not attempt.rejections:
            return None
        text = (
            "You see counts: listing nodes is not allowed to you."
            if decision.partial
            else "One node was tried, and it took the pod."
        )
        return parts.section("Nodes", parts.empty(text), live="decisions")
    scores = attempt.scores
    note: list[Child] = []
    if scores is not None:
        if scores.ties > 1:
            note.append(f"{scores.ties} nodes share the highest total: one of them was drawn. ")
        elif scores.margin is not None:
            note.append(f"The chosen node is {scores.margin} ahead of {scores.runner_up}. ")
        if scores.extenders_scored:
            note.append("Totals include the scores of extenders. ")
    if attempt.nodes.not_evaluated:
        count = parts.counted(attempt.nodes.not_evaluated, "node")
        note.append(f"{count} were not looked at, because enough had been found.")
    chosen = page.query.get("show", "weighted")
    tabs = e(
        "nav.tabs",
        [
            e(
                "a",
                text.title(),
                href=page.here(show=text),
                title=meaning,
                aria_current="true" if text == chosen else None,
            )
            for text, meaning in SHOWN.items()
        ],
        aria_label="Scores shown",
    )
    path = f"data/pods/{page.quoted(f'{namespace}/{name}')}/nodes?show={page.quoted(chosen)}"
    return parts.section(
        "Nodes",
        tabs if scores else None,
        grid.render(page, path),
        note=note or None,
        live="decisions",
    )


def _steps(attempt: AttemptRecord) -> Html | None:
    if not attempt.steps:
        return None
    if all(one.code == "Success" and not one.message for one in attempt.steps):
        points = ", ".join(dict.fromkeys(one.point for one in attempt.steps))
        text = e("p", f"{points}: all plugins agreed.")
        return parts.section("After the decision", text, name="steps", live="decisions")
    rows: list[list[Child]] = [
        [one.point, one.plugin or "all plugins", one.code, one.message] for one in attempt.steps
    ]
    return parts.section(
        "After the decision",
        parts.table("Answers after the decision", ("Step", "Plugin", "Answer", "Message"), rows),
        name="steps",
        live="decisions",
    )


def _extenders(attempt: AttemptRecord) -> Html | None:
    if not attempt.extenders:
        return None
    rows: list[list[Child]] = [
        [
            one.extender,
            one.verb,
            f"{one.asked:,}",
            f"{one.passed:,}",
            [one.error, " (went on without it)" if one.ignored else None],
        ]
        for one in attempt.extenders
    ]
    heads = ("Extender", "Asked to", "Nodes asked", "Nodes answered", "Error")
    return parts.section(
        "Extenders",
        parts.table("Answers of extenders", heads, rows, (2, 3)),
        live="decisions",
    )


def _faults(attempt: AttemptRecord) -> Html | None:
    if not attempt.faults:
        return None
    rows: list[list[Child]] = [
        [one.plugin, one.point, one.kind, one.message] for one in attempt.faults
    ]
    return parts.section(
        "Plugins that failed",
        parts.table("Plugins that failed", ("Plugin", "Point", "Kind", "Message"), rows),
        name="faults",
        live="decisions",
    )


async def _rivals(cluster: Cluster, page: Page, waiting: PendingPod) -> Html | None:
    """Others who wait for the same reason, the most important first."""
    try:
        pending = await cluster.pending()
    except Trouble:
        return None
    reason = reason_of(waiting)
    alike = [one for one in pending.pods if one.key != waiting.key and reason_of(one) == reason]
    if not alike:
        return None
    alike.sort(key=lambda one: (-one.priority, one.since))
    ahead = sum(one.priority > waiting.priority for one in alike)
    rows: list[list[Child]] = [
        [page.pod(one.key), f"{one.priority:,}", one.queue, parts.moment(one.since)]
        for one in alike[:MAX_RIVALS]
    ]
    count = parts.counted(len(alike), "other pod")
    wait = "waits" if len(alike) == 1 else "wait"
    note = f"{count} {wait} for the same reason, {ahead or 'none'} with a higher priority."
    return parts.section(
        "Who else wants the same room",
        parts.table("Pods that wait alike", ("Pod", "Priority", "Queue", "Since"), rows, (1,)),
        name="rivals",
        live="status",
        note=note,
    )


def _take_along(cluster: Cluster, namespace: str, name: str) -> Html:
    flags = f" {cluster.source.flags}" if cluster.source.flags else ""
    raw = f"/apis/kscheduler.dev/v1alpha1/namespaces/{namespace}/decisions/{name}"
    return parts.section(
        "Take along",
        parts.copyable("Command", f"kscheduler explain {namespace}/{name} -o wide{flags}"),
        parts.copyable("JSON", f"kscheduler explain {namespace}/{name} -o json{flags}"),
        parts.copyable("API path", raw),
        name="take",
    )
