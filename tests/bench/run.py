"""What the daemon costs on a cluster: its start until it is in sync, then a backlog of pods.

The API server is the embedded one, in a process of its own; the daemon is started as users start
it. Seconds and memory are those of the daemon's process, as the kernel counts them. The time it
takes to place pods is shared with the API server, which on few cores is the slower of the two.

    make bench-sync ARGS="--nodes 5000 --pods 50000 --backlog 5000 --workloads plain,anti-affinity"
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from tests.bench import workloads
from tests.bench.processes import Usage, running

LAUNCHER = Path(__file__).parents[2] / "cmd" / "kscheduler"
FLAGS = ("--leader-elect=false", "--secure-port=0", "--kube-api-qps=-1")
# The start that we mean to stay below: seconds of CPU for 1,000 nodes and 10,000 pods.
SYNC_TARGET = 3.0


class Server:
    """The cluster's process; each command waits for its answer."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url: str = self._answer()["url"]

    def ask(self, what: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps({"do": what, **arguments}), file=self._process.stdin, flush=True)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise click.ClickException("the cluster's process ended")
        answer: dict[str, Any] = json.loads(line)
        return answer


@dataclass
class Result:
    measured: str
    pods: int
    seconds: float
    cpu_seconds: float
    peak_megabytes: float
    pods_per_second: float = field(init=False)
    cpu_ms_per_pod: float = field(init=False)

    def __post_init__(self) -> None:
        self.pods_per_second = self.pods / self.seconds
        self.cpu_ms_per_pod = self.cpu_seconds / self.pods * 1000


@contextmanager
def cluster() -> Iterator[Server]:
    command = [sys.executable, "-m", "tests.bench.cluster"]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Server(process)


def daemon(url: str, profile: Path | None) -> list[str]:
    launcher = ["-m", "tests.bench.profiled", str(profile)] if profile else [str(LAUNCHER)]
    return [sys.executable, *launcher, f"--master={url}", *FLAGS]


def measure(
    server: Server, nodes: int, pods: int, backlog: int, chosen: list[str], profile: Path | None
) -> Iterator[Result]:
    server.ask("fill", nodes=nodes, pods=pods)
    with tempfile.TemporaryFile() as log:
        started = time.monotonic()
        with running(daemon(server.url, profile), stderr=log) as process:
            # One pod that gets a node: by then everything has been listed and understood.
            server.ask("backlog", workload="plain", count=1)
            used = Usage.of(process.pid)
            seconds = time.monotonic() - started
            yield Result("start and sync", pods, seconds, used.cpu_seconds, used.peak_megabytes)
            for workload in chosen:
                count = workloads.at_most(workload, backlog, nodes)
                yield placed(server, process.pid, workload, count)


def placed(server: Server, pid: int, workload: str, count: int) -> Result:
    before = Usage.of(pid)
    answer = server.ask("backlog", workload=workload, count=count)
    after = Usage.of(pid)
    cpu = after.cpu_seconds - before.cpu_seconds
    # Those that were placed before the last one was made are not in the time, but in the CPU.
    result = Result(workload, answer["count"], answer["seconds"], cpu, after.peak_megabytes)
    result.cpu_ms_per_pod = cpu / count * 1000
    return result


def table(results: list[Result], title: str) -> Table:
    table = Table(title=title)
    table.add_column("measured")
    for name in ("pods", "seconds", "pods/s", "CPU s", "CPU ms per pod", "peak MB"):
        table.add_column(name, justify="right")
    for one in results:
        table.add_row(
            one.measured,
            f"{one.pods:,}",
            f"{one.seconds:.2f}",
            f"{one.pods_per_second:,.0f}",
            f"{one.cpu_seconds:.2f}",
            f"{one.cpu_ms_per_pod:.2f}",
            f"{one.peak_megabytes:.0f}",
        )
    return table


@click.command(help=__doc__)
@click.option("--nodes", default=1000, show_default=True)
@click.option("--pods", default=10_000, show_default=True, help="Pods that run at the start.")
@click.option("--backlog", default=2000, show_default=True, help="Pods to place per workload.")
@click.option("--workloads", "chosen", default="plain", show_default=True, help="Comma-separated.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line per measurement.")
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Run the daemon under cProfile and leave the profile in this file.",
)
def main(
    nodes: int, pods: int, backlog: int, chosen: str, as_json: bool, profile: Path | None
) -> None:
    names = chosen.split(",")
    unknown = set(names) - set(workloads.WORKLOADS)
    if unknown:
        raise click.BadParameter(f"no such workload: {', '.join(sorted(unknown))}")
    progress = Console(stderr=True)
    results = []
    with cluster() as server, progress.status("filling the cluster, starting the daemon") as status:
        for result in measure(server, nodes, pods, backlog, names, profile):
            results.append(result)
            status.update(f"done: {result.measured}")
            if as_json:
                print(json.dumps({"nodes": nodes, **vars(result)}), flush=True)
    if not as_json:
        console = Console()
        console.print(table(results, f"the daemon on {nodes:,} nodes with {pods:,} pods"))
        console.print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    main()
