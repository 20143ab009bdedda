"""Does a running daemon export what kube-scheduler exports? Asked of its port, over HTTP.

    python -m tests.parity.metrics

Plays the recorded workload on the embedded cluster and compares families by type, labels, buckets
and stability: at first without any pod, then after the workload. `go_` families describe Go.
"""

import asyncio
import io
import json
import re
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from kscheduler import logs
from kscheduler.app.daemon import Daemon
from kscheduler.app.startup import setup
from kscheduler.cli.command_line import parse
from kscheduler.sandbox import ApiServer, User
from tests.kit.polling import until
from tests.kit.ports import free_port
from tests.parity.metrics_lint import lint

RECORDING = Path(__file__).parent / "cases" / "metrics.json"
SCHEDULER = User("system:kube-scheduler").authenticated()
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.2
HELP, TYPE = "# HELP ", "# TYPE "
SAMPLE = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
# What only gates bring about that change nothing here: calls are always sent beside the loop, and
# events always ask as few pods as can be.
OTHERWISE = {
    "scheduler_async_api_call_execution_duration_seconds",
    "scheduler_async_api_call_execution_total",
    "scheduler_pending_async_api_calls",
    "scheduler_pre_queueing_hint_evaluations_total",
}


@dataclass
class Family:
    """One family as a page shows it."""

    type: str = ""
    help: str = ""
    series: list[tuple[dict[str, str], float]] = field(default_factory=list)
    buckets: list[str] = field(default_factory=list)

    @property
    def labels(self) -> set[str]:
        return {name for labels, _ in self.series for name in labels}


def read(text: str) -> dict[str, Family]:
    families: dict[str, Family] = {}
    current, kind = "", ""
    for line in text.splitlines():
        if line.startswith(HELP):
            current, _, told = line.removeprefix(HELP).partition(" ")
            families[current] = Family(help=told)
        elif line.startswith(TYPE):
            kind = line.rpartition(" ")[2]
            families[current].type = kind
        else:
            _add_sample(families[current], line)
    return families


def _add_sample(family: Family, line: str) -> None:
    match = SAMPLE.fullmatch(line)
    assert match, line
    labels = dict(LABEL.findall(match[2] or ""))
    bound = labels.pop("le", None)
    if bound is None:
        family.series.append((labels, float(match[3])))
    elif bound not in family.buckets:
        family.buckets.append(bound)


def differences(recorded: list[dict[str, Any]], seen: Mapping[str, Family]) -> Iterator[str]:
    for want in recorded:
        name = want["name"]
        if name in OTHERWISE:
            continue
        family = seen.get(name)
        if family is None:
            yield f"{name}: missing"
            continue
        yield from _differ(f"{name}: type", want["type"], family.type)
        yield from _differ(f"{name}: labels", sorted(want["labels"]), sorted(family.labels))
        yield from _differ(f"{name}: buckets", want.get("buckets", []), family.buckets)
        stability = want["stability"]
        if stability and not family.help.startswith(f"[{stability}] "):
            yield f"{name}: is not {stability}: {family.help}"


def values_at_start(recorded: Mapping[str, Any], seen: Mapping[str, Family]) -> Iterator[str]:
    """Series that are there before the first pod, with their values."""
    for name, series in recorded.items():
        shown = seen.get(name, Family()).series
        for labels, value in series:
            if "binary" not in labels and (labels, value) not in shown:
                yield f"{name}{labels}: want {value} at the start"


def _differ(what: str, want: object, got: object) -> Iterator[str]:
    if want != got:
        yield f"{what}: want {want}, got {got}"


@asynccontextmanager
async def running(api: ApiServer, folder: Path, *flags: str) -> AsyncIterator[Daemon]:
    """The daemon, leading."""
    kubeconfig = folder / "kubeconfig"
    api.write_kubeconfig(kubeconfig, SCHEDULER)
    where = [
        f"--{name}kubeconfig={kubeconfig}" for name in ("", "authentication-", "authorization-")
    ]
    options, _ = parse([*where, "--bind-address=127.0.0.1", f"--secure-port={free_port()}", *flags])
    async with setup(options, options.gates()) as daemon:
        task = asyncio.create_task(daemon.run())
        try:
            leads = daemon.cc.metrics.leader_election_master_status.labels("kube-scheduler")
            await until(lambda: leads.value == 1 or task.done(), "the daemon leads")
            yield daemon
        finally:
            daemon.stopping.set()
            await task


async def scrape(daemon: Daemon, token: str) -> str:
    """The page, after another request: a page does not tell of the one that asked for it."""
    url = f"https://127.0.0.1:{daemon.cc.options.secure_port}"
    connector = aiohttp.TCPConnector(ssl=_trusting())
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        for path in ("/configz", "/metrics"):
            async with session.get(url + path) as answer:
                text = await answer.text()
                assert answer.status == 200, text
    return text


def _trusting() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def play(api: ApiServer, objects: list[dict[str, Any]]) -> None:
    """The recorded workload, and what was done to it: labels, taints and gates change, pods go."""
    for item in objects:
        if item["metadata"]["name"] == "high":
            await until(lambda: {"low", "low2"} <= _bound(api), "pods are bound")
        api.objects.create(item)
    await until(lambda: not {"low", "low2"} <= _bound(api), "a pod is preempted")
    api.objects.update("nodes", "n2", lambda node: node["metadata"]["labels"].update(disk="ssd"))
    api.objects.update("nodes", "n3", lambda node: node["spec"].pop("taints"))
    api.objects.update("pods", "gated", lambda pod: pod["spec"].pop("schedulingGates"))
    api.objects.delete("pods", "goes")
    await until(lambda: {"selector", "gated"} <= _bound(api), "changes wake pods")


def _bound(api: ApiServer) -> set[str]:
    pods = api.objects.list("pods")
    return {pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")}


async def compare(recording: dict[str, Any]) -> tuple[list[str], str]:
    """All differences, and the page they were found on."""
    families, flags = recording["families"], ["--show-hidden-metrics-for-version=1.36"]
    gated = recording["additional_families_with_gates"]["families"]
    with tempfile.TemporaryDirectory() as folder:
        async with (
            ApiServer(tls=True, disable_admission=["Priority"]) as api,
            running(api, Path(folder), *flags) as daemon,
        ):
            at_start = [family for family in families if family["present_at_start"]]
            first = read(await scrape(daemon, api.token))
            found = [f"at the start, {one}" for one in differences(at_start, first)]
            found += values_at_start(recording["values_at_start"], first)
            await play(api, recording["objects"])
            late, page = await settled(daemon, api.token, [*families, *gated])
    return found + late, page


async def settled(
    daemon: Daemon, token: str, families: list[dict[str, Any]]
) -> tuple[list[str], str]:
    """What still differs when all should be told, and where.

    A page that was printed a moment ago is shown again, and what a bound pod took is told when the
    answer to its binding has come.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while found := list(differences(families, read(page := await scrape(daemon, token)))):
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(POLL_SECONDS)
    return found, page


def main() -> int:
    recording = json.loads(RECORDING.read_text())
    logs.configure(logs.Logging(), stderr=io.BytesIO())
    found, page = asyncio.run(compare(recording))
    total = len(recording["families"]) + len(
        recording["additional_families_with_gates"]["families"]
    )
    for difference in found:
        print(difference)
    for problem in lint(page):
        print(f"lint: {problem}")
    names = {one.partition(":")[0].removeprefix("at the start, ") for one in found}
    print(f"{total - len(names)}/{total} families")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
