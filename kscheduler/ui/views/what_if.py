"""View What if: a pod, changed or not, on a cluster that is changed or not; before and after.

The question is in the address as long as it is short enough for one, so that it can be sent to
somebody. A question is answered twice: as things are, and with the changes.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from kscheduler.api.explanation import PlacementReviewStatus
from kscheduler.ui import parts
from kscheduler.ui.cluster import Cluster, NodeColumns
from kscheduler.ui.html import DASH, Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.question import (
    RULES,
    Question,
    address_of,
    changed_pod,
    command_of,
    pod_of,
    review_for,
    yaml_of,
)
from kscheduler.ui.source import Declined, Trouble
from kscheduler.ui.views.overview import room
from kscheduler.ui.views.pod import remedy_list

# Placements that are listed; where all go is on the map.
MAX_LISTED = 200
EXAMPLE = """\
apiVersion: v1
kind: Pod
metadata:
  name: example
  namespace: default
spec:
  containers:
    - name: main
      image: registry.k8s.io/pause:3.10
      resources:
        requests:
          cpu: 500m
          memory: 1Gi
"""


async def what_if(cluster: Cluster, page: Page, question: Question) -> Html:
    answer: Child = None
    if question.asked:
        try:
            answer = await _answered(cluster, page, question)
        except Trouble as trouble:
            answer = parts.section("Answer", parts.trouble(trouble))
    waiting: list[str] = []
    with contextlib.suppress(Trouble):  # A pod can be named all the same.
        waiting = sorted(one.key for one in (await cluster.pending()).pods)[:500]
    nodes = await _nodes(cluster)
    names = nodes.names[:2000] if isinstance(nodes, NodeColumns) else []
    lead = "Nothing is changed: the scheduler decides on a copy of the cluster, as it would on it."
    return e(
        "div", e("h1", "What if"), e("p.lead", lead), answer, _form(page, question, waiting, names)
    )


def _form(page: Page, question: Question, waiting: list[str], nodes: list[str]) -> Html:
    def field(name: str, label: str, value: str, **attributes: Any) -> Html:
        return e(
            "div.field",
            e("label", label, for_=name),
            e("input", id=name, name=name, value=value, **attributes),
        )

    has_text = bool(question.manifest.strip())
    return e(
        "form#question",
        e(
            "div.halves",
            parts.section(
                "Pods",
                e(
                    "div.fields",
                    field(
                        "pod",
                        "A pod of the cluster",
                        question.pod,
                        list="pods",
                        placeholder="namespace/pod",
                    ),
                    field("replicas", "Times", str(question.replicas), inputmode="numeric"),
                    field("cpu", "CPU instead", question.cpu, placeholder="500m"),
                    field("memory", "Memory instead", question.memory, placeholder="2Gi"),
                ),
                e("datalist#pods", [e("option", value=one) for one in waiting]),
                e("h3", "Without its"),
                e(
                    "div.checks",
                    [
                        e(
                            "label",
                            e(
                                "input",
                                type="checkbox",
                                name="without",
                                value=key,
                                checked=key in question.without,
                            ),
                            " ",
                            name,
                        )
                        for key, _, name in RULES
                    ],
                ),
                e(
                    "details",
                    e("summary", "Or paste a Pod"),
                    e("label.hidden", "Manifest of a Pod", for_="manifest"),
                    e(
                        "textarea#manifest",
                        question.manifest or "",
                        name="manifest",
                        rows=14,
                        spellcheck="false",
                        placeholder=EXAMPLE,
                    ),
                    open=has_text,
                ),
                name="pods-asked",
            ),
            parts.section(
                "Cluster",
                e(
                    "div.fields",
                    field(
                        "drain",
                        "Drain nodes",
                        " ".join(question.drain),
                        list="nodes",
                        placeholder="node-1 node-2",
                    ),
                    field("cordon", "Cordon nodes", " ".join(question.cordon), list="nodes"),
                    field("remove", "Remove nodes", " ".join(question.remove), list="nodes"),
                    field(
                        "add",
                        "Add nodes",
                        str(question.add or ""),
                        inputmode="numeric",
                        placeholder="0",
                    ),
                    field("like", "like node", question.like, list="nodes"),
                ),
                e("datalist#nodes", [e("option", value=one) for one in nodes]),
                e(
                    "div.checks",
                    e(
                        "label",
                        e(
                            "input",
                            type="checkbox",
                            name="preempt",
                            value="yes",
                            checked=question.preempt,
                        ),
                        " Pods of lower priority may be evicted",
                    ),
                ),
                e(
                    "details",
                    e("summary", "Decide by another configuration"),
                    e("label.hidden", "KubeSchedulerConfiguration", for_="configuration"),
                    e(
                        "textarea#configuration",
                        question.configuration,
                        name="configuration",
                        rows=14,
                        spellcheck="false",
                    ),
                    open=bool(question.configuration.strip()),
                ),
                name="cluster-asked",
            ),
        ),
        e("p", e("button.primary", "Ask", name="ask", value="1")),
        method="post",
        action=page.to("what-if"),
    )


async def _answered(cluster: Cluster, page: Page, question: Question) -> Html:
    original = await pod_of(cluster, question)
    if original is None and not question.drain:
        raise Declined("Name a pod of the cluster, paste one, or name a node to drain.")
    nodes = await _nodes(cluster)
    if question.add and not question.like and isinstance(nodes, NodeColumns):
        question.like = usual_node(nodes)
    own = (original or {}).get("metadata") or {}
    namespace = own.get("namespace") or cluster.source.namespace or "default"
    asked = review_for(question, None if original is None else changed_pod(original, question))
    before: PlacementReviewStatus | None = None
    if question.is_changed and original is not None:
        plain = review_for(Question(replicas=question.replicas), original)
        before = await cluster.review(plain, namespace)
    after = await cluster.review(asked, namespace)
    sides = [_side("Answer" if before is None else "With the changes", after)]
    if before is not None:
        sides.insert(0, _side("As it is", before))
    content: list[Child] = [e("div.halves" if len(sides) > 1 else "div", sides)]
    if not after.fits:
        content.append(parts.section("What would help", remedy_list(page, after), name="help"))
    if counts := Counter(one.node for one in after.placements if one.node):
        content.append(room(page, nodes, marks=counts, title="Where they would go"))
    if after.placements:
        content.append(_placements(page, after))
    flags = cluster.source.flags
    address = address_of(question)
    content.append(
        parts.section(
            "Take along",
            parts.copyable("Address", address, address=True) if address else None,
            parts.copyable("Command", command_of(question, flags)),
            parts.copyable("YAML", yaml_of(asked, namespace)),
            name="take",
            note="The YAML is a question for `kubectl create -f - -o yaml`.",
        )
    )
    return e("div#outcome", content)


async def _nodes(cluster: Cluster) -> NodeColumns | Trouble:
    try:
        return await cluster.nodes()
    except Trouble as trouble:
        return trouble


def usual_node(nodes: NodeColumns) -> str:
    """A node of the shape that most nodes have."""
    shapes = list(zip(*nodes.allocatable.values(), strict=True))
    if not shapes:
        return ""
    ((usual, _),) = Counter(shapes).most_common(1)
    return nodes.names[shapes.index(usual)]


def _side(title: str, status: PlacementReviewStatus) -> Html:
    sign, word = ("●", "fits") if status.fits else ("○", "does not fit")
    if status.placed and not status.fits:
        word = "fits in part"
    evicted = sum(len(one.victims) + one.hidden_victims for one in status.placements)
    return parts.section(
        title,
        e("p.lead", status.summary),
        parts.facts(
            [
                ("Answer", [e("span", sign, aria_hidden="true"), " ", word]),
                ("Placed", f"{status.placed:,} of {status.total:,}"),
                ("Evicted", f"{evicted:,}"),
                ("Took", parts.duration(status.duration_seconds)),
                ("Snapshot", f"{status.snapshot_generation:,}"),
            ]
        ),
        e("p.note", status.message) if status.message else None,
        parts.partial("Names of nodes are left out: listing nodes is not allowed to you.")
        if status.partial
        else None,
        name=title.lower().replace(" ", "-"),
    )


def _placements(page: Page, status: PlacementReviewStatus) -> Html:
    rows: list[list[Child]] = [
        [
            f"{one.namespace}/{one.name}",
            page.node(one.node) if one.node else DASH,
            parts.badge(one.outcome),
            f"{len(one.victims) + one.hidden_victims:,}",
            one.message,
        ]
        for one in status.placements[:MAX_LISTED]
    ]
    left = len(status.placements) - len(rows)
    return parts.section(
        "Placements",
        parts.table("Placements", ("Pod", "Node", "Outcome", "Evicts", "Note"), rows, (3,)),
        note=f"And {parts.counted(left, 'more pod')}." if left > 0 else None,
    )
