"""Nodes, namespaces and the small kinds of the core group."""

from __future__ import annotations

from base64 import b64encode

from kscheduler.api.validation import dns_label_errors, label_key_errors, label_value_errors
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, Column, at
from kscheduler.sandbox.kinds.merging import CONDITIONS, SET, keyed
from kscheduler.sandbox.kinds.printers import node_address, node_info, node_roles, node_status
from kscheduler.sandbox.kinds.quantities import canonicalise, quantity_errors
from kscheduler.sandbox.kinds.resource import STATUS, STORED_VERBS, Resource, Strategy, Subresource
from kscheduler.sandbox.store import Object

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"
NAMESPACE_FINALIZER = "kubernetes"
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

# Fields that Go never leaves out, so that clients see them even of a node without a status.
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


class _NodeStrategy(Strategy):
    keeps_status_on_create = True  # upstream does, so that tests and kubemark can make nodes

    def default(self, item: Object) -> None:
        item.setdefault("spec", {})
        state = item.setdefault("status", {})
        canonicalise(state.get("capacity"))
        if "capacity" in state:
            state.setdefault("allocatable", dict(state["capacity"]))
        canonicalise(state.get("allocatable"))
        for condition in state.get("conditions") or ():
            for time in ("lastHeartbeatTime", "lastTransitionTime"):
                condition.setdefault(time, None)
        endpoints = state.get("daemonEndpoints") or {}
        kubelet = {"Port": 0} | (endpoints.get("kubeletEndpoint") or {})
        state["daemonEndpoints"] = endpoints | {"kubeletEndpoint": kubelet}
        state["nodeInfo"] = dict.fromkeys(_NODE_INFO, "") | (state.get("nodeInfo") or {})

    def validate(self, item: Object) -> list[FieldError]:
        errors: list[FieldError] = []
        seen: set[tuple[str, str]] = set()
        for position, taint in enumerate(item["spec"].get("taints") or ()):
            path = f"metadata.taints[{position}]"  # upstream's path, not the field's
            key, value = taint.get("key", ""), taint.get("value", "")
            errors += [fields.invalid(f"{path}.key", key, why) for why in label_key_errors(key)]
            if why := label_value_errors(value):
                errors.append(fields.invalid(f"{path}.value", value, ";".join(why)))
            effect = taint.get("effect", "")
            if not effect:
                errors.append(fields.required(f"{path}.effect"))
            elif effect not in _EFFECTS:
                errors.append(fields.not_supported(f"{path}.effect", effect, _EFFECTS))
            if (key, effect) in seen:
                detail = "taints must be unique by key and effect pair"
                errors.append(fields.FieldError("FieldValueDuplicate", path, taint, detail))
            seen.add((key, effect))
        return errors + _node_quantity_errors(item)

    def validate_update(self, item: Object, old: Object) -> list[FieldError]:
        had, wanted = old["spec"].get("providerID"), item["spec"].get("providerID")
        if had and not wanted:
            return [fields.invalid("spec.providerID", None, "field cannot be cleared once set")]
        if had and had != wanted:
            return [fields.invalid("spec.providerID", None, "field cannot be modified once set")]
        return []

    def validate_status_update(self, item: Object, old: Object) -> list[FieldError]:
        return _node_quantity_errors(item)


def _node_quantity_errors(node: Object) -> list[FieldError]:
    return [
        error
        for part in ("capacity", "allocatable")
        for name, quantity in (node["status"].get(part) or {}).items()
        for error in quantity_errors(name, quantity, f"status.{part}.{name}")
    ]


class _NamespaceStrategy(Strategy):
    """Namespaces are Active, then Terminating, then gone when their content is."""

    def default(self, item: Object) -> None:
        about = item["metadata"]
        if name := about.get("name"):
            about["labels"] = {**(about.get("labels") or {}), NAMESPACE_NAME_LABEL: name}

    def prepare_for_create(self, item: Object) -> None:
        finalizers = item.setdefault("spec", {}).setdefault("finalizers", [])
        if NAMESPACE_FINALIZER not in finalizers:
            finalizers.append(NAMESPACE_FINALIZER)

    def prepare_for_update(self, item: Object, old: Object) -> None:
        item["spec"] = old.get("spec", {})

    def initial_status(self) -> Object:
        return {"phase": "Active"}


class _SecretStrategy(Strategy):
    def default(self, item: Object) -> None:
        item.setdefault("type", "Opaque")
        if text := item.pop("stringData", None):
            coded = {name: b64encode(value.encode()).decode() for name, value in text.items()}
            item["data"] = {**(item.get("data") or {}), **coded}


class _LimitRangeStrategy(Strategy):
    def default(self, item: Object) -> None:
        for limit in (item.get("spec") or {}).get("limits") or ():
            for name in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
                canonicalise(limit.get(name))


class _ResourceQuotaStrategy(Strategy):
    def default(self, item: Object) -> None:
        canonicalise((item.get("spec") or {}).get("hard"))
        state = item.get("status") or {}
        canonicalise(state.get("hard"))
        canonicalise(state.get("used"))


RESOURCES = (
    Resource(
        "",
        "v1",
        "nodes",
        "Node",
        namespaced=False,
        short_names=("no",),
        subresources=(STATUS,),
        field_labels={"spec.unschedulable": "spec.unschedulable"},
        strategy=_NodeStrategy(),
        columns=(
            NAME,
            Column("Status", node_status),
            Column("Roles", node_roles),
            AGE,
            Column("Version", at("status.nodeInfo.kubeletVersion")),
            Column("Internal-IP", node_address("InternalIP"), wide=True),
            Column("External-IP", node_address("ExternalIP"), wide=True),
            Column("OS-Image", node_info("osImage"), wide=True),
            Column("Kernel-Version", node_info("kernelVersion"), wide=True),
            Column("Container-Runtime", node_info("containerRuntimeVersion"), wide=True),
        ),
        merge={
            "NodeSpec": {"podCIDRs": SET},
            "NodeStatus": CONDITIONS | {"addresses": keyed("type")},
        },
    ),
    Resource(
        "",
        "v1",
        "namespaces",
        "Namespace",
        namespaced=False,
        short_names=("ns",),
        verbs=tuple(verb for verb in STORED_VERBS if verb != "deletecollection"),
        subresources=(Subresource("finalize", ("update",)), STATUS),
        field_labels={"status.phase": "status.phase"},
        returns_deleted=True,
        strategy=_NamespaceStrategy(),
        columns=(NAME, Column("Status", at("status.phase")), AGE),
        merge={"NamespaceStatus": CONDITIONS},
        name_errors=dns_label_errors,
    ),
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    Resource(
        "", "v1", "secrets", "Secret", field_labels={"type": "type"}, strategy=_SecretStrategy()
    ),
    Resource(
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        short_names=("sa",),
        returns_deleted=True,
        merge={"ServiceAccount": {"secrets": keyed("name")}},
    ),
    Resource("", "v1", "endpoints", "Endpoints", short_names=("ep",), creates_on_update=True),
    Resource(
        "",
        "v1",
        "limitranges",
        "LimitRange",
        short_names=("limits",),
        strategy=_LimitRangeStrategy(),
    ),
    Resource(
        "",
        "v1",
        "resourcequotas",
        "ResourceQuota",
        short_names=("quota",),
        subresources=(STATUS,),
        returns_deleted=True,
        strategy=_ResourceQuotaStrategy(),
    ),
)
