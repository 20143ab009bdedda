"""The resources of the explanation API: verbs, short names, columns and fields to select by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kscheduler.api.amounts import at_least, at_most
from kscheduler.api.explanation import (
    DECISIONS,
    GROUP,
    NODE_INFOS,
    PENDING_PODS,
    PLACEMENT_REVIEWS,
    SCHEDULED,
    SCHEDULER_STATUSES,
    VERSION,
)
from kscheduler.api.quantity import milli_value, value
from kscheduler.api.resource_names import CPU, MEMORY
from kscheduler.api.resources import Resource
from kscheduler.rest.tables import AGE, NAME, NONE, Column, Json, age, at

ROOT = f"/apis/{GROUP}/{VERSION}"
READ = ("get", "list", "watch")


class Served(msgspec.Struct, frozen=True):
    """A resource as discovery, tables and errors need it (`rest.resources.ServedResource`)."""

    resource: Resource
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    # Field selectors beyond name and namespace: label -> path in the object.
    field_labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    categories: tuple[str, ...] = ()
    subresources: tuple[Any, ...] = ()

    @property
    def group(self) -> str:
        return self.resource.group

    @property
    def version(self) -> str:
        return self.resource.version

    @property
    def plural(self) -> str:
        return self.resource.plural

    @property
    def kind(self) -> str:
        return self.resource.kind

    @property
    def namespaced(self) -> bool:
        return self.resource.namespaced

    @property
    def group_version(self) -> str:
        return self.resource.api_version

    @property
    def qualified(self) -> str:
        return self.resource.group_resource

    @property
    def singular(self) -> str:
        return self.kind.lower()

    def path(self, namespace: str = "", name: str = "") -> str:
        return self.resource.path(namespace, name)


def _why(decision: Json) -> str:
    """The margin of the node that was chosen, or the reason that holds on most nodes."""
    last = decision.get("last") or {}
    if decision.get("outcome") != SCHEDULED:
        rejections = last.get("rejections") or ()
        if not rejections:
            return last.get("message", "")
        first, others = rejections[0], len(rejections) - 1
        more = f" (+{others} more)" if others else ""
        return f"{first.get('count', 0)} {first.get('reason', '')}{more}"
    if tried := last.get("onlyTried"):
        return {"nominated": "nominated node", "batch": "like the pod before"}.get(tried, tried)
    scores = last.get("scores")
    if not scores:
        return "the only one that fits"
    if scores.get("ties", 0) > 1:
        return f"drawn of {scores['ties']} best"
    return f"ahead by {scores['margin']}" if "margin" in scores else ""


def _feasible(decision: Json) -> str:
    nodes = (decision.get("last") or {}).get("nodes") or {}
    return f"{nodes.get('feasible', 0)}/{nodes.get('evaluated', 0)}"


def _held_by(pod: Json) -> str:
    if gates := pod.get("schedulingGates"):
        return f"gates: {','.join(gates)}"
    if gating := pod.get("gatingPlugin"):
        return str(gating)
    plugins = (*pod.get("unschedulablePlugins", ()), *pod.get("pendingPlugins", ()))
    return ",".join(plugins) or NONE


def _waking(pod: Json) -> str:
    return ",".join(dict.fromkeys(one.get("event", "") for one in pod.get("wakesOn", ()))) or NONE


def _share(resource: str) -> Callable[[Json], str]:
    """Share of a resource that is requested."""
    amount = milli_value if resource == CPU else value

    def share(node: Json) -> str:
        asked = amount((node.get("requested") or {}).get(resource, "0"))
        offered = amount((node.get("allocatable") or {}).get(resource, "0"))
        return f"{at_least(resource, asked)}/{at_most(resource, offered)}"

    return share


DECISION = Served(
    DECISIONS,
    verbs=READ,
    short_names=("dec",),
    columns=(
        NAME,
        Column("Outcome", at("outcome")),
        Column("Node", at("node", NONE)),
        Column("Feasible", _feasible),
        Column("Why", _why),
        AGE,
        Column("Attempts", at("attempts", 0), "integer", wide=True),
        Column("Scheduler", at("schedulerName"), wide=True),
        Column("Summary", at("summary"), wide=True),
    ),
    field_labels={"outcome": "outcome", "node": "node", "schedulerName": "schedulerName"},
)
PENDING_POD = Served(
    PENDING_PODS,
    verbs=READ,
    short_names=("pending",),
    columns=(
        NAME,
        Column("Queue", at("queue")),
        Column("Attempts", at("attempts", 0), "integer"),
        Column("Held by", _held_by),
        Column("Since", lambda pod: age(pod.get("since"))),
        AGE,
        Column("Priority", at("priority", 0), "integer", wide=True),
        Column("Scheduler", at("schedulerName"), wide=True),
        Column("Wakes on", _waking, wide=True),
    ),
    field_labels={"queue": "queue", "schedulerName": "schedulerName"},
)
SCHEDULER_STATUS = Served(
    SCHEDULER_STATUSES,
    verbs=READ,
    columns=(
        NAME,
        Column("Leader", at("leader", otherwise=False), "boolean"),
        Column("Version", at("version")),
        Column("Nodes", at("cache.nodes", 0), "integer"),
        Column("Active", at("queue.active", 0), "integer"),
        Column("Unschedulable", at("queue.unschedulable", 0), "integer"),
        Column("Decisions", at("decisions.kept", 0), "integer"),
        AGE,
        Column("Configuration", at("configurationHash"), wide=True),
    ),
)
NODE_INFO = Served(
    NODE_INFOS,
    verbs=READ,
    columns=(
        NAME,
        Column("Pods", at("pods", 0), "integer"),
        Column("CPU", _share(CPU)),
        Column("Memory", _share(MEMORY)),
        Column("Unschedulable", at("unschedulable", otherwise=False), "boolean", wide=True),
        AGE,
    ),
)
PLACEMENT_REVIEW = Served(PLACEMENT_REVIEWS, verbs=("create",))

RESOURCES = (DECISION, PENDING_POD, NODE_INFO, SCHEDULER_STATUS, PLACEMENT_REVIEW)
BY_PLURAL = {one.plural: one for one in RESOURCES}
