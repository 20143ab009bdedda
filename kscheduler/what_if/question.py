"""The spec of a PlacementReview, read and checked: nodes as they would be, pods to be placed.

Pods get what the API server would fill in, as far as decisions depend on it: a namespace, a
scheduler name, a priority, requests where there are only limits, host ports of the host's network.
A pod that was copied from a cluster is asked about as if it were new: its node and status are
dropped.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from kscheduler.api.core import Container, Node, Pod, PodStatus, ResourceRequirements
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.explanation import NodesToAdd, PlacementReviewSpec
from kscheduler.api.field_errors import FieldError, Path, duplicate, invalid, required, unsupported
from kscheduler.api.meta import ApiObject, Quantity
from kscheduler.api.pod_questions import numbered_names, stem_like
from kscheduler.api.quantity import QuantityError, parse
from kscheduler.api.requests import Counting
from kscheduler.api.scheduling import PriorityClass
from kscheduler.api.taints import UNSCHEDULABLE_TAINT
from kscheduler.api.validation import dns_label_errors, dns_subdomain_errors
from kscheduler.slices import Slices
from kscheduler.state.cache import Contents
from kscheduler.state.pod_info import PodInfo
from kscheduler.what_if.errors import SPEC, ReviewError, ReviewLimitError, not_found, raise_any
from kscheduler.what_if.made_claims import ClaimMaker, VolumeClaimTemplates

MAX_PLACEMENTS = 10_000
MAX_ADDED_NODES = 10_000
# The spec of one pod: a decision cannot be interrupted, and grows with it.
MAX_POD_SPEC_BYTES = 64 << 10
DETAILS = ("Summary", "Candidates", "All")
HOSTNAME = "kubernetes.io/hostname"
MIRROR = "kubernetes.io/config.mirror"
DEFAULT_SCHEDULER = "default-scheduler"
# Taints that controllers put on a node for the state it is in; a new node like it is in none.
OF_NODE_STATE = "node.kubernetes.io/"
SYSTEM_PRIORITIES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class _Sized(msgspec.Struct):
    """A pod whose spec is not read."""

    spec: msgspec.Raw = msgspec.Raw()


_decode_pod = decoder_for(Pod)
_decode_sized = msgspec.json.Decoder(_Sized).decode
_decode_node = decoder_for(Node)


class PodToPlace(msgspec.Struct, frozen=True):
    """A pod without a node; `note` is what its placement says besides the node."""

    pod: PodInfo
    note: str = ""
    # Evicted to make room; such a pod makes room for itself nowhere.
    evicted: bool = False
    # One of the pods that the review is about.
    asked: bool = True
    # Claims that controllers make for it.
    made: tuple[ApiObject, ...] = ()


class PodToCopy(NamedTuple):
    """A pod of the spec, and the templates of its ephemeral volumes."""

    pod: Pod
    volumes: VolumeClaimTemplates


class ChangedCluster(msgspec.Struct):
    """Nodes and pods after the changes, and the pods that have to move."""

    contents: Contents
    drained: list[PodToPlace]
    # By the name of a node, those that are added like it.
    copies: dict[str, list[str]]
    notes: list[str]


def check(spec: PlacementReviewSpec, node_names: Collection[str]) -> None:
    """ReviewError for what can be told without looking at the pods."""
    errors = []
    if spec.detail not in DETAILS:
        errors.append(unsupported(SPEC / "detail", spec.detail, DETAILS))
    if spec.replicas < 1:
        errors.append(invalid(SPEC / "replicas", spec.replicas, "must be at least 1"))
    if not spec.pods and not spec.drain_nodes:
        errors.append(required(SPEC / "pods", "at least one pod, or a node to drain"))
    for field, names in (
        ("removeNodes", spec.remove_nodes),
        ("cordonNodes", spec.cordon_nodes),
        ("drainNodes", spec.drain_nodes),
    ):
        path = SPEC / field
        for number, name in enumerate(names):
            if name not in node_names:
                errors.append(not_found(path[number], name))
    raise_any(errors)
    check_number(len(spec.pods) * spec.replicas)
    added = sum(max(one.count, 0) for one in spec.add_nodes)
    if added > MAX_ADDED_NODES:
        detail = f"at most {MAX_ADDED_NODES:,} nodes can be added by one review"
        raise ReviewLimitError(invalid(SPEC / "addNodes", added, detail))


def check_number(placements: int) -> None:
    if placements > MAX_PLACEMENTS:
        detail = f"at most {MAX_PLACEMENTS:,} pods can be placed by one review"
        raise ReviewLimitError(invalid(SPEC / "pods", placements, detail))


def change(spec: PlacementReviewSpec, contents: Contents) -> ChangedCluster:
    """The cluster with the changes of a checked spec: lists of its own, the objects shared."""
    drained, cordoned, removed = map(
        frozenset, (spec.drain_nodes, spec.cordon_nodes, spec.remove_nodes)
    )
    unschedulable = drained | cordoned
    nodes = [
        cordon(node) if node.name in unschedulable else node
        for node in contents.nodes
        if node.name not in removed
    ]
    copies: dict[str, list[str]] = {}
    for like, node in _added(spec.add_nodes, contents.nodes):
        nodes.append(node)
        if like:
            copies.setdefault(like, []).append(node.name)
    pods, concerned = contents.pods, drained | removed
    leaving: list[PodToPlace] = []
    lost = orphans = 0
    if concerned:
        pods = [pod for pod in contents.pods if pod.node_name not in concerned]
        for pod in contents.pods:
            name = pod.node_name
            if name not in concerned:
                continue
            if name in drained and _is_drained(pod):
                orphans += pod.pod.metadata.controller is None
                leaving.append(PodToPlace(unbound(pod), f"drained from {name}"))
            elif name not in removed:
                pods.append(pod)
            else:
                lost += name not in drained
    changed = ChangedCluster(Contents(nodes, pods), leaving, copies, [])
    if lost:
        changed.notes.append(
            f"{_pods(lost)} of removed nodes {'is' if lost == 1 else 'are'} not placed anew; "
            "drain the nodes to see where the pods would go."
        )
    if orphans:
        does, them = ("does", "it") if orphans == 1 else ("do", "them")
        changed.notes.append(
            f"{_pods(orphans)} of drained nodes {does} not belong to a controller, which would "
            f"create {them} again."
        )
    return changed


def cordon(node: Node) -> Node:
    """The node unschedulable, with the taint that the node controller adds then."""
    taints = node.spec.taints
    if all((one.key, one.effect) != _UNSCHEDULABLE for one in taints):
        taints = (*taints, UNSCHEDULABLE_TAINT)
    return replace(node, spec=replace(node.spec, unschedulable=True, taints=taints))


_UNSCHEDULABLE = UNSCHEDULABLE_TAINT.key, UNSCHEDULABLE_TAINT.effect


def unbound(pod: PodInfo) -> PodInfo:
    """The pod as its controller would create it again, under the same name."""
    spec = replace(pod.pod.spec, node_name="")
    # Its claims are released, and stand for those that would be made from the same templates.
    status = PodStatus(resource_claim_statuses=pod.pod.status.resource_claim_statuses)
    return pod.renewed(replace(pod.pod, spec=spec, status=status, whole=b""))


def _is_drained(pod: PodInfo) -> bool:
    """Whether `kubectl drain` would evict the pod; one that is terminating goes by itself."""
    controller = pod.pod.metadata.controller
    if pod.terminating or MIRROR in pod.pod.metadata.annotations:
        return False
    return controller is None or controller.kind != "DaemonSet"


def _added(wanted: Sequence[NodesToAdd], nodes: Sequence[Node]) -> Iterator[tuple[str, Node]]:
    """New nodes, each with the name of the one that it is like."""
    by_name = {node.name: node for node in nodes}
    names = set(by_name)
    for number, one in enumerate(wanted):
        path = (SPEC / "addNodes")[number]
        if one.count < 1:
            raise ReviewError(invalid(path / "count", one.count, "must be at least 1"))
        if bool(one.like) == (one.node is not None):
            raise ReviewError(required(path, "either like or node"))
        if one.node is not None:
            model = _read_node(one.node, path / "node")
            new_names = numbered_names(model.name or "node", names)
            if one.count == 1 and model.name:
                if model.name in names:
                    raise ReviewError(duplicate(path / "node" / "metadata" / "name", model.name))
                new_names = iter([model.name])
        elif one.like in by_name:
            model = _fresh(by_name[one.like])
            new_names = numbered_names(stem_like(one.like), names)
        else:
            raise ReviewError(not_found(path / "like", one.like))
        for name in itertools.islice(new_names, one.count):
            names.add(name)
            yield one.like, _renamed(model, name)


def _fresh(node: Node) -> Node:
    """The node as it would register itself: in no state that a controller has marked."""
    taints = tuple(one for one in node.spec.taints if not one.key.startswith(OF_NODE_STATE))
    return replace(node, spec=replace(node.spec, unschedulable=False, taints=taints))


def _renamed(node: Node, name: str) -> Node:
    labels = {**node.metadata.labels, HOSTNAME: name}
    metadata = replace(node.metadata, name=name, uid=f"review/{name}", labels=labels)
    return replace(node, metadata=metadata, whole=b"")


def _read_node(text: msgspec.Raw, path: Path) -> Node:
    node = _read(text, "Node", _decode_node, path)
    if not node.status.allocatable:
        # As the API server does.
        node = replace(node, status=replace(node.status, allocatable=node.status.capacity))
    allocatable = path / "status" / "allocatable"
    if not node.status.allocatable:
        raise ReviewError(required(allocatable, "a node without room takes no pod"))
    raise_any(_quantity_errors(node.status.allocatable, allocatable))
    return node


def _read(text: msgspec.Raw, kind: str, decode: Callable[[msgspec.Raw], Any], path: Path) -> Any:
    """An object of this kind, which it may leave unsaid."""
    try:
        said = _decode_kind(text).kind
        if said not in ("", kind):
            raise ReviewError(unsupported(path / "kind", said, (kind,)))
        return decode(text)
    except (msgspec.DecodeError, DecodeError) as error:
        raise ReviewError(FieldError(str(path), f"Invalid value: not a {kind}: {error}")) from error


class _Kind(msgspec.Struct):
    kind: str = ""


_decode_kind = msgspec.json.Decoder(_Kind).decode


def _quantity_errors(amounts: Mapping[str, Quantity], path: Path) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        try:
            if parse(amount).nanos < 0:
                yield invalid(path[name], amount, "must be greater than or equal to 0")
        except QuantityError as error:
            yield invalid(path[name], amount, str(error))


def _name_errors(
    name: str, path: Path, complaints: Callable[[str], Iterable[str]]
) -> Iterator[FieldError]:
    return (invalid(path, name, complaint) for complaint in complaints(name))


class PodReader:
    """Manifests of pods to pods as they would be in the cluster; `notes` are worth telling."""

    def __init__(
        self,
        profiles: Sequence[str],
        classes: Iterable[PriorityClass],
        claims: ClaimMaker,
        counting: Counting,
    ) -> None:
        self._profiles = profiles
        self._claims = claims
        self._classes = {one.name: one for one in classes}
        self._default_class = next((c for c in self._classes.values() if c.global_default), None)
        self._counting = counting
        self._names: set[str] = set()
        self._serial = 0
        self.notes: dict[str, None] = {}

    async def read(self, spec: PlacementReviewSpec, slices: Slices) -> list[PodToCopy]:
        """All manifests; ReviewError for the first that is no pod."""
        pods = []
        for number, text in enumerate(spec.pods):
            path = (SPEC / "pods")[number]
            pod = self._defaulted(text, path)
            try:
                pods.append(PodToCopy(pod, await self._claims.read(pod, text)))
            except DecodeError as error:
                problem = f"Invalid value: {error}"
                raise ReviewError(FieldError(str(path / "spec" / "volumes"), problem)) from error
            if slices.due():
                await slices.rest()
        self.notes |= self._claims.notes
        return pods

    def replicas(self, pods: Sequence[PodToCopy], count: int) -> Iterator[PodToPlace]:
        """Each pod so many times, under names that no other pod of the review has."""
        for pod, volumes in pods:
            for number in range(count):
                name = f"{pod.name}-{number}" if count > 1 else pod.name
                named, made = self._claims.made_for(self._named(pod, name), volumes)
                info = PodInfo(named, self._counting)
                yield PodToPlace(info, _note_on_gates(pod), made=made)

    def _named(self, pod: Pod, name: str) -> Pod:
        self._serial += 1
        unique, more = name, 0
        while (key := f"{pod.namespace}/{unique}") in self._names:
            unique, more = f"{name}-{more}", more + 1
        self._names.add(key)
        metadata = replace(pod.metadata, name=unique, uid=f"review/{self._serial}")
        return replace(pod, metadata=metadata)

    def _defaulted(self, text: msgspec.Raw, path: Path) -> Pod:
        pod: Pod = _read(text, "Pod", _decode_pod, path)
        if (size := len(_decode_sized(text).spec)) > MAX_POD_SPEC_BYTES:
            detail = (
                f"at most {MAX_POD_SPEC_BYTES:,} bytes of a pod's spec are read; leave out what "
                "does not matter to a scheduler, as commands and environment variables"
            )
            raise ReviewLimitError(invalid(path / "spec", f"{size:,} bytes", detail))
        spec, metadata = pod.spec, pod.metadata
        if not spec.containers:
            raise ReviewError(required(path / "spec" / "containers"))
        for field, containers in (
            ("containers", spec.containers),
            ("initContainers", spec.init_containers),
        ):
            for number, one in enumerate(containers):
                where = (path / "spec" / field)[number] / "resources"
                raise_any(_quantity_errors(one.resources.requests, where / "requests"))
                raise_any(_quantity_errors(one.resources.limits, where / "limits"))
        raise_any(_quantity_errors(spec.overhead, path / "spec" / "overhead"))
        if spec.resources is not None:
            where = path / "spec" / "resources"
            raise_any(_quantity_errors(spec.resources.requests, where / "requests"))
            raise_any(_quantity_errors(spec.resources.limits, where / "limits"))
        # Names that stand in paths of requests to the API server.
        if metadata.namespace:
            where = path / "metadata" / "namespace"
            raise_any(_name_errors(metadata.namespace, where, dns_label_errors))
        for number, claim in enumerate(spec.resource_claims):
            if claim.resource_claim_template_name is not None:
                where = (path / "spec" / "resourceClaims")[number] / "resourceClaimTemplateName"
                name = claim.resource_claim_template_name
                raise_any(_name_errors(name, where, dns_subdomain_errors))
        priority, policy = self._priority(pod, path)
        spec = replace(
            spec,
            node_name="",
            scheduler_name=self._profile(spec.scheduler_name),
            priority=priority,
            preemption_policy=policy,
            containers=_completed(spec.containers, host_network=spec.host_network),
            init_containers=_completed(spec.init_containers, host_network=spec.host_network),
        )
        metadata = replace(
            metadata,
            name=metadata.name or metadata.generate_name.rstrip("-") or "pod",
            namespace=metadata.namespace or "default",
            deletion_timestamp=None,
        )
        pod = Pod(metadata, spec)
        if error := PodInfo(pod, self._counting).error:
            raise ReviewError(FieldError(str(path / "spec"), f"Invalid value: {error}"))
        return pod

    def _profile(self, name: str) -> str:
        if name in self._profiles:
            return name
        if not name and DEFAULT_SCHEDULER in self._profiles:
            return DEFAULT_SCHEDULER
        first = self._profiles[0]
        if name:
            self.notes[f'No profile is called "{name}"; "{first}" decided instead.'] = None
        return first

    def _priority(self, pod: Pod, path: Path) -> tuple[int, str | None]:
        """The priority and preemption policy, as admission computes them."""
        spec = pod.spec
        name, policy = spec.priority_class_name, spec.preemption_policy
        if not name:
            if spec.priority is not None:
                return spec.priority, policy
            default = self._default_class
            return (0, policy) if default is None else (default.value, default.preemption_policy)
        if name in self._classes:
            return self._classes[name].value, self._classes[name].preemption_policy
        if name in SYSTEM_PRIORITIES:
            return SYSTEM_PRIORITIES[name], policy
        if self._classes:
            raise ReviewError(not_found(path / "spec" / "priorityClassName", name))
        priority = spec.priority or 0
        self.notes[
            f'Priority classes are not watched: priority {priority} stands in for "{name}".'
        ] = None
        return priority, policy


def _completed(containers: Sequence[Container], *, host_network: bool) -> tuple[Container, ...]:
    """Containers with the requests and host ports that the API server fills in."""
    completed = []
    for one in containers:
        resources, ports = one.resources, one.ports
        if resources.limits:
            requests = {**resources.limits, **resources.requests}
            resources = ResourceRequirements(requests, resources.limits, resources.claims)
        if host_network:
            ports = tuple(replace(port, host_port=port.container_port) for port in ports)
        completed.append(replace(one, resources=resources, ports=ports))
    return tuple(completed)


def _note_on_gates(pod: Pod) -> str:
    gates = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
    return f"once its scheduling gates are removed: {gates}" if gates else ""


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count:,} pods"
