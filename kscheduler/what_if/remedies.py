"""Remedies: single changes that would let a pod fit that does not, the smallest first.

Each Filter plugin judges all nodes by itself. The nodes that one plugin alone rejects are those
that a change to what it looks at would gain. Some plugins are left out together, because one change
answers all of them: a cordoned node has a taint as well, and volumes concern several.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kscheduler.api.amounts import at_least, rounded_down
from kscheduler.api.core import PodSpec
from kscheduler.api.explanation import Remedy
from kscheduler.api.taints import HARD_EFFECTS, UNSCHEDULABLE_TAINT, is_tolerated, taint_text
from kscheduler.cycle.attempt import Attempt
from kscheduler.extension_points import Point
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Charge, Mask, Rows
from kscheduler.plugins.inter_pod_affinity.filtering import REASON_EXISTING
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

MAX_REMEDIES = 8

FIT, TAINTS, CORDON = "NodeResourcesFit", "TaintToleration", "NodeUnschedulable"
AFFINITY, INTER_POD = "NodeAffinity", "InterPodAffinity"
AFFINITIES = frozenset({AFFINITY, INTER_POD})
VOLUMES = frozenset({"VolumeBinding", "VolumeZone", "NodeVolumeLimits", "VolumeRestrictions"})

# Kinds of changes, by how much of what the pod asks for is given up.
_SMALLER, _TOLERATION, _UNCORDON, _DROPPED = range(4)


class _Found(NamedTuple):
    kind: int
    # Of a smaller request, the part of it that is given up.
    share: float
    # More nodes first.
    fewer: int
    change: str


def remedies_for(
    attempt: Attempt, *, numeric_operators: bool, tells_nodes: bool = True
) -> tuple[Remedy, ...]:
    """At most MAX_REMEDIES; none if PreFilter rejected the pod, or every node needs two changes.

    Without `tells_nodes`, neither how much is left on nodes is told nor their taints. Nominated
    pods are left out of account. Costs one Filter of all nodes per plugin.
    """
    pod, nodes = attempt.pod, attempt.nodes
    verdicts = _Verdicts(attempt)
    found: list[_Found] = []
    for plugins in verdicts.groups():
        rows = verdicts.gained_without(plugins)
        if not len(rows):
            continue
        if FIT in plugins:
            found += _smaller_requests(pod, nodes, rows, tells_nodes=tells_nodes)
        elif TAINTS in plugins:
            tolerations = _tolerations(pod, nodes, rows, numeric_operators=numeric_operators)
            found += tolerations if tells_nodes else _unnamed(tolerations)
        elif plugins <= AFFINITIES:
            (name,) = plugins
            found += _fewer_wishes(attempt, name)
            if name == INTER_POD and (others := verdicts.rejected_for(REASON_EXISTING, rows)):
                change = "without the anti-affinity of pods that run there"
                found.append(_Found(_DROPPED, 0.0, -others, change))
        else:
            (name, *_) = sorted(plugins)
            found.append(_Found(_DROPPED, 0.0, -len(rows), _without(name, pod)))
    return tuple(Remedy(one.change, -one.fewer) for one in sorted(found)[:MAX_REMEDIES])


class _Verdicts:
    """Per plugin the nodes that it rejects, whatever the others say."""

    def __init__(self, attempt: Attempt) -> None:
        framework, pod, nodes = attempt.framework, attempt.pod, attempt.nodes
        self._valid = nodes.valid
        self._rejected: dict[str, Mask] = {}
        self._charges: list[Charge] = []
        cycle = CycleState()
        prepared = framework.run_pre_filter(cycle, pod, nodes)
        if prepared.status is not None:
            return
        plugins = [
            plugin
            for plugin in framework.plugins_at.get(Point.FILTER, ())
            if plugin.name not in cycle.skip_filter
        ]
        names = frozenset(plugin.name for plugin in plugins)
        # Plugins that are called once per node come last, and see only nodes that at most one of
        # the others rejects.
        plugins.sort(key=lambda plugin: getattr(plugin, "per_node", False))
        number_of_rejections = np.zeros(len(nodes), np.intp)
        for plugin in plugins:
            alone = cycle.clone()
            alone.skip_filter |= names - {plugin.name}
            within = nodes.valid
            if getattr(plugin, "per_node", False):
                within = within & (number_of_rejections <= 1)
            filtered = framework.run_filter(alone, pod, nodes, within)
            rejected = within.copy()
            rejected[filtered.feasible] = False
            self._charges += filtered.charges
            self._add(plugin.name, rejected)
            number_of_rejections += rejected
        if prepared.names is not None:
            outside = nodes.valid.copy()
            rows = [row for name in prepared.names if (row := nodes.row_of(name)) is not None]
            outside[rows] = False
            for name in prepared.plugins:
                self._add(name, outside)

    def _add(self, name: str, rejected: Mask) -> None:
        if name in self._rejected:
            rejected = rejected | self._rejected[name]
        if rejected.any():
            self._rejected[name] = rejected

    def groups(self) -> Iterator[frozenset[str]]:
        """Plugins that reject nodes; together where one change answers them."""
        left = set(self._rejected)
        for together in (frozenset({TAINTS, CORDON}), VOLUMES):
            if left & together:
                yield together
                left -= together
        for name in sorted(left):
            yield frozenset({name})

    def gained_without(self, plugins: Collection[str]) -> Rows:
        """Rows of the nodes that all other plugins accept."""
        rejected = np.zeros(len(self._valid), np.bool_)
        gained = rejected.copy()
        for name, mask in self._rejected.items():
            if name in plugins:
                gained |= mask
            else:
                rejected |= mask
        return np.flatnonzero(gained & ~rejected & self._valid)

    def rejected_for(self, reason: str, rows: Rows) -> int:
        """How many of these rows were rejected for this reason."""
        found = [one.rows for one in self._charges if one.reason == reason]
        return int(np.isin(rows, np.concatenate(found)).sum()) if found else 0


def _smaller_requests(
    pod: PodInfo, nodes: Nodes, rows: Rows, *, tells_nodes: bool
) -> Iterator[_Found]:
    """For each resource that alone is short on some nodes: the largest request that would fit on
    one of them, and the one that would fit on half of them.
    """
    requests = {name: amount for name, amount in pod.spec_requests.items() if amount > 0}
    free = {
        name: nodes.allocatable[rows, column] - nodes.requested[rows, column]
        for name in requests
        if (column := nodes.resources.get(name)) is not None
    }
    if len(free) < len(requests):
        return
    place = nodes.pod_count[rows] < nodes.max_pods[rows]
    for name, asked in requests.items():
        others = [free[other] >= amount for other, amount in requests.items() if other != name]
        short_only = np.logical_and.reduce([place, free[name] < asked, *others])
        left = np.sort(free[name][short_only & (free[name] > 0)])[::-1]
        if not tells_nodes:
            if len(left):
                yield _Found(_SMALLER, 0.0, -len(left), f"with less {name}")
            continue
        told = set()
        for amount in left[[0, len(left) // 2]].tolist() if len(left) else ():
            fitting = rounded_down(name, amount)
            count = int(np.count_nonzero(left >= fitting))
            if count not in told:
                told.add(count)
                smaller, before = at_least(name, fitting), at_least(name, asked)
                change = f"with {smaller} instead of {before} of {name}"
                yield _Found(_SMALLER, 1 - fitting / asked, -count, change)


def _unnamed(tolerations: Iterable[_Found]) -> Iterator[_Found]:
    """The tolerations in one, without the taints."""
    fewer = 0
    for one in tolerations:
        if one.kind == _TOLERATION:
            fewer += one.fewer
        else:
            yield one
    if fewer:
        yield _Found(_TOLERATION, 0.0, fewer, "with another toleration")


def _tolerations(
    pod: PodInfo, nodes: Nodes, rows: Rows, *, numeric_operators: bool
) -> Iterator[_Found]:
    """For each taint that alone is not tolerated on some nodes; a cordon counts as one."""
    counts: dict[str, int] = {}
    cordoned = 0
    numbers, amounts = np.unique(
        nodes.taint_set[rows] * 2 + nodes.unschedulable[rows], return_counts=True
    )
    cordon_is_tolerated = is_tolerated(UNSCHEDULABLE_TAINT, pod.pod.spec.tolerations)
    for number, amount in zip(numbers.tolist(), amounts.tolist(), strict=True):
        untolerated = {
            taint_text(taint)
            for taint in nodes.taint_sets[number // 2]
            if taint.effect in HARD_EFFECTS
            and not is_tolerated(
                taint, pod.pod.spec.tolerations, numeric_operators=numeric_operators
            )
        }
        is_cordoned = number % 2 and not cordon_is_tolerated
        if is_cordoned and untolerated <= {taint_text(UNSCHEDULABLE_TAINT)}:
            cordoned += amount
        elif not is_cordoned and len(untolerated) == 1:
            (text,) = untolerated
            counts[text] = counts.get(text, 0) + amount
    for text, count in counts.items():
        yield _Found(_TOLERATION, 0.0, -count, f"with a toleration of {text}")
    if cordoned:
        yield _Found(_UNCORDON, 0.0, -cordoned, "with cordoned nodes uncordoned")


def _fewer_wishes(attempt: Attempt, plugin: str) -> Iterator[_Found]:
    """The pod without one of its rules that this plugin looks at, or without all of them where
    that gains more. Each is tried: a rule may hold, and what is in the way be another one, or one
    of the configuration or of other pods.
    """
    pod = attempt.pod
    wishes = _node_wishes(pod.pod.spec) if plugin == AFFINITY else _pod_wishes(pod.pod.spec)
    choices = [{name: change} for name, change in wishes.items()]
    if len(wishes) > 1:
        choices.append(wishes)
    most = 0
    for changes in choices:
        spec = pod.pod.spec
        for change in changes.values():
            spec = change(spec)
        count = _count_fitting(attempt, pod.renewed(replace(pod.pod, spec=spec)))
        if count and (len(changes) == 1 or count > most):
            yield _Found(_DROPPED, 0.0, -count, f"without its {' and '.join(changes)}")
        most = max(most, count)


def _node_wishes(spec: PodSpec) -> dict[str, Callable[[PodSpec], PodSpec]]:
    """By what the rule is called, what takes it out of a spec."""
    found: dict[str, Callable[[PodSpec], PodSpec]] = {}
    if spec.node_selector:
        found["node selector"] = lambda spec: replace(spec, node_selector=None)
    rules = spec.affinity
    if rules is not None and rules.node_affinity and rules.node_affinity.required is not None:
        found["node affinity"] = lambda spec: _without_rules(spec, "node_affinity")
    return found


def _pod_wishes(spec: PodSpec) -> dict[str, Callable[[PodSpec], PodSpec]]:
    found: dict[str, Callable[[PodSpec], PodSpec]] = {}
    rules = spec.affinity
    if rules is not None and rules.pod_affinity and rules.pod_affinity.required:
        found["pod affinity"] = lambda spec: _without_rules(spec, "pod_affinity")
    if rules is not None and rules.pod_anti_affinity and rules.pod_anti_affinity.required:
        found["pod anti-affinity"] = lambda spec: _without_rules(spec, "pod_anti_affinity")
    return found


def _without_rules(spec: PodSpec, kind: str) -> PodSpec:
    assert spec.affinity is not None
    return replace(spec, affinity=replace(spec.affinity, **{kind: None}))


def _count_fitting(attempt: Attempt, pod: PodInfo) -> int:
    """How many nodes would take the pod."""
    framework, nodes, cycle = attempt.framework, attempt.nodes, CycleState()
    prepared = framework.run_pre_filter(cycle, pod, nodes)
    if prepared.status is not None:
        return 0
    within = nodes.valid
    if prepared.names is not None:
        within = np.zeros(len(nodes), np.bool_)
        within[[row for name in prepared.names if (row := nodes.row_of(name)) is not None]] = True
    return len(framework.run_filter(cycle, pod, nodes, within).feasible)


def _without(plugin: str, pod: PodInfo) -> str:
    match plugin:
        case "NodePorts":
            ports = sorted({port.port for port in pod.host_ports})
            many = "s" if len(ports) > 1 else ""
            return f"without its host port{many} {', '.join(map(str, ports))}"
        case "PodTopologySpread":
            return "without its topology spread constraints"
        case "DynamicResources":
            # Of extended resources that are devices, the scheduler makes the claim.
            what = "resource claims" if pod.pod.spec.resource_claims else "extended resources"
            return f"without its {what}"
        case _ if plugin in VOLUMES:
            return "without its volumes"
        case _:
            return f"without the verdict of {plugin}"
