"""View What if: a pod, changed or not, on a cluster that is changed or not.

The question is in the address as long as it is short enough for one, so that it can be sent to
somebody. The form lists the rules and the containers of the pod that is asked about, each to be
left out or changed by itself. `outcome` has the answer.
"""

from __future__ import annotations

import contextlib
from itertools import groupby
from typing import Any

from kscheduler.api.pod_questions import Manifest
from kscheduler.ui import parts
from kscheduler.ui.cluster import Cluster, NodeColumns
from kscheduler.ui.html import Child, Html, e
from kscheduler.ui.page import Page
from kscheduler.ui.pod_changes import decoded, is_without, requests_of, rules_of
from kscheduler.ui.question import REQUEST, Question, pod_of
from kscheduler.ui.source import Trouble
from kscheduler.ui.views.outcome import outcome

MAX_OFFERED_PODS = 500
MAX_OFFERED_NODES = 2_000
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
    try:
        nodes: NodeColumns | Trouble = await cluster.nodes()
    except Trouble as trouble:
        nodes = trouble
    answer: Child = None
    pod_parts: Child = None
    try:
        pod = await pod_of(cluster, question)
        pod_parts = None if pod is None else _pod_parts(pod, question)
        if question.asked:
            answer = await outcome(cluster, page, question, pod, nodes)
    except Trouble as trouble:
        answer = parts.section("Answer", parts.trouble(trouble))
    waiting: list[str] = []
    with contextlib.suppress(Trouble):  # A pod can be named all the same.
        waiting = sorted(one.key for one in (await cluster.pending()).pods)[:MAX_OFFERED_PODS]
    lead = "Nothing is changed: the scheduler decides on a copy of the cluster, as it would on it."
    return e(
        "div",
        e("h1", "What if"),
        e("p.lead", lead),
        e("p", e("a", "Change the question", href="#question")) if answer else None,
        answer,
        e("datalist#pods", [e("option", value=one) for one in waiting]),
        e("datalist#nodes", [e("option", value=one) for one in _names(nodes)]),
        e(
            "form#question",
            e(
                "div.halves",
                _pods_asked(question, pod_parts),
                _cluster_asked(question),
            ),
            e(
                "p",
                e("button.primary", "Ask", name="ask", value="1"),
                " ",
                e("button", "List rules and containers", name="list", value="1"),
            ),
            method="post",
            action=page.to("what-if"),
        ),
    )


def _names(nodes: NodeColumns | Trouble) -> list[str]:
    return nodes.names[:MAX_OFFERED_NODES] if isinstance(nodes, NodeColumns) else []


def _field(name: str, label: str, value: str, *, wide: bool = False, **attributes: Any) -> Html:
    return e(
        "div.field.wide" if wide else "div.field",
        e("label", label, for_=name),
        e("input", id=name, name=name, value=value, **attributes),
    )


def _pods_asked(question: Question, pod_parts: Child) -> Html:
    return parts.section(
        "Pods",
        e(
            "div.fields",
            _field(
                "pod",
                "A pod of the cluster",
                question.pod,
                wide=True,
                list="pods",
                placeholder="namespace/pod",
                data_lists="pod-parts",
            ),
            _field("replicas", "Times", str(question.replicas), inputmode="numeric"),
            _field("cpu", "CPU per container", question.cpu, placeholder="as it is"),
            _field("memory", "Memory per container", question.memory, placeholder="as it is"),
        ),
        e(
            "div#pod-parts",
            pod_parts
            or e("p.note", "The pod's rules and containers are listed here once it is named."),
        ),
        e(
            "details",
            e("summary", "Or paste a Pod"),
            e("label.hidden", "Manifest of a Pod", for_="manifest"),
            e(
                "textarea#manifest",
                question.manifest,
                name="manifest",
                rows=14,
                spellcheck="false",
                placeholder=EXAMPLE,
            ),
            open=bool(question.manifest.strip()),
        ),
        name="pods-asked",
    )


def _pod_parts(manifest: Manifest, question: Question) -> Html:
    """Rules to leave out, and requests to change, one by one."""
    pod = decoded(manifest)
    rules = rules_of(pod)
    groups: list[Html] = []
    for kind, same in groupby(rules, key=lambda rule: rule.kind):
        boxes = [
            e(
                "label",
                e(
                    "input",
                    type="checkbox",
                    name="without",
                    value=rule.pointer,
                    checked=is_without(rule.pointer, question.without),
                ),
                " ",
                e("code", rule.text),
            )
            for rule in same
        ]
        groups.append(e("fieldset", e("legend", kind.capitalize()), e("div.checks", boxes)))
    containers = requests_of(pod)
    resources = tuple(dict.fromkeys(name for one in containers for name in one.requests))
    rows: list[list[Child]] = []
    for one in containers:
        title = one.name or "all containers"
        inputs = [
            e(
                "input.quantity",
                name=f"{REQUEST}:{one.name}:{resource}",
                value=question.requests.get((one.name, resource), ""),
                placeholder=one.requests.get(resource) or "none",
                aria_label=f"{resource} of {one.kind} {title}",
                size=8,
            )
            for resource in resources
        ]
        rows.append([e("span", title, " ", e("small", one.kind)), *inputs])
    return e(
        "div",
        e("h3", "Leave out") if groups else e("p.note", "It has no rules to leave out."),
        groups,
        e("h3", "Request instead"),
        parts.table("Requests by container", ("Container", *resources), rows),
    )


def _cluster_asked(question: Question) -> Html:
    return parts.section(
        "Cluster",
        e(
            "div.fields",
            _field(
                "drain", "Drain nodes", " ".join(question.drain), list="nodes", placeholder="a b"
            ),
            _field("cordon", "Cordon nodes", " ".join(question.cordon), list="nodes"),
            _field("remove", "Remove nodes", " ".join(question.remove), list="nodes"),
            _field(
                "add", "Add nodes", str(question.add or ""), inputmode="numeric", placeholder="0"
            ),
            _field("like", "like node", question.like, list="nodes", placeholder="usual kind"),
        ),
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
    )
