"""Is this a cluster that a scheduler may leave behind? Asked in plain Python, of plain JSON.

Shares nothing with the program it judges: quantities, selectors and rules are written down here
once more, as their documentation has them. `violations` judges the final state,
`binding_violations` the requests that led to it.

Final states say everything about resources, ports, taints, node selection and anti-affinity. Two
rules hold at the moment of a decision only; of them the checker asks what must also hold afterwards
if all pods that a term or constraint selects carry it themselves: affinity finds a partner in its
domain, and spread stays within its skew.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

Json = Mapping[str, Any]

SUFFIXES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", 1)},
}
BLOCKING = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
FINISHED = ("Succeeded", "Failed")


class Sent(NamedTuple):
    """One request and how it was answered."""

    method: str
    path: str
    body: bytes
    status: int


def violations(nodes: Iterable[Json], pods: Iterable[Json]) -> list[str]:
    """Every rule that is broken, one sentence each."""
    state = State(nodes, pods)
    return [problem for pod in state.placed for problem in state.problems(pod)] + [
        problem for node in state.nodes.values() for problem in state.overfull(node)
    ]


def binding_violations(
    sent: Iterable[Sent], pods: Iterable[Json], scheduler_names: Iterable[str]
) -> list[str]:
    """Each pod of these schedulers, and no other, is bound exactly once, and where it is now."""
    bound = defaultdict(list)
    for request in sent:
        if request.path.endswith("/binding") and request.status == 201:
            binding = json.loads(request.body)
            key = (binding["metadata"]["namespace"], binding["metadata"]["name"])
            bound[key].append((binding["metadata"].get("uid"), binding["target"]["name"]))
    found = []
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        bindings = bound.pop((metadata["namespace"], metadata["name"]), [])
        if pod["spec"].get("schedulerName") not in scheduler_names:
            wanted = []
        else:
            wanted = [(metadata["uid"], node)] if node else []
        if bindings != wanted:
            found.append(f"pod {name_of(pod)} on {node} was bound by {bindings}")
    return found + [f"pod {key} was bound and is unknown" for key in bound]


class State:
    """Nodes, and pods that stand on them."""

    def __init__(self, nodes: Iterable[Json], pods: Iterable[Json]) -> None:
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.placed = [
            pod
            for pod in pods
            if pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") not in FINISHED
        ]
        self._by_node: dict[str, list[Json]] = defaultdict(list)
        for pod in self.placed:
            self._by_node[pod["spec"]["nodeName"]].append(pod)
        self._by_term: dict[str, dict[str | None, list[Json]]] = {}
        self._by_constraint: dict[str, Mapping[str, int]] = {}

    def problems(self, pod: Json) -> Iterator[str]:
        """What speaks against this pod where it is."""
        name, node_name = name_of(pod), pod["spec"]["nodeName"]
        node = self.nodes.get(node_name)
        if node is None:
            yield f"pod {name} is on node {node_name}, which does not exist"
            return
        if not tolerated(pod, node):
            yield f"pod {name} does not tolerate the taints of {node_name}"
        if not selected(pod, node):
            yield f"pod {name} did not select {node_name}"
        yield from self._misplaced_among_pods(pod, node)

    def _misplaced_among_pods(self, pod: Json, node: Json) -> Iterator[str]:
        name, where = name_of(pod), node["metadata"]["name"]
        for term in terms(pod, "podAntiAffinity"):
            if other := self._partner(pod, term, node):
                yield f"pod {name} on {where} is too near to {name_of(other)}"
        for term in terms(pod, "podAffinity"):
            if term["topologyKey"] not in labels_of(node):
                yield f"pod {name} is on {where}, which has no {term['topologyKey']}"
            elif not self._partner(pod, term, node) and not self._is_first(pod, term):
                yield f"pod {name} on {where} is far from all it wants to be near to"
        for constraint in pod["spec"].get("topologySpreadConstraints") or ():
            if constraint["whenUnsatisfiable"] == "DoNotSchedule":
                yield from self._skewed(pod, node, constraint)

    def _partner(self, pod: Json, term: Json, node: Json) -> Json | None:
        """Another pod that the term selects, in the domain of this node."""
        domain = labels_of(node).get(term["topologyKey"])
        here = self._selected(pod, term).get(domain, ()) if domain is not None else ()
        return next((other for other in here if other is not pod), None)

    def _is_first(self, pod: Json, term: Json) -> bool:
        """A pod that would be its own partner may be the first of its kind."""
        others = [one for here in self._selected(pod, term).values() for one in here]
        return term_selects(term, pod, pod) and all(other is pod for other in others)

    def _selected(self, pod: Json, term: Json) -> Mapping[str | None, list[Json]]:
        """All placed pods that the term selects, by their domain; worked out once for all pods
        that carry it.
        """
        key = json.dumps([namespace_of(pod), term])
        if key not in self._by_term:
            by_domain = self._by_term[key] = defaultdict(list)
            for one in self.placed:
                if term_selects(term, pod, one):
                    by_domain[self._domain(one, term["topologyKey"])].append(one)
        return self._by_term[key]

    def _domain(self, pod: Json, key: str) -> str | None:
        return labels_of(self.nodes.get(pod["spec"]["nodeName"], {})).get(key)

    def _skewed(self, pod: Json, node: Json, constraint: Json) -> Iterator[str]:
        key, where = constraint["topologyKey"], node["metadata"]["name"]
        counts = self._counts(pod, constraint)
        own = labels_of(node).get(key)
        if own not in counts:
            yield f"pod {name_of(pod)} is on {where}, which is in no domain of {key}"
            return
        least = 0 if len(counts) < (constraint.get("minDomains") or 1) else min(counts.values())
        if counts[own] - least > constraint["maxSkew"]:
            yield f"pod {name_of(pod)} on {where}: skew {counts[own] - least} in {dict(counts)}"

    def _counts(self, pod: Json, constraint: Json) -> Mapping[str, int]:
        """Pods that the constraint selects, by the domains this pod could be in."""
        key = constraint["topologyKey"]
        spec = pod["spec"]
        same = json.dumps(
            [namespace_of(pod), constraint, spec.get("nodeSelector"), spec.get("affinity")]
        )
        if same not in self._by_constraint:
            counts = {
                labels_of(node)[key]: 0
                for node in self.nodes.values()
                if key in labels_of(node) and selected(pod, node)
            }
            for other in self.placed:
                domain = self._domain(other, key)
                if domain in counts and namespace_of(other) == namespace_of(pod):
                    counts[domain] += matches(constraint.get("labelSelector"), labels_of(other))
            self._by_constraint[same] = counts
        return self._by_constraint[same]

    def overfull(self, node: Json) -> Iterator[str]:
        """Resources that do not suffice, and ports that are used twice."""
        name = node["metadata"]["name"]
        here = self._by_node[name]
        used: Counter[str] = Counter({"pods": len(here)})
        for pod in here:
            used.update(requests(pod))
        for resource, amount in used.items():
            room = quantity(node["status"]["allocatable"].get(resource, "0"))
            if amount > room:
                yield f"node {name}: {float(amount)} of {resource} used, {float(room)} there"
        ports = [(name_of(pod), port) for pod in here for port in host_ports(pod)]
        for position, (pod, port) in enumerate(ports):
            for other, other_port in ports[:position]:
                if pod != other and collide(port, other_port):
                    yield f"node {name}: {pod} and {other} both use port {port}"


def name_of(pod: Json) -> str:
    return f"{namespace_of(pod)}/{pod['metadata']['name']}"


def namespace_of(pod: Json) -> str:
    return pod["metadata"].get("namespace") or "default"


def labels_of(item: Json) -> Mapping[str, str]:
    return item.get("metadata", {}).get("labels") or {}


def quantity(text: str) -> Fraction:
    number, exponent, suffix = re.fullmatch(
        r"([+-]?[0-9.]+)(?:[eE]([+-]?[0-9]+))?([A-Za-z]*)", text
    ).groups()
    return Fraction(number) * Fraction(10) ** int(exponent or 0) * SUFFIXES[suffix]


def requests(pod: Json) -> Counter[str]:
    """The sum over containers, or one init container's more; plus overhead. What the pod has got as
    devices of a claim is not asked of the node.
    """
    spec = pod["spec"]
    total: Counter[str] = Counter()
    for container in spec["containers"]:
        for resource, amount in _requested(container).items():
            total[resource] += quantity(amount)
    for container in spec.get("initContainers") or ():
        for resource, amount in _requested(container).items():
            total[resource] = max(total[resource], quantity(amount))
    for resource, amount in (spec.get("overhead") or {}).items():
        total[resource] += quantity(amount)
    extended = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    for mapping in extended.get("requestMappings") or ():
        total.pop(mapping["resourceName"], None)
    return total


def _requested(container: Json) -> Mapping[str, str]:
    return (container.get("resources") or {}).get("requests") or {}


def host_ports(pod: Json) -> list[tuple[str, str, int]]:
    return [
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if port.get("hostPort")
    ]


def collide(one: tuple[str, str, int], other: tuple[str, str, int]) -> bool:
    same_address = one[0] == other[0] or "0.0.0.0" in (one[0], other[0])
    return same_address and one[1:] == other[1:]


def tolerated(pod: Json, node: Json) -> bool:
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or () if taint["effect"] in BLOCKING]
    taints += [UNSCHEDULABLE] if spec.get("unschedulable") else []
    tolerations = pod["spec"].get("tolerations") or ()
    return all(any(tolerates(one, taint) for one in tolerations) for taint in taints)


def tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("key") not in (None, "", taint["key"]):
        return False
    return toleration.get("operator") == "Exists" or (toleration.get("value") or "") == (
        taint.get("value") or ""
    )


def selected(pod: Json, node: Json) -> bool:
    """By nodeSelector and required node affinity."""
    labels = labels_of(node)
    plain = pod["spec"].get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in plain.items()):
        return False
    required = _affinity(pod, "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or admits(required, node)


def admits(node_selector: Json, node: Json) -> bool:
    labels, fields = labels_of(node), {"metadata.name": node["metadata"]["name"]}
    return any(
        (term.get("matchExpressions") or term.get("matchFields"))
        and all(holds(one, labels) for one in term.get("matchExpressions") or ())
        and all(holds(one, fields) for one in term.get("matchFields") or ())
        for term in node_selector["nodeSelectorTerms"]
    )


def holds(requirement: Json, values: Mapping[str, str]) -> bool:
    """One expression of a label or node selector."""
    key, wanted = requirement["key"], requirement.get("values") or ()
    value = values.get(key)
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and int(value) > int(wanted[0])
        case "Lt":
            return value is not None and int(value) < int(wanted[0])
    raise ValueError(f"unknown operator in {requirement}")


def matches(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """A label selector: none matches nothing, an empty one everything."""
    if selector is None:
        return False
    plain = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in plain.items()) and all(
        holds(one, labels) for one in selector.get("matchExpressions") or ()
    )


def terms(pod: Json, kind: str) -> list[Json]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return _affinity(pod, kind).get(required) or []


def _affinity(pod: Json, kind: str) -> Json:
    return (pod["spec"].get("affinity") or {}).get(kind) or {}


def term_selects(term: Json, carrier: Json, other: Json) -> bool:
    if "namespaceSelector" in term:
        raise ValueError("this checker does not know namespaces by their labels")
    namespaces = term.get("namespaces") or [namespace_of(carrier)]
    return namespace_of(other) in namespaces and matches(
        term.get("labelSelector"), labels_of(other)
    )
