"""The answer to a what-if: as it is and with the changes, side by side; where pods would go, which
pods would be evicted and where these would go next, and what is left of disruption budgets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kscheduler.api.explanation import PlacementReviewStatus, ReviewedPlacement
from kscheduler.api.pod_questions import Manifest
from kscheduler.ui import parts
from kscheduler.ui.cluster import Cluster, NodeColumns
from kscheduler.ui.heat import changed_nodes
from kscheduler.ui.html import DASH, Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.question import (
    Question,
    address_of,
    asked_pod,
    command_of,
    review_for,
    yaml_of,
)
from kscheduler.ui.source import Declined, Trouble
from kscheduler.ui.views.overview import heat_map
from kscheduler.ui.views.pod import remedy_list

# Rows of the tables; where all pods go is on the map.
MAX_LISTED = 200
MAX_NODES_LISTED = 50
MAX_TIES_NAMED = 5

Nodes = NodeColumns | Trouble


async def outcome(
    cluster: Cluster, page: Page, question: Question, pod: Manifest | None, nodes: Nodes
) -> Html:
    if pod is None and not question.drain:
        raise Declined("Name a pod of the cluster, paste one, or name a node to drain.")
    if question.add and not question.like and isinstance(nodes, NodeColumns):
        question.like = nodes.usual_node()
    metadata = (pod or {}).get("metadata") or {}
    namespace = metadata.get("namespace") or cluster.source.namespace or "default"
    review = review_for(question, None if pod is None else asked_pod(pod, question))
    before: PlacementReviewStatus | None = None
    if question.is_changed and pod is not None:
        plain = review_for(Question(replicas=question.replicas), pod)
        before = await cluster.review(plain, namespace)
    after = await cluster.review(review, namespace)
    if isinstance(nodes, NodeColumns):
        nodes = changed_nodes(nodes, question)
    content: list[Child] = []
    if before is None:
        content.append(_side(page, "Answer", after, nodes, question))
    else:
        sides = [
            _side(page, "As it is", before, nodes, Question()),
            _side(page, "With the changes", after, nodes, question),
        ]
        content.append(e("div.halves", sides))
    if not after.fits:
        content.append(parts.section("What would help", remedy_list(page, after), name="help"))
    added = frozenset(nodes.names[i] for i in nodes.added) if isinstance(nodes, NodeColumns) else ()
    content += [
        _nodes(page, before, after, frozenset(added)),
        _placements(page, before, after, frozenset(added)),
        _victims(page, after),
        _budgets(after),
        _take_along(cluster, question, yaml_of(review, namespace)),
    ]
    return e("div#outcome", content)


def _side(
    page: Page, title: str, status: PlacementReviewStatus, nodes: Nodes, question: Question
) -> Html:
    sign, word = ("●", "fits") if status.fits else ("○", "does not fit")
    if status.placed and not status.fits:
        word = "fits in part"
    evicted = sum(len(one.victims) + one.hidden_victims for one in status.placements)
    counts = Counter(one.node for one in status.placements if one.node)
    return parts.section(
        title,
        e("p.lead", status.summary),
        parts.facts(
            [
                ("Answer", [e("span", sign, aria_hidden="true"), " ", word]),
                ("Placed", f"{status.placed:,} of {status.total:,}"),
                ("Evicted", f"{evicted:,}"),
                ("Took", parts.duration(status.duration_seconds)),
            ]
        ),
        e("p.note", status.message) if status.message else None,
        parts.partial("Names of nodes are left out: listing nodes is not allowed to you.")
        if status.partial
        else None,
        heat_map(page, nodes, marks=counts, question=question)
        if isinstance(nodes, NodeColumns) and nodes.names
        else None,
        name=title.lower().replace(" ", "-"),
    )


def _node(page: Page, name: str, added: frozenset[str]) -> Child:
    """The name of a node; one that would be added has no view."""
    if name in added:
        return [name, " ", e("span.mark", "added")]
    return page.node(name)


def _nodes(
    page: Page,
    before: PlacementReviewStatus | None,
    after: PlacementReviewStatus,
    added: frozenset[str],
) -> Html | None:
    """Pods that would come, by node: what the maps show, in numbers."""
    now = Counter(one.node for one in before.placements if one.node) if before else Counter()
    then = Counter(one.node for one in after.placements if one.node)
    if not now and not then:
        return None
    names = sorted({*now, *then}, key=lambda name: (-then[name], -now[name], name))
    rows: list[list[Child]] = []
    for name in names[:MAX_NODES_LISTED]:
        counts = [f"{now[name]:,}" if now[name] else DASH] if before else []
        rows.append([_node(page, name, added), *counts, f"{then[name]:,}" if then[name] else DASH])
    heads = ("Node", "As it is", "With the changes") if before else ("Node", "Pods")
    left = len(names) - len(rows)
    return parts.section(
        "Where they would go",
        parts.table("Pods that would come, by node", heads, rows, (1, 2)),
        name="where",
        note=f"And {parts.counted(left, 'more node')}." if left > 0 else None,
    )


def _placements(
    page: Page,
    before: PlacementReviewStatus | None,
    after: PlacementReviewStatus,
    added: frozenset[str],
) -> Html | None:
    if not after.placements:
        return None
    earlier = {(one.namespace, one.name): one for one in before.placements} if before else {}

    def place(one: ReviewedPlacement | None) -> Child:
        if one is None:
            return DASH
        return _node(page, one.node, added) if one.node else parts.badge(one.outcome)

    rows: list[list[Child]] = []
    for one in after.placements[:MAX_LISTED]:
        was = [place(earlier.get((one.namespace, one.name)))] if before else []
        rows.append([f"{one.namespace}/{one.name}", *was, place(one), _ties(one.ties), one.message])
    left = len(after.placements) - len(rows)
    places = ("As it is", "With the changes") if before else ("Node",)
    return parts.section(
        "Placements",
        parts.table("Placements", ("Pod", *places, "Equally good", "Note"), rows),
        note=f"And {parts.counted(left, 'more pod')}." if left > 0 else None,
    )


def _ties(ties: Sequence[str]) -> Child:
    """Nodes among which one is drawn."""
    if not ties:
        return DASH
    named = ", ".join(ties[:MAX_TIES_NAMED])
    left = len(ties) - MAX_TIES_NAMED
    if left <= 0:
        return named
    return e("details.inline", e("summary", f"{len(ties)} nodes"), ", ".join(ties))


def _victims(page: Page, status: PlacementReviewStatus) -> Html | None:
    hidden = sum(one.hidden_victims for one in status.placements)
    rows: list[list[Child]] = []
    for one in status.placements:
        for victim in one.victims:
            next_node: Child = "nowhere" if not status.partial else DASH
            if victim.next_node:
                next_node = page.node(victim.next_node)
            budget = ", ".join(victim.budgets) or "none"
            rows.append(
                [
                    page.pod(f"{victim.namespace}/{victim.name}"),
                    f"{victim.priority:,}",
                    f"{one.namespace}/{one.name}",
                    next_node,
                    [budget, e("strong", " ▲ violated") if victim.violates_budget else None],
                ]
            )
    if not rows and not hidden:
        return None
    left = len(rows) - MAX_LISTED
    notes = [
        f"And {parts.counted(left, 'more pod')}." if left > 0 else "",
        f"And {parts.counted(hidden, 'pod')} in namespaces that you may not see." if hidden else "",
    ]
    heads = ("Pod", "Priority", "For", "Goes next to", "Disruption budgets")
    return parts.section(
        "Evicted pods",
        parts.table("Pods that would be evicted", heads, rows[:MAX_LISTED], (1,)),
        name="evicted",
        note=" ".join(filter(None, notes)) or None,
    )


def _budgets(status: PlacementReviewStatus) -> Html | None:
    if not status.budgets:
        return None
    rows: list[list[Child]] = [
        [
            f"{one.namespace}/{one.name}",
            f"{one.allowed:,}",
            f"{one.left:,}",
            "● kept" if one.left >= 0 else f"▲ exceeded by {-one.left:,}",
        ]
        for one in status.budgets
    ]
    heads = ("Budget", "Disruptions allowed", "Left", "")
    return parts.section(
        "Disruption budgets", parts.table("Disruption budgets", heads, rows, (1, 2)), name="budgets"
    )


def _take_along(cluster: Cluster, question: Question, manifest: str) -> Html:
    address = address_of(question)
    return parts.section(
        "Take along",
        parts.copyable("Address", address, address=True) if address else None,
        parts.copyable("Command", command_of(question, cluster.source.flags)),
        parts.copyable("YAML", manifest),
        name="take",
        note="The YAML is a question for `kubectl create -f - -o yaml`.",
    )
