"""DaemonSets: a pod on every node that is eligible, placed by the scheduler.

Mirrors pkg/controller/daemon: each pod is made for one node, by a node affinity on metadata.name,
with the tolerations of daemons; pods follow nodes, labels and taints; rolling updates keep to
maxUnavailable. Differs: maxSurge counts as 0, and pods that failed are replaced without a pause
that grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import convert, decoder_for
from kscheduler.api.node_selector import required_node_affinity
from kscheduler.api.taints import find_untolerated
from kscheduler.sandbox.controllers.controller import is_deleting, percent_of
from kscheduler.sandbox.controllers.owned_pods import (
    BURST,
    PodController,
    PodIndex,
    PodRecord,
    by_age,
)
from kscheduler.sandbox.controllers.revisions import (
    REVISION_LABEL,
    current_revision,
    hash_label,
)
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import DAEMON_SETS, NODES, PODS
from kscheduler.sandbox.store import Change, Key, Listener, Object

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TROUBLES = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_NO_NETWORK = ("node.kubernetes.io/network-unavailable", "NoSchedule")
FAILED_SECONDS = 1.0  # before a pod that failed is replaced
_decode_node = decoder_for(Node)


class DaemonSetController(PodController):
    """Keeps one pod of each DaemonSet on each node that it is for."""

    name = "daemonset-controller"
    resource: ClassVar[Resource] = DAEMON_SETS

    def __init__(self, registry: Registry, pods: PodIndex) -> None:
        super().__init__(registry, pods)
        self._nodes: dict[str, Node] = {}
        self._nodes_version = 0
        self._made_for: dict[str, str] = {}  # nodes of pods that wait to be placed, by uid
        # By uid: the version of nodes and the generation it was found for, and nodes where a pod
        # should run and where one may stay.
        self._eligible: dict[str, tuple[tuple[int, int], set[str], set[str]]] = {}

    def listeners(self) -> Iterable[tuple[Resource, Listener]]:
        return ((NODES, self._node_changed), *super().listeners())

    def _node_changed(self, change: Change) -> None:
        name = change.stored.key[1]
        before = self._nodes.pop(name, None)
        if change.type != "DELETED":
            node = self._nodes[name] = _decode_node(change.stored.body)
            if (
                before is not None
                and before.metadata.labels == node.metadata.labels
                and before.spec == node.spec
            ):
                return
        self._nodes_version += 1
        for stored in self._registry.collection(DAEMON_SETS):
            self.mark(stored.key)

    def sync(self, key: Key) -> None:
        owner = self.find(self.resource, key)
        if owner is None:
            return
        pods = self.claim(owner)
        wanted, kept = self._eligible_nodes(owner)
        by_node: dict[str, list[PodRecord]] = {}
        for pod in by_age(pods):
            by_node.setdefault(self._node_of(pod), []).append(pod)
        revision = current_revision(self._registry, self.resource, owner)
        if not is_deleting(owner):
            try:
                self._place(owner, by_node, wanted, kept, revision)
            finally:
                self._write_status(owner, wanted, revision)
        else:
            self._write_status(owner, wanted, revision)

    def _eligible_nodes(self, owner: Object) -> tuple[set[str], set[str]]:
        """Nodes where a pod should run, and nodes where one that is there may stay."""
        uid, generation = owner["metadata"]["uid"], owner["metadata"].get("generation", 0)
        version = (self._nodes_version, generation)
        known = self._eligible.get(uid)
        if known is not None and known[0] == version:
            return known[1], known[2]
        template = owner["spec"].get("template") or {}
        pod_spec = template.get("spec") or {}
        pod = convert({"spec": {**pod_spec, "tolerations": _tolerations(pod_spec)}}, Pod)
        affinity = required_node_affinity(pod)
        wanted, kept = set(), set()
        for name, node in self._nodes.items():
            if pod.spec.node_name and pod.spec.node_name != name:
                continue
            if not affinity.matches(node.metadata.labels, name):
                continue
            taints, tolerations = node.spec.taints, pod.spec.tolerations
            if find_untolerated(taints, tolerations) is None:
                wanted.add(name)
            if find_untolerated(taints, tolerations, ("NoExecute",)) is None:
                kept.add(name)
        self._eligible[uid] = (version, wanted, kept)
        return wanted, kept

    def _node_of(self, pod: PodRecord) -> str:
        """The node a pod is on or is made for."""
        if pod.node:
            return pod.node
        if (known := self._made_for.get(pod.uid)) is not None:
            return known
        item = self.find(PODS, pod.key) or {"spec": {}}
        affinity = (item["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        names = [
            field["values"][0]
            for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
            for field in term.get("matchFields") or ()
            if field.get("key") == "metadata.name" and field.get("operator") == "In"
        ]
        self._made_for[pod.uid] = name = names[0] if names else ""
        return name

    def _pod_changed(self, change: Change) -> None:
        super()._pod_changed(change)
        if self._made_for and (change.type == "DELETED" or change.stored.fields["spec.nodeName"]):
            known = self.pods.pods.get(change.stored.key)
            uid = known.uid if known else change.stored.decode()["metadata"]["uid"]
            self._made_for.pop(uid, None)

    def _owner_changed(self, change: Change) -> None:
        super()._owner_changed(change)
        if change.type == "DELETED":
            self._eligible.pop(change.stored.decode()["metadata"]["uid"], None)

    def _place(
        self,
        owner: Object,
        by_node: dict[str, list[PodRecord]],
        wanted: set[str],
        kept: set[str],
        revision: Object,
    ) -> None:
        missing: list[str] = []
        for name in self._nodes:
            there = by_node.get(name, [])
            active = [pod for pod in there if pod.is_active]
            for pod in there:
                if pod.phase in ("Succeeded", "Failed") and not pod.deleting:
                    self.delete_pod(owner, pod)
                    self.mark_later(_key(owner), FAILED_SECONDS)
            if name not in kept:
                for pod in active:
                    self.delete_pod(owner, pod)
            elif active:
                for pod in active[1:]:
                    self.delete_pod(owner, pod)
            elif name in wanted and not any(pod.phase in ("Succeeded", "Failed") for pod in there):
                missing.append(name)
        for name, there in by_node.items():  # pods for nodes that do not exist any more
            if name not in self._nodes:
                for pod in there:
                    if not pod.deleting:
                        self.delete_pod(owner, pod)
        self._update(owner, by_node, wanted, revision)
        for name in missing[:BURST]:
            self._create(owner, name, revision)
        if len(missing) > BURST:
            self.mark(_key(owner))

    def _update(
        self,
        owner: Object,
        by_node: dict[str, list[PodRecord]],
        wanted: set[str],
        revision: Object,
    ) -> None:
        """Delete pods of former templates, as many as may be unavailable."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        rolling = strategy.get("rollingUpdate") or {}
        most = max(percent_of(rolling.get("maxUnavailable", 1), len(wanted), round_up=True), 1)
        min_ready = owner["spec"].get("minReadySeconds", 0)
        old, unavailable = [], 0
        for name in sorted(wanted):
            active = [pod for pod in by_node.get(name, ()) if pod.is_active]
            if not active or not active[0].is_available(min_ready):
                unavailable += 1
            if active and active[0].labels.get(REVISION_LABEL) != hash_label(revision):
                old.append(active[0])
        # Those that are not available anyway cost nothing.
        for pod in sorted(old, key=lambda pod: pod.is_available(min_ready)):
            if pod.is_available(min_ready):
                if unavailable >= most:
                    return
                unavailable += 1
            self.delete_pod(owner, pod)

    def _create(self, owner: Object, node: str, revision: Object) -> None:
        def prepare(pod: Object) -> None:
            metadata, spec = pod["metadata"], pod["spec"]
            metadata["labels"] = {
                **(metadata.get("labels") or {}),
                REVISION_LABEL: hash_label(revision),
            }
            spec["tolerations"] = _tolerations(spec)
            this_node = {"key": "metadata.name", "operator": "In", "values": [node]}
            affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
            # Its own terms are replaced: the node was found by them.
            affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [this_node]}]}

        self.create_pod(owner, owner["spec"].get("template") or {}, prepare=prepare)

    def _write_status(self, owner: Object, wanted: set[str], revision: Object) -> None:
        min_ready = owner["spec"].get("minReadySeconds", 0)
        by_node: dict[str, list[PodRecord]] = {}
        for pod in by_age(self.pods.owned_by(owner["metadata"]["uid"])):
            if not pod.deleting:
                by_node.setdefault(self._node_of(pod), []).append(pod)
        there = [pods[0] for node, pods in by_node.items() if node in wanted]
        ready = [pod for pod in there if pod.is_ready]
        available = [pod for pod in ready if pod.is_available(min_ready)]
        if len(available) < len(ready):
            self.mark_later(_key(owner), min_ready)
        updated = [pod for pod in there if pod.labels.get(REVISION_LABEL) == hash_label(revision)]
        status: Object = {
            "currentNumberScheduled": len(there),
            "desiredNumberScheduled": len(wanted),
            "numberMisscheduled": sum(
                node in self._nodes and node not in wanted for node in by_node
            ),
            "numberReady": len(ready),
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        optional = {
            "updatedNumberScheduled": len(updated),
            "numberAvailable": len(available),
            "numberUnavailable": len(wanted) - len(available),
        }
        status |= {part: count for part, count in optional.items() if count}
        self.write_status(self.resource, owner, status)


def _tolerations(spec: Object) -> list[Object]:
    """A daemon's own tolerations and those of all daemons."""
    own = list(spec.get("tolerations") or ())
    troubles = [*_TROUBLES, *([_NO_NETWORK] if spec.get("hostNetwork") else [])]
    for key, effect in troubles:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        if not any(
            (one.get("key"), one.get("effect"), one.get("operator")) == (key, effect, "Exists")
            and "tolerationSeconds" not in one
            for one in own
        ):
            own.append(toleration)
    return own


def _key(owner: Object) -> Key:
    return owner["metadata"]["namespace"], owner["metadata"]["name"]
