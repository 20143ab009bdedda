"""The same manifests on four clusters: pods per node group, beside each other.

\b
    make manifests                                        all, on all four: half an hour
    make manifests ARGS="--case sandbox/kscheduler"       one of the four
    make manifests ARGS="--only 07 --only 20"             some of the manifests

Each manifest is applied by kubectl, watched until nothing moves any more, counted and deleted. The
clusters are the sandbox, and etcd, kube-apiserver, kube-controller-manager and nodes that kwok
plays; each with either scheduler. The run ends with code 1 if pods per node group differ from those
of kube-scheduler on the real API server, where two runs of that give the same.

Placements go to a file of results. When all are known, the table in docs/sandbox.md is written, and
what `make test` expects.
"""

import asyncio
import json
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import click
import yaml

from tests.conformance.programs import CLUSTER_PROGRAMS, build_all
from tests.controlplane.binaries import program
from tests.controlplane.plane import ControlPlaneError
from tests.e2e.api import Api, until
from tests.kit.pages import replaced
from tests.sandbox.manifests.clusters import (
    REAL,
    SANDBOX,
    Kubeconfigs,
    real_cluster,
    sandbox_cluster,
    scheduler,
)
from tests.sandbox.manifests.results import CASES, Case, Results, section
from tests.sandbox.manifests.state import (
    CLUSTER,
    EXPECTED,
    MANIFESTS,
    PATHS,
    Counts,
    Json,
    State,
    groups_of,
    read_manifest,
)

PAGE = Path(__file__).parents[3] / "docs" / "sandbox.md"
MARK = "manifests"
# Nothing has moved for so long; longer where pods wait, since what wakes them backs off first.
QUIET_SECONDS, QUIET_SECONDS_WAITING = 2.0, 12.0
SETTLE_SECONDS = 240.0
POLL_SECONDS = 0.25


class Place:
    """A cluster with a scheduler, to which manifests are applied one after the other."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._api = Api(kubeconfig)
        self._groups = groups_of(list(yaml.safe_load_all(CLUSTER.read_text())))

    async def close(self) -> None:
        await self._api.close()

    async def counts(self, manifest: Path) -> Counts:
        """Pods per node group, once nothing moves; the manifest is gone afterwards."""
        namespace = manifest.stem
        steps = read_manifest(manifest)
        await self._api.create("namespaces", {"metadata": {"name": namespace}})
        try:
            await until(
                lambda: self._api.find("serviceaccounts", "default", namespace),
                f"namespace {namespace} has a service account",
            )
            for step in steps:
                apply = ("apply", "--namespace", namespace, "--filename=-")
                await self._kubectl(*apply, given=_listed(step))
                state = await self._settled(namespace)
            return state.counts(self._groups)
        finally:
            await self._kubectl("delete", "namespace", namespace)
            # What is left has no namespace; volumes go when no claim has them any more.
            given = _listed([one for step in steps for one in step])
            await self._kubectl("delete", "--filename=-", "--ignore-not-found", given=given)
            await until(self._no_volumes, "volumes are gone")

    async def _settled(self, namespace: str) -> State:
        state = await self._state(namespace)
        since = time.monotonic()
        deadline = since + SETTLE_SECONDS
        while True:
            await asyncio.sleep(POLL_SECONDS)
            now = await self._state(namespace)
            unfinished = now.unfinished()
            if unfinished or now.fingerprint() != state.fingerprint():
                since = time.monotonic()
            state = now
            quiet = QUIET_SECONDS_WAITING if state.has_waiting else QUIET_SECONDS
            if time.monotonic() - since > quiet:
                return state
            if time.monotonic() > deadline:
                raise click.ClickException(f"{namespace} does not settle: {unfinished}")

    async def _state(self, namespace: str) -> State:
        found = {}
        for kind, where in PATHS.items():
            answer = await self._api.send("GET", f"{where}/namespaces/{namespace}/{kind}")
            found[kind] = answer["items"]
        return State(**found)

    async def _no_volumes(self) -> bool:
        return not await self._api.list("persistentvolumes")

    async def _kubectl(self, *arguments: str, given: str = "") -> None:
        command = [program("kubectl"), f"--kubeconfig={self._kubeconfig}", *arguments]
        done = await asyncio.to_thread(
            subprocess.run, command, input=given, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise click.ClickException(f"kubectl {' '.join(arguments)}: {done.stderr}")


def _listed(objects: list[Json]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@asynccontextmanager
async def started(server: str, folder: Path) -> AsyncIterator[Kubeconfigs]:
    if server == SANDBOX:
        async with sandbox_cluster(folder) as kubeconfigs:
            yield kubeconfigs
    else:
        async with real_cluster(folder, build_all(CLUSTER_PROGRAMS)) as kubeconfigs:
            yield kubeconfigs


async def compare(cases: Sequence[Case], manifests: Sequence[Path], results: Results) -> None:
    """Places the manifests in all cases; those of one server on one cluster."""
    began = time.monotonic()
    for server in (SANDBOX, REAL):
        mine = [case for case in cases if case.server == server]
        if not mine:
            continue
        with tempfile.TemporaryDirectory(prefix="manifests-") as name:
            folder = Path(name)
            async with started(server, folder) as kubeconfigs:
                for case in mine:
                    place = Place(kubeconfigs.admin)
                    try:
                        async with scheduler(case.who, kubeconfigs.scheduler, folder):
                            for manifest in manifests:
                                counts = await place.counts(manifest)
                                results.add(case, manifest.stem, counts)
                                told = f"{time.monotonic() - began:5.0f} s  {case}: {manifest.stem}"
                                click.echo(f"{told}: {json.dumps(counts)}", err=True)
                    finally:
                        await place.close()


@click.command(help=__doc__)
@click.option(
    "--case",
    "chosen",
    multiple=True,
    type=click.Choice([str(case) for case in CASES]),
    help="May be repeated. [all]",
)
@click.option("--only", multiple=True, metavar="NUMBER", help="May be repeated. [all manifests]")
@click.option(
    "--results",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("build", "manifests.jsonl"),
    show_default=True,
    help="What is known of earlier runs, and what becomes known.",
)
def main(chosen: tuple[str, ...], only: tuple[str, ...], path: Path) -> None:
    cases = [case for case in CASES if not chosen or str(case) in chosen]
    manifests = [one for one in MANIFESTS if not only or one.name.startswith(only)]
    results = Results(path)
    # Whoever is ended ends what it has started.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asyncio.run(compare(cases, manifests, results))
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from error
    names = [one.stem for one in MANIFESTS]
    if results.complete(names):
        EXPECTED.write_text(json.dumps(results.expected(names), indent=1) + "\n")
        PAGE.write_text(replaced(PAGE.read_text(), MARK, section(results, MANIFESTS)))
    if different := results.differences(names):
        raise click.ClickException("\n".join(("different pods per node group:", *different)))


if __name__ == "__main__":
    main()
