"""Node lifecycle: nodes whose kubelet went silent, their taints, and pods evicted by taints.

Mirrors pkg/controller/nodelifecycle, tainteviction and podgc:

    lease not renewed for the grace period ──▶ Ready Unknown, pods not ready
    Ready not True ──▶ taints not-ready or unreachable, NoSchedule and NoExecute
    NoExecute that a pod does not tolerate (any longer) ──▶ the pod is deleted
    pod on a node that does not exist ──▶ deleted without grace

Conditions of pressure and cordoned nodes are tainted, too. Differs: evictions are not slowed down
when many nodes of a zone fail.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from kscheduler.api.core import Node, Pod, Taint, Toleration
from kscheduler.api.decode import decoder_for
from kscheduler.api.taints import tolerates
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.controllers.controller import Controller
from kscheduler.sandbox.controllers.owned_pods import PodIndex, PodRecord
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.kubelets.nodes import STATUS_UNKNOWN
from kscheduler.sandbox.metadata import find_condition, now, set_condition
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import LEASES, NODES, PODS
from kscheduler.sandbox.store import Change, Key, Listener, Object

GRACE_SECONDS = 50.0  # --node-monitor-grace-period
NODE_LEASES = "kube-node-lease"
_NO_SCHEDULE, _NO_EXECUTE = "NoSchedule", "NoExecute"
_PREFIX = "node.kubernetes.io/"
_NOT_READY, _UNREACHABLE = f"{_PREFIX}not-ready", f"{_PREFIX}unreachable"
# Taints by condition and the value of it that calls for them.
_CONDITION_TAINTS = {
    ("Ready", "False"): _NOT_READY,
    ("Ready", "Unknown"): _UNREACHABLE,
    ("MemoryPressure", "True"): f"{_PREFIX}memory-pressure",
    ("DiskPressure", "True"): f"{_PREFIX}disk-pressure",
    ("PIDPressure", "True"): f"{_PREFIX}pid-pressure",
    ("NetworkUnavailable", "True"): f"{_PREFIX}network-unavailable",
}
_UNSCHEDULABLE = f"{_PREFIX}unschedulable"
_OURS = {*_CONDITION_TAINTS.values(), _UNSCHEDULABLE}
_WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_SILENT = "Kubelet stopped posting node status."
_decode_node = decoder_for(Node)
_decode_pod = decoder_for(Pod)


class NodeLifecycleController(Controller):
    """Watches the leases of nodes, and taints nodes by their conditions."""

    name = "node-controller"

    def __init__(
        self, registry: Registry, pods: PodIndex, *, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        super().__init__(registry)
        self._pods = pods
        self._grace_seconds = grace_seconds
        # When a sign of life was last seen, by node, on a clock that only goes forward.
        self._seen: dict[str, float] = {}

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return ((NODES, self._node_changed), (LEASES, self._lease_changed))

    def _node_changed(self, change: Change) -> None:
        name = change.stored.key[1]
        if change.type == "DELETED":
            self._seen.pop(name, None)
            return
        self._seen.setdefault(name, time.monotonic())
        self.mark(("", name))

    def _lease_changed(self, change: Change) -> None:
        namespace, name = change.stored.key
        if namespace == NODE_LEASES and change.type != "DELETED":
            silent = time.monotonic() - self._seen.get(name, 0.0) >= self._grace_seconds
            self._seen[name] = time.monotonic()
            if silent:
                self.mark(("", name))

    def sync(self, key: Key) -> None:
        node = self.find(NODES, key)
        if node is None or key[1] not in self._seen:
            return
        silent = time.monotonic() - self._seen[key[1]]
        if silent >= self._grace_seconds:
            self._mark_unknown(node)
            node = self.find(NODES, key) or node
        else:
            self.mark_later(key, self._grace_seconds - silent + 0.01)
        ready = find_condition(node.get("status") or {}, "Ready")
        if ready is not None and ready["status"] != "True":
            self._mark_pods_not_ready(key[1])
        self._taint(node, ready)

    def _mark_unknown(self, node: Object) -> None:
        state = node.get("status") or {}
        known = {one["type"]: one for one in state.get("conditions") or ()}
        if all(known.get(kind, {}).get("status") == "Unknown" for kind in _WATCHED):
            return

        def change(item: Object) -> None:
            conditions = item["status"].setdefault("conditions", [])
            for kind in _WATCHED:
                current = find_condition(item["status"], kind)
                if current is None:
                    reason, text = "NodeStatusNeverUpdated", "Kubelet never posted node status."
                    current = {"type": kind, "lastHeartbeatTime": None}
                    conditions.append(current)
                elif current["status"] == "Unknown":
                    continue
                else:
                    reason, text = STATUS_UNKNOWN, _SILENT
                current |= {"status": "Unknown", "reason": reason, "message": text}
                current["lastTransitionTime"] = now()

        self.edit(NODES, node, change, subresource="status")
        name = node["metadata"]["name"]
        self.report(NODES, node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")

    def _mark_pods_not_ready(self, node: str) -> None:
        for pod in self._pods.on_node(node):
            if pod.is_ready:

                def change(item: Object) -> None:
                    set_condition(item["status"], "Ready", "False", reason="NodeNotReady")

                about = {"metadata": {"namespace": pod.key[0], "name": pod.key[1]}}
                self.edit(PODS, about, change, subresource="status")

    def _taint(self, node: Object, ready: Object | None) -> None:
        """Replace the taints that follow from conditions by those of the conditions it has."""
        wanted = [
            (key, _NO_SCHEDULE)
            for one in (node.get("status") or {}).get("conditions") or ()
            if (key := _CONDITION_TAINTS.get((one["type"], one["status"]))) is not None
        ]
        if node["spec"].get("unschedulable"):
            wanted.append((_UNSCHEDULABLE, _NO_SCHEDULE))
        if ready is not None and ready["status"] != "True":
            wanted.append((_CONDITION_TAINTS["Ready", ready["status"]], _NO_EXECUTE))
        taints = node["spec"].get("taints") or []
        kept = [
            one
            for one in taints
            if one["key"] not in _OURS or (one["key"], one["effect"]) in wanted
        ]
        known = {(one["key"], one["effect"]) for one in kept}
        # A taint is written with the time it was added, which evictions are counted from.
        moment = now()
        added = [
            {"key": key, "effect": effect, "timeAdded": moment}
            for key, effect in wanted
            if (key, effect) not in known
        ]
        if kept == taints and not added:
            return

        def change(item: Object) -> None:
            item["spec"]["taints"] = [*kept, *added]
            if not item["spec"]["taints"]:
                del item["spec"]["taints"]

        self.edit(NODES, node, change)


class TaintEvictionController(Controller):
    """Deletes pods from nodes with NoExecute taints that they do not tolerate, or not for ever."""

    name = "taint-eviction-controller"

    def __init__(self, registry: Registry, pods: PodIndex) -> None:
        super().__init__(registry)
        self._pods = pods
        self._taints: dict[str, tuple[Taint, ...]] = {}  # NoExecute ones, of nodes that have any
        self._since: dict[tuple[str, str], float] = {}  # when a taint came, by node and key

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return ((NODES, self._node_changed), (PODS, self._pod_changed))

    def _node_changed(self, change: Change) -> None:
        name = change.stored.key[1]
        taints: tuple[Taint, ...] = ()
        if change.type != "DELETED":
            found = _decode_node(change.stored.body).spec.taints
            taints = tuple(one for one in found if one.effect == _NO_EXECUTE)
        before = self._taints.pop(name, ())
        keys = {one.key for one in taints}
        for taint in before:
            if taint.key not in keys:
                self._since.pop((name, taint.key), None)
        if taints:
            self._taints[name] = taints
            for taint in taints:
                self._since.setdefault((name, taint.key), time.monotonic())
        if before != taints:
            for pod in self._pods.on_node(name):
                self.mark(pod.key)

    def _pod_changed(self, change: Change) -> None:
        if change.type != "DELETED" and change.stored.fields["spec.nodeName"] in self._taints:
            self.mark(change.stored.key)

    def sync(self, key: Key) -> None:
        record = self._pods.pods.get(key)
        stored = self._registry.collection(PODS).get(key)
        if record is None or stored is None or record.deleting or not record.node:
            return
        taints = self._taints.get(record.node, ())
        if not taints:
            return
        pod = _decode_pod(stored.body)
        left = self._seconds_left(record.node, taints, pod.spec.tolerations)
        if left is None:
            return
        if left > 0:
            self.mark_later(key, left)
            return
        item = stored.decode()
        message = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self.report(PODS, item, "TaintManagerEviction", message)

        def change(current: Object) -> None:
            set_condition(
                current["status"],
                "DisruptionTarget",
                "True",
                reason="DeletionByTaintManager",
                message="Taint manager: deleting due to NoExecute taint",
            )

        with suppress(StatusError):
            self.edit(PODS, item, change, subresource="status")
            delete(self._registry, PODS, *key, DeleteOptions(uid=record.uid))

    def _seconds_left(
        self, node: str, taints: Iterable[Taint], tolerations: Iterable[Toleration]
    ) -> float | None:
        """Seconds until the pod has to go; None if it may stay for ever."""
        left: float | None = None
        for taint in taints:
            matching = [one for one in tolerations if tolerates(one, taint)]
            if not matching:
                return 0.0
            limits = [
                one.toleration_seconds for one in matching if one.toleration_seconds is not None
            ]
            if limits:
                since = self._since.get((node, taint.key), time.monotonic())
                rest = since + max(min(limits), 0) - time.monotonic()
                left = rest if left is None else min(left, rest)
        return left


class PodGarbageCollector(Controller):
    """Deletes pods of nodes that do not exist any more."""

    name = "pod-garbage-collector-controller"
    QUARANTINE_SECONDS = 40.0  # a node may come back under its name

    def __init__(
        self,
        registry: Registry,
        pods: PodIndex,
        *,
        quarantine_seconds: float = QUARANTINE_SECONDS,
    ) -> None:
        super().__init__(registry)
        self._pods = pods
        self._quarantine_seconds = quarantine_seconds
        self._missing: dict[str, float] = {}  # since when, by node

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return ((NODES, self._node_changed), (PODS, self._pod_changed))

    def _node_changed(self, change: Change) -> None:
        name = change.stored.key[1]
        if change.type != "DELETED":
            self._missing.pop(name, None)
        else:
            self._look_at(name)

    def _pod_changed(self, change: Change) -> None:
        node = change.stored.fields["spec.nodeName"]
        if node and change.type != "DELETED" and node not in self._missing:
            self._look_at(node)

    def _look_at(self, node: str) -> None:
        if self._registry.collection(NODES).get(("", node)) is None:
            self._missing[node] = time.monotonic()
            self.mark_later(("", node), self._quarantine_seconds)

    def sync(self, key: Key) -> None:
        since = self._missing.pop(key[1], None)
        if since is None or self._registry.collection(NODES).get(key) is not None:
            return
        for pod in self._pods.on_node(key[1]):
            self._remove(pod)

    def _remove(self, pod: PodRecord) -> None:
        about = {"metadata": {"namespace": pod.key[0], "name": pod.key[1]}}

        def change(item: Object) -> None:
            if item["status"].get("phase") not in ("Succeeded", "Failed"):
                item["status"]["phase"] = "Failed"
                set_condition(
                    item["status"],
                    "DisruptionTarget",
                    "True",
                    reason="DeletionByPodGC",
                    message="PodGC: node no longer exists",
                )

        with suppress(StatusError):
            self.edit(PODS, about, change, subresource="status")
            options = DeleteOptions(grace_period_seconds=0, uid=pod.uid)
            delete(self._registry, PODS, *pod.key, options)
