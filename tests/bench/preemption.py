"""What a search for victims costs: dry runs over full nodes, in process, in CPU time.

Every node is full of ten small, unimportant pods, and a pod comes that needs the room of three.
Measured is one evaluation, from the attempt that failed to the candidate that is chosen. With "all"
every node is looked at; otherwise as many as by default, unless all candidates violate budgets:
then the search goes on to the last node. "nominated": every other node is nominated to another pod.
"again": the next replica of a pod that has looked for victims before, with ten nodes changed since.
"own labels": no two pods have equal labels, as in StatefulSets, and there are 300 budgets.

    .venv/bin/python -m tests.bench.preemption --nodes 1000,5000
"""

import cProfile
import gc
import json
import pstats
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from types import SimpleNamespace
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.api.sharing import share_pod
from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.config.defaults import default_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.profiles import complete
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.listers import FixedListers
from kscheduler.framework.status import Diagnosis
from kscheduler.metrics import Metrics
from kscheduler.plugins import catalog, factories
from kscheduler.queue.nominator import Nominator
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.preemption.evaluator import Candidates, Evaluator
from kscheduler.runtime.profile import build_frameworks
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo

Json = dict[str, Any]

PODS_PER_NODE = 10
ZONES = 3
POD_NAME = "statefulset.kubernetes.io/pod-name"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
# Milliseconds of CPU that looking at 1,000 nodes may take.
TARGET_MS_PER_1000_NODES = 50.0

_decode_node, _decode_pod = decoder_for(Node), decoder_for(Pod)
_decode_budget = decoder_for(PodDisruptionBudget)


def _term(app: str, key: str) -> Json:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


SHUNNED = {
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term("a3", HOSTNAME)]}
}
SOUGHT = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term("a4", ZONE)]}}
SPREAD = [
    {
        "maxSkew": 1000000,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a3"}},
    }
]


@dataclass(frozen=True)
class Case:
    """What the pod that comes says besides its requests, and what protects the others."""

    spec: Json
    budgets: int = 0
    everywhere: bool = False
    # What the pods that are there say.
    there: Json | None = None
    # Whether every other node is nominated to a pod like it.
    nominated: bool = False
    # Whether a pod like it has looked before.
    again: bool = False
    # Whether each pod that is there has a label of its own.
    own_labels: bool = False


CASES = {
    "resources": Case({}),
    "resources, all": Case({}, everywhere=True),
    "resources, nominated": Case({}, nominated=True),
    "resources, all, again": Case({}, everywhere=True, again=True),
    "budgets": Case({}, budgets=PODS_PER_NODE),
    "budgets, own labels": Case({}, budgets=300, own_labels=True),
    "anti-affinity": Case({"affinity": SHUNNED}),
    "anti-affinity, all": Case({"affinity": SHUNNED}, everywhere=True),
    "anti-affinity, nominated": Case({"affinity": SHUNNED}, nominated=True),
    "anti-affinity, budgets": Case({"affinity": SHUNNED}, budgets=PODS_PER_NODE),
    "affinity, budgets": Case({"affinity": SOUGHT}, budgets=PODS_PER_NODE),
    "spread, budgets": Case({"topologySpreadConstraints": SPREAD}, budgets=PODS_PER_NODE),
    "all of them, budgets": Case(
        {"affinity": {**SHUNNED, **SOUGHT}, "topologySpreadConstraints": SPREAD},
        budgets=PODS_PER_NODE,
    ),
    "others shun it, budgets": Case(
        {},
        budgets=PODS_PER_NODE,
        there={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_term("vip", HOSTNAME)]
            }
        },
    ),
}


def _node(number: int) -> Json:
    name = f"n{number}"
    room = {"cpu": "10", "memory": "64Gi", "pods": "110"}
    labels = {HOSTNAME: name, ZONE: f"z{number % ZONES}"}
    return {
        "metadata": {"name": name, "labels": labels, "uid": name},
        "status": {"allocatable": room, "capacity": room},
    }


def _pod(name: str, cpu: str, app: str, priority: int, **spec: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [container], "priority": priority, **spec},
    }


def _there(node: int, number: int, case: Case) -> Json:
    shunning = {"affinity": case.there} if case.there and number == 5 else {}
    name, app = f"p{node}-{number}", f"a{number}"
    if case.own_labels:
        app = f"a{(node * PODS_PER_NODE + number) % case.budgets}"
    pod = _pod(name, "1", app, number, nodeName=f"n{node}", **shunning)
    if case.own_labels:
        pod["metadata"]["labels"][POD_NAME] = name
    pod["status"] = {"startTime": f"2026-01-01T00:{number:02}:{node % 60:02}Z"}
    return pod


class Stage:
    """A cluster without room, and a pod that looks for some."""

    def __init__(self, size: int, case: Case) -> None:
        self.cache = cache = Cache()
        for number in range(size):
            cache.add_node(_decode_node(json.dumps(_node(number))))
            for each in range(PODS_PER_NODE):
                there = json.dumps(_there(number, each, case))
                cache.add_pod(PodInfo(share_pod(_decode_pod(there))))
        pod = _decode_pod(json.dumps(_pod("vip", "3", "vip", 1000, **case.spec)))
        self.pod = PodInfo(pod)
        budgets = [_budget(number) for number in range(case.budgets)]
        self._nominated: dict[str, PodInfo] = {}
        self._nominator = Nominator(self._nominated.get, None)
        if case.nominated:
            for number in range(0, size, 2):
                self._promise(f"n{number}", case)
        self._handle = self._made([pod], budgets)
        self._case = case
        self._evaluator = self._new_evaluator()

    def _promise(self, node: str, case: Case) -> None:
        name = f"for-{node}"
        pod = PodInfo(_decode_pod(json.dumps(_pod(name, "3", "vip", 1000, **case.spec))))
        self._nominated[pod.key] = pod
        self._nominator.add(pod, node)

    def _new_evaluator(self) -> Evaluator:
        percentage = 100 if self._case.everywhere else 10
        return Evaluator(
            self._handle,
            min_candidate_nodes_percentage=percentage,
            min_candidate_nodes_absolute=100,
        )

    def _made(self, pods: Sequence[Pod], budgets: Sequence[PodDisruptionBudget]) -> RuntimeHandle:
        gates = FeatureGates.defaults()
        completed = complete(default_config(catalog(), gates), catalog(), gates=gates)
        handle = RuntimeHandle(
            gates=gates,
            listers=FixedListers([*pods, *budgets]),
            snapshot=self.cache.snapshot,
            nominator=self._nominator,
            activate=lambda pods: None,
            client=SimpleNamespace(),
            recorder=SimpleNamespace(),
            metrics=Metrics(),
            framework=lambda: self._framework,
        )
        (self._framework,) = build_frameworks(completed, factories(), lambda _name: handle).values()
        return handle

    def refused(self) -> tuple[CycleState, Diagnosis]:
        """As the attempt leaves it that found no node."""
        framework, nodes = self._framework, self.cache.snapshot()
        cycle = CycleState(sampled=False)
        prepared = framework.run_pre_filter(cycle, self.pod, nodes)
        assert prepared.status is None, prepared
        filtered = framework.run_filter(cycle, self.pod, nodes)
        assert not filtered.count
        diagnosis = Diagnosis()
        for plugin, rows, code, reason in filtered.charges:
            diagnosis.charge(plugin, rows, code, reason)
        return cycle, diagnosis

    def round(self) -> float:
        """Seconds of CPU to find whom to evict."""
        if self._case.again:
            for row in range(10):
                self.cache.update_node(self.cache.snapshot().node(row))
        else:
            self._evaluator = self._new_evaluator()
        cycle, diagnosis = self.refused()
        started = process_time()
        found = self._evaluator.evaluate(cycle, self.pod, diagnosis)
        assert isinstance(found, Candidates), found
        assert found.best.victims
        return process_time() - started


def _budget(number: int) -> PodDisruptionBudget:
    return _decode_budget(
        json.dumps(
            {
                "metadata": {"name": f"b{number}", "namespace": "ns"},
                "spec": {"selector": {"matchLabels": {"app": f"a{number}"}}},
                "status": {"disruptionsAllowed": 0},
            }
        )
    )


@dataclass(frozen=True)
class Cost:
    """Milliseconds of CPU per search."""

    nodes: int
    case: str
    median_ms: float
    least_ms: float


def measure(size: int, name: str, rounds: int) -> Cost:
    stage = Stage(size, CASES[name])
    gc.collect()
    gc.freeze()
    costs = [stage.round() * 1e3 for _ in range(rounds)]
    gc.unfreeze()
    return Cost(size, name, median(costs), min(costs))


def profile(run: Callable[[], float]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(run)
    pstats.Stats(profiler, stream=sys.stdout).strip_dirs().sort_stats("tottime").print_stats(40)


def table(costs: Sequence[Cost]) -> Table:
    sizes = sorted({cost.nodes for cost in costs})
    table = Table(title="ms of CPU per search: median (least) of the rounds, by number of nodes")
    table.add_column("case")
    for size in sizes:
        table.add_column(f"{size:,}", justify="right")
    for case in dict.fromkeys(cost.case for cost in costs):
        found = {cost.nodes: cost for cost in costs if cost.case == case}
        table.add_row(case, *(_cell(found[size]) for size in sizes))
    return table


def _cell(cost: Cost) -> str:
    text = f"{cost.median_ms:.1f} ({cost.least_ms:.1f})"
    target = TARGET_MS_PER_1000_NODES * cost.nodes / 1000
    return f"[red]{text}[/]" if cost.least_ms > target else text


@click.command(help=__doc__)
@click.option("--nodes", default="1000", show_default=True, help="Numbers of nodes, by commas.")
@click.option("--case", "chosen", multiple=True, type=click.Choice(list(CASES)))
@click.option("--rounds", default=5, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON line per measurement.")
@click.option("--profile", "profiled", is_flag=True, help="cProfile of the first case.")
def main(nodes: str, chosen: tuple[str, ...], rounds: int, as_json: bool, profiled: bool) -> None:
    sizes = [int(size) for size in nodes.split(",")]
    cases = chosen or tuple(CASES)
    if profiled:
        stage = Stage(sizes[0], CASES[cases[0]])
        stage.round()
        profile(stage.round)
        return
    costs = []
    for size in sizes:
        for name in cases:
            costs.append(measure(size, name, rounds))
            if as_json:
                print(json.dumps(vars(costs[-1])), flush=True)
    if not as_json:
        Console().print(table(costs))


if __name__ == "__main__":
    main()
