"""Changes of a pod that a what-if asks about: rules left out one by one, and other requests.

A rule is named by its place in the spec, as a JSON pointer: `/tolerations/2`. A pointer to
something larger, as `/affinity/podAffinity`, stands for all rules in it. Rules and requests are
read off the pod as the scheduler decodes it, so a manifest of another shape is refused before
anything in it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kscheduler.api.core import (
    Container,
    NodeSelectorRequirement,
    Pod,
    PodAffinityTerm,
    PodSpec,
    Toleration,
    Volume,
)
from kscheduler.api.decode import DecodeError, convert, without_nulls
from kscheduler.api.meta import LabelSelector, LabelSelectorRequirement
from kscheduler.api.pod_questions import Manifest
from kscheduler.api.resource_names import CPU, MEMORY
from kscheduler.ui.source import Declined

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
# Rules and containers that are listed; a pod may have more, and then they cannot be changed here.
MAX_RULES = 200
MAX_CONTAINERS = 50
# Sources of volumes that do not matter to where a pod goes.
PLACELESS = ("name", "config_map", "secret", "image")

Step = str | int
# Quantities by container and resource; the pod as a whole has no name.
Requests = Mapping[tuple[str, str], str]


class Rule(NamedTuple):
    """A rule by its place in the spec, the kind it is of, and the rule in words."""

    pointer: str
    kind: str
    text: str


class ContainerRequests(NamedTuple):
    """Requests of one container, or of the pod as a whole (which has no name)."""

    name: str
    kind: str
    requests: Mapping[str, str]


def decoded(manifest: Manifest) -> Pod:
    """The pod as the scheduler reads it; Declined if it is none."""
    try:
        return convert(manifest, Pod)
    except (DecodeError, TypeError, ValueError, RecursionError) as error:
        raise Declined(f"The manifest has values that a Pod does not have: {error}.") from error


def rules_of(pod: Pod) -> list[Rule]:
    """Everything in the spec that limits or prefers nodes, or that holds the pod back."""
    found = [Rule(_pointer(path), kind, text) for path, kind, text in _rules(pod.spec)]
    return found[:MAX_RULES]


def is_without(pointer: str, without: Iterable[str]) -> bool:
    """Whether a rule is left out, by itself or as part of something larger."""
    return any(pointer == one or pointer.startswith(f"{one}/") for one in without)


def requests_of(pod: Pod) -> list[ContainerRequests]:
    spec = pod.spec
    found: list[ContainerRequests] = []
    if spec.resources is not None:
        found.append(ContainerRequests("", "whole pod", _requests(spec.resources)))
    for one in spec.init_containers:
        kind = "sidecar" if one.restartable else "init container"
        found.append(ContainerRequests(one.name, kind, _requests(one.resources)))
    found += [
        ContainerRequests(one.name, "container", _requests(one.resources))
        for one in spec.containers
    ]
    return found[:MAX_CONTAINERS]


def _requests(resources: Any) -> dict[str, str]:
    """Requests as they count: a limit without a request is one, too."""
    told = {**resources.limits, **resources.requests}
    return {name: str(told.get(name, "")) for name in dict.fromkeys((CPU, MEMORY, *told))}


def changed_pod(
    manifest: Manifest, without: Sequence[str], each: Mapping[str, str], requests: Requests
) -> Manifest:
    """The pod without these rules and with these requests; `each` is for every container."""
    pod = decoded(manifest)
    changed: Manifest = without_nulls(manifest)
    spec = changed.get("spec")
    if not isinstance(spec, dict):
        return changed
    paths = [path for path, _, _ in _rules(pod.spec) if is_without(_pointer(path), without)]
    # From behind, so that places in lists stay what they are.
    for path in sorted(paths, key=_order, reverse=True):
        _remove(spec, path)
    _set_requests(spec, pod.spec, each, requests)
    return changed


def _rules(spec: PodSpec) -> Iterator[tuple[tuple[Step, ...], str, str]]:
    """Rules by path, with their kind and their words."""
    for key, value in (spec.node_selector or {}).items():
        yield ("nodeSelector", key), "node selector", f"{key}={value}"
    if affinity := spec.affinity:
        if affinity.node_affinity:
            yield from _node_affinity(affinity.node_affinity)
        for name, kind, terms in (
            ("podAffinity", "pod affinity", affinity.pod_affinity),
            ("podAntiAffinity", "pod anti-affinity", affinity.pod_anti_affinity),
        ):
            if terms is None:
                continue
            for number, term in enumerate(terms.required):
                yield ("affinity", name, REQUIRED, number), kind, _affinity_text(term)
            for number, weighted in enumerate(terms.preferred):
                text = f"{_affinity_text(weighted.pod_affinity_term)}, preferred"
                yield ("affinity", name, PREFERRED, number), kind, f"{text} by {weighted.weight}"
    for number, one in enumerate(spec.topology_spread_constraints):
        text = f"{one.topology_key}, maxSkew {one.max_skew}, {one.when_unsatisfiable}"
        yield ("topologySpreadConstraints", number), "topology spread", text
    for number, toleration in enumerate(spec.tolerations):
        yield ("tolerations", number), "toleration", toleration_text(toleration)
    for where, containers in (
        ("initContainers", spec.init_containers),
        ("containers", spec.containers),
    ):
        yield from _host_ports(where, containers, on_host_network=spec.host_network)
    for number, volume in enumerate(spec.volumes):
        if _has_place(volume):
            yield ("volumes", number), "volume", _volume_text(volume)
    for number, claim in enumerate(spec.resource_claims):
        name = claim.resource_claim_name or claim.resource_claim_template_name or ""
        yield ("resourceClaims", number), "resource claim", f"{claim.name} ({name})"
    for number, gate in enumerate(spec.scheduling_gates):
        yield ("schedulingGates", number), "scheduling gate", gate.name


def _node_affinity(affinity: Any) -> Iterator[tuple[tuple[Step, ...], str, str]]:
    kind = "node affinity"
    here = ("affinity", "nodeAffinity")
    terms = affinity.required.node_selector_terms if affinity.required else ()
    for number, term in enumerate(terms):
        # Terms are alternatives; the requirements of one have to hold together.
        lead = f"alternative {number + 1}: " if len(terms) > 1 else ""
        for name, requirements in (
            ("matchExpressions", term.match_expressions),
            ("matchFields", term.match_fields),
        ):
            for index, one in enumerate(requirements):
                path = (*here, REQUIRED, "nodeSelectorTerms", number, name, index)
                yield path, kind, lead + _requirement_text(one)
    for number, weighted in enumerate(affinity.preferred):
        term = weighted.preference
        texts = map(_requirement_text, (*term.match_expressions, *term.match_fields))
        text = f"{' and '.join(texts)}, preferred by {weighted.weight}"
        yield (*here, PREFERRED, number), kind, text


def _host_ports(
    where: str, containers: Sequence[Container], *, on_host_network: bool
) -> Iterator[tuple[tuple[Step, ...], str, str]]:
    for number, container in enumerate(containers):
        for index, port in enumerate(container.ports):
            host_port = port.host_port or (port.container_port if on_host_network else 0)
            if host_port:
                text = f"{host_port}/{port.protocol or 'TCP'} of {container.name}"
                yield (where, number, "ports", index), "host port", text


def _requirement_text(one: NodeSelectorRequirement | LabelSelectorRequirement) -> str:
    return f"{one.key} {one.operator} {', '.join(one.values)}".rstrip()


def _affinity_text(term: PodAffinityTerm) -> str:
    text = f"{_selector_text(term.label_selector)} by {term.topology_key}"
    return f"{text} in {', '.join(term.namespaces)}" if term.namespaces else text


def _selector_text(selector: LabelSelector | None) -> str:
    if selector is None:
        return "no pods"
    texts = [f"{key}={value}" for key, value in selector.match_labels.items()]
    texts += map(_requirement_text, selector.match_expressions)
    return " and ".join(texts) or "all pods"


def toleration_text(one: Toleration) -> str:
    """The toleration as kubectl writes it: `key=value:Effect for 300s`."""
    text = one.key or "every taint"
    if one.operator in ("", "Equal"):
        text += f"={one.value}" if one.value else ""
    elif one.operator != "Exists":
        text += f" {one.operator} {one.value}"
    text += f":{one.effect}" if one.effect else ""
    seconds = one.toleration_seconds
    return text if seconds is None else f"{text} for {seconds}s"


def _has_place(volume: Volume) -> bool:
    names = (name for name in volume.__struct_fields__ if name not in PLACELESS)
    return any(getattr(volume, name) is not None for name in names)


def _volume_text(volume: Volume) -> str:
    claim = volume.persistent_volume_claim
    return f"{volume.name} (claim {claim.claim_name})" if claim else volume.name


def _pointer(path: tuple[Step, ...]) -> str:
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


def _order(path: tuple[Step, ...]) -> tuple[tuple[bool, int, str], ...]:
    return tuple(
        (isinstance(step, int), step if isinstance(step, int) else 0, str(step)) for step in path
    )


def _remove(spec: Manifest, path: tuple[Step, ...]) -> None:
    """Takes a rule out, and what is empty without it."""
    parents: list[Any] = [spec]
    try:
        for step in path[:-1]:
            parents.append(parents[-1][step])
        del parents[-1][path[-1]]
    except (KeyError, IndexError):
        return  # It went with another one.
    for depth in range(len(path) - 2, -1, -1):
        if parents[depth + 1]:
            return
        if depth and path[depth - 1] == "nodeSelectorTerms":
            # An alternative that asks for nothing is met by all nodes, whatever the others ask for.
            parents[depth].clear()
        elif isinstance(path[depth], int):
            return  # A container stays, whatever it has left.
        else:
            del parents[depth][path[depth]]


def _set_requests(
    spec: Manifest, read: PodSpec, each: Mapping[str, str], requests: Requests
) -> None:
    whole = read.resources
    for name, quantity in each.items():
        if whole is not None and (name in whole.requests or name in whole.limits):
            # What a pod asks for as a whole counts instead of what its containers do.
            _set(spec, name, quantity)
        else:
            for container in spec.get("containers") or ():
                _set(container, name, quantity)
    by_name = {
        one.get("name"): one
        for kind in ("containers", "initContainers")
        for one in spec.get(kind) or ()
    }
    by_name[""] = spec
    for (container, name), quantity in requests.items():
        if container not in by_name:
            raise Declined(f"The pod has no container {container[:80]!r}.")
        _set(by_name[container], name, quantity)


def _set(owner: Manifest, name: str, quantity: str) -> None:
    resources = owner.get("resources") or {}
    limits = {key: value for key, value in (resources.get("limits") or {}).items() if key != name}
    # A limit below the request would be refused.
    resources |= {"requests": {**(resources.get("requests") or {}), name: quantity}}
    if "limits" in resources:
        resources["limits"] = limits
    owner["resources"] = resources
