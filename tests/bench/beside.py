"""kube-scheduler and kscheduler beside each other: the same backlog, each on a control plane of its
own.

    python tests/bench/beside.py --nodes 1000 --pods 1000 --workload plain --rounds 1

Nodes and pending pods are there before a scheduler starts. Pods per second are counted from the
first binding to the last, as a watch sees them; CPU seconds between the same two moments. Etcd, the
API server, the scheduler and the watching share the machine's cores, so the ratio says more than
either number. Both schedulers are the user system:kube-scheduler, ask 5,000 requests per second at
most, and run without leader election; kube-scheduler speaks protobuf, as is its default.
"""

import asyncio
import json
import os
import shutil
import sys
import sysconfig
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click
import uvloop
import workloads
from rich.console import Console
from rich.table import Table
from run import Usage, running

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.controlplane.binaries import MissingProgramError, program
from tests.controlplane.plane import ControlPlane, ControlPlaneError, free_port
from tests.e2e.api import Api, path

USER = "kube-scheduler"
RATE = 5000
CREATORS = 16
TIMEOUT_SECONDS = 600.0
OURS, THEIRS = "kscheduler", "kube-scheduler"
CONTENT_TYPES = {OURS: "application/json", THEIRS: "application/vnd.kubernetes.protobuf"}


@dataclass
class Result:
    scheduler: str
    workload: str
    nodes: int
    pods: int
    seconds: float
    pods_per_second: float
    start_seconds: float
    scheduler_cpu_ms_per_pod: float
    apiserver_cpu_ms_per_pod: float
    scheduler_cpu_seconds: float
    peak_megabytes: float


class Stopwatch:
    """What two processes have used between two moments."""

    def __init__(self, scheduler: int, apiserver: int) -> None:
        self._pids = (scheduler, apiserver)
        self.readings: list[tuple[float, Usage, Usage]] = []

    def read(self) -> None:
        scheduler, apiserver = map(Usage.of, self._pids)
        self.readings.append((time.monotonic(), scheduler, apiserver))


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    folder = Path(tempfile.mkdtemp(prefix="beside-"))
    # The scheduler must be the bottleneck, not the server's fairness between users.
    plane = ControlPlane(folder, extra_flags=("--max-requests-inflight=3000",))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
        shutil.rmtree(folder)


@contextmanager
def scheduler(which: str, folder: Path) -> Iterator[int]:
    """The process id of one that has just been started."""
    config = folder / f"{which}.yaml"
    config.write_text(configuration(which, folder / f"{USER}.kubeconfig"))
    ours = Path(sysconfig.get_path("scripts")) / OURS
    command = program(THEIRS) if which == THEIRS else ours
    flags = (f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={free_port()}")
    with (
        (folder / f"{which}.log").open("wb") as log,
        running([str(command), *flags], stdout=log, stderr=log) as process,
    ):
        yield process.pid


def configuration(which: str, kubeconfig: Path) -> str:
    connection = {
        "kubeconfig": str(kubeconfig),
        "contentType": CONTENT_TYPES[which],
        "qps": RATE,
        "burst": RATE,
    }
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
        }
    )


async def fill(api: Api, workload: str, nodes: int, pods: int) -> None:
    await api.create("namespaces", {"metadata": {"name": workloads.NAMESPACE}})
    await create_all(api, "nodes", map(workloads.node, range(nodes)), "")
    backlog = islice(workloads.pods(workload, "pod"), pods)
    await create_all(api, "pods", backlog, workloads.NAMESPACE)


async def create_all(
    api: Api, resource: str, bodies: Iterator[dict[str, Any]], namespace: str
) -> None:
    """Some at a time, all from one source."""

    async def create() -> None:
        for body in bodies:
            await api.create(resource, body, namespace)

    async with asyncio.TaskGroup() as tasks:
        for number in range(CREATORS):
            tasks.create_task(create(), name=f"create/{number}")


async def measure(which: str, workload: str, nodes: int, pods: int) -> Result:
    with control_plane() as plane:
        api = Api(plane.folder / "kubeconfig")
        try:
            await fill(api, workload, nodes, pods)
            with scheduler(which, plane.folder) as pid:
                started = time.monotonic()
                watch = Stopwatch(pid, plane.processes["kube-apiserver"].pid)
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await count_bindings(api, pods, watch.read)
        finally:
            await api.close()
    (first, before, served), (last, after, served_after) = watch.readings
    cpu = after.cpu_seconds - before.cpu_seconds
    served_cpu = served_after.cpu_seconds - served.cpu_seconds
    return Result(
        which,
        workload,
        nodes,
        pods,
        seconds=last - first,
        # The first one is what the clock starts with.
        pods_per_second=(pods - 1) / (last - first),
        start_seconds=first - started,
        scheduler_cpu_ms_per_pod=cpu / (pods - 1) * 1000,
        apiserver_cpu_ms_per_pod=served_cpu / (pods - 1) * 1000,
        scheduler_cpu_seconds=after.cpu_seconds,
        peak_megabytes=after.peak_megabytes,
    )


async def count_bindings(api: Api, wanted: int, read: Callable[[], None]) -> None:
    """Reads the clock at the first and at the last binding."""
    bound: set[str] = set()
    async with aclosing(bindings(api)) as names:
        async for name in names:
            if not bound:
                read()
            bound.add(name)
            if len(bound) == wanted:
                read()
                return


async def bindings(api: Api) -> AsyncGenerator[str, None]:
    """Names of bound pods. A watch that lags behind is cut by the server; the next one tells all
    of them again.
    """
    query = {"watch": "true", "fieldSelector": "spec.nodeName!="}
    while True:
        async with aclosing(api.lines(path("pods", workloads.NAMESPACE), query)) as lines:
            async for line in lines:
                yield json.loads(line)["object"]["metadata"]["name"]


def table(results: list[Result]) -> Table:
    one = results[0]
    table = Table(title=f"{one.pods:,} pods ({one.workload}) on {one.nodes:,} nodes")
    table.add_column("scheduler")
    columns = ("pods/s", "seconds", "1st after", "CPU ms/pod", "server's", "CPU s", "peak MB")
    for name in columns:
        table.add_column(name, justify="right")
    for one in results:
        table.add_row(
            one.scheduler,
            f"{one.pods_per_second:,.0f}",
            f"{one.seconds:.2f}",
            f"{one.start_seconds:.2f}",
            f"{one.scheduler_cpu_ms_per_pod:.2f}",
            f"{one.apiserver_cpu_ms_per_pod:.2f}",
            f"{one.scheduler_cpu_seconds:.2f}",
            f"{one.peak_megabytes:.0f}",
        )
    return table


def ratio(results: list[Result]) -> float:
    """How many pods of ours one of theirs is worth, the best rounds compared."""
    best = {
        which: max(one.pods_per_second for one in results if one.scheduler == which)
        for which in (OURS, THEIRS)
    }
    return best[OURS] / best[THEIRS]


@click.command(help=__doc__)
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=1000, show_default=True)
@click.option("--workload", default="plain", show_default=True)
@click.option("--rounds", default=1, show_default=True, help="Of both schedulers, in turn.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per measurement, no table.")
def main(nodes: int, pods: int, workload: str, rounds: int, as_json: bool) -> None:
    if workload not in workloads.WORKLOADS:
        raise click.BadParameter(f"no such workload: {workload}")
    pods = workloads.at_most(workload, pods, nodes)
    results: list[Result] = []
    try:
        with Console(stderr=True).status("starting") as status:
            for number in range(2 * rounds):
                which = (THEIRS, OURS)[number % 2]
                status.update(f"{which}, round {number // 2 + 1}")
                results.append(uvloop.run(measure(which, workload, nodes, pods)))
                if as_json:
                    print(json.dumps(asdict(results[-1])), flush=True)
    except (MissingProgramError, ControlPlaneError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        print(json.dumps({"ratio": ratio(results), "load": os.getloadavg()[0]}))
        return
    console = Console()
    console.print(table(results))
    console.print(f"ours/theirs {ratio(results):.2f}; load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
