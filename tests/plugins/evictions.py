"""A cluster of a few nodes in which pods must go so that others fit.

Real cache, framework and Filter plugins around DefaultPreemption; the API server is a list of calls
that may be told to fail or to wait.
"""

import asyncio
from random import Random
from types import SimpleNamespace

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import convert
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.cycle.attempt import Attempt, Unschedulable, at_once
from kscheduler.cycle.schedule import SchedulingAlgorithm
from kscheduler.extension_points import METHOD_OF_POINT
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedLister, FixedListers
from kscheduler.metrics import Metrics
from kscheduler.plugins.default_preemption import DefaultPreemption, DefaultPreemptionArgs
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity, InterPodAffinityArgs
from kscheduler.plugins.node_name import NodeName
from kscheduler.plugins.node_ports import NodePorts
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs
from kscheduler.plugins.node_resources.fit import NodeResourcesFit
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.framework import Framework
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.kit.clusters import FixedNominator

PROFILE = "default-scheduler"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def make_node(name, cpu="4", **labels):
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {"host": name, **labels}}
    return convert(
        {"metadata": metadata, "status": {"allocatable": {"cpu": cpu, "pods": "110"}}}, Node
    )


def make_pod(
    name, cpu="1", *, priority=0, node="", start=None, deleted=False, labels=None, **parts
):
    """`start` is a number of seconds; `parts` are conditions, port, nominated and more spec."""
    nominated, conditions = parts.pop("nominated", ""), parts.pop("conditions", [])
    port = [{"containerPort": 1, "hostPort": parts.pop("port")}] if "port" in parts else []
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "generation": 7,
        "labels": labels or {},
        "deletionTimestamp": "2030-01-01T00:00:00Z" if deleted else None,
    }
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}, "ports": port}
    spec = {"schedulerName": PROFILE, "priority": priority, "nodeName": node}
    status = {
        "nominatedNodeName": nominated,
        "conditions": conditions,
        "startTime": None if start is None else f"2026-01-01T00:00:{start:02d}Z",
    }
    return convert(
        {
            "metadata": metadata,
            "spec": {**spec, "containers": [container], **parts},
            "status": status,
        },
        Pod,
    )


def make_budget(name="budget", allowed=0, disrupted=(), **labels):
    return convert(
        {
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        },
        PodDisruptionBudget,
    )


def far_from(**labels):
    """Affinity of a pod that wants no such pod on its host."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": "host"}
    return {"podAntiAffinity": {REQUIRED: [term]}}


class Calls:
    """The API server: what it was asked, in order. `failing` and `held` are by what was asked."""

    def __init__(self):
        self.told = []
        self.failing = {}
        self.held = {}
        self.patches = {}

    async def patch_pod_status(self, pod, status):
        if status != pod.status:
            self.patches[pod.name] = status
            await self._call("patch", pod.name)

    async def delete_pod(self, pod):
        await self._call("delete", pod.name)

    async def _call(self, *what):
        self.told.append(what)
        if what in self.held:
            await self.held[what].wait()
        if what in self.failing:
            raise self.failing[what]


class Listers:
    """Pods can be changed, other objects are given once."""

    def __init__(self, objects):
        self.pods = {}
        self._others = FixedListers(objects)

    def lister(self, kind):
        return FixedLister(self.pods) if kind is Pod else self._others.lister(kind)


class Stage:
    """`pods` with a node are bound; who tries to preempt is named to `preempt`."""

    def __init__(
        self,
        nodes,
        pods=(),
        *,
        budgets=(),
        plugins=(),
        asynchronous=True,
        args=None,
        nominated_pods=None,
    ):
        self.cache = Cache()
        for node in nodes:
            self.cache.add_node(node)
        self.listers = Listers(budgets)
        for pod in pods:
            self.listers.pods[pod.key] = pod
            if pod.spec.node_name:
                self.cache.add_pod(PodInfo(pod))
        self.calls, self.events, self.activated = Calls(), [], []
        self.metrics = Metrics()
        self.handle = RuntimeHandle(
            gates=SimpleNamespace(enabled=lambda name: asynchronous),
            listers=self.listers,
            snapshot=self.cache.snapshot,
            nominator=FixedNominator(nominated_pods),
            activate=lambda pods: self.activated.extend(pod.name for pod in pods),
            client=self.calls,
            recorder=SimpleNamespace(event=self._event),
            metrics=self.metrics,
            rng=Random(0),
            profile_name=PROFILE,
            framework=lambda: self.framework,
        )
        self.plugin = DefaultPreemption(args or DefaultPreemptionArgs(), self.handle)
        self.framework = self._framework(plugins)

    def _framework(self, extra):
        plugins = [
            *extra,
            NodeName(),
            NodePorts(),
            NodeResourcesFit(NodeResourcesFitArgs(), self.handle),
            InterPodAffinity(InterPodAffinityArgs(), self.handle),
            self.plugin,
            SimpleNamespace(name="ByTime", sort_key=lambda queued: queued.timestamp),
        ]
        at = {
            point: [plugin for plugin in plugins if hasattr(plugin, method)]
            for point, method in METHOD_OF_POINT.items()
        }
        return Framework(self.handle, at, weights={plugin.name: 1 for plugin in plugins})

    def _event(self, pod, kind, reason, action, note):
        self.events.append((pod.name, kind, reason, action, note))

    def refused(self, pod):
        """What PreFilter left behind and why no node takes the pod."""
        self.listers.pods.setdefault(pod.key, pod)
        cycle = CycleState()
        algorithm = SchedulingAlgorithm(Metrics(), rng=Random(0), percentage_of_nodes_to_score=100)
        queued = QueuedPodInfo(PodInfo(pod), timestamp=0.0)
        attempt = Attempt(queued, self.framework, cycle, self.cache.snapshot())
        found = at_once(algorithm.find_nodes_that_fit_pod(attempt))
        assert isinstance(found, Unschedulable)
        return cycle, found.diagnosis

    def preempt(self, pod):
        cycle, diagnosis = self.refused(pod)
        return self.plugin.post_filter(cycle, PodInfo(pod), diagnosis)

    def victims_of(self, pod):
        """The chosen node, its victims and the budgets they violate."""
        cycle, diagnosis = self.refused(pod)
        chosen = self.plugin.evaluator.evaluate(cycle, PodInfo(pod), diagnosis).best
        return chosen.node, [victim.name for victim in chosen.victims], chosen.num_pdb_violations

    async def settle(self, until=lambda: False):
        """Lets the background work until it has nothing to do, or something has happened."""
        running = asyncio.create_task(self.handle.background.run())
        for _ in range(200):
            await asyncio.sleep(0)
            if until():
                break
        running.cancel()
        await asyncio.wait({running})


def summary_of(found):
    """Victims and broken budgets by node, reasons by row, and errors of a dry run."""
    candidates = {
        one.node: ([victim.name for victim in one.victims], one.num_pdb_violations)
        for one in found.candidates
    }
    reasons = {}
    for charge in found.charges:
        for row in charge.rows.tolist():
            reasons.setdefault(row, []).append((charge.plugin, charge.code, charge.reason))
    return candidates, reasons, sorted(found.errors)
