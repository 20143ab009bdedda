"""Manifests a user would write get their pods placed in the sandbox as in a real cluster.

`expected.json` is what kube-scheduler does on a real API server with real controllers; `make
manifests` compares all of them and writes it.
"""

import asyncio
import contextlib

import pytest
import yaml

from kscheduler.cli.sandbox_content import Content
from kscheduler.sandbox import ApiServer, ControllerManager, Kubelets
from tests.bench.contestants import OURS, THEIRS
from tests.controlplane.fixtures import have_programs_or_skip
from tests.integration.cluster import Cluster
from tests.kit.polling import until
from tests.sandbox.manifests.clusters import NOT_READY, scheduler
from tests.sandbox.manifests.state import (
    CLUSTER,
    MANIFESTS,
    PATHS,
    State,
    expected,
    groups_of,
    read_manifest,
)

NODES = list(yaml.safe_load_all(CLUSTER.read_text()))
GROUPS = groups_of(NODES)
EXPECTED = {name: counts for name, counts in expected().items() if counts is not None}
KNOWN = [one for one in MANIFESTS if one.stem in EXPECTED]


def placements(api):
    """Pods per node group; None while something moves."""
    groups = {kind: path.partition("apis/")[2].partition("/")[0] for kind, path in PATHS.items()}
    found = {
        kind: api.objects.list(f"{kind}.{group}" if group else kind)
        for kind, group in groups.items()
    }
    state = State(**found)
    return None if state.unfinished() else state.counts(GROUPS)


def all_ready(api):
    """Whether no node has the taint any more that admission gives to those that are new."""
    nodes = api.objects.list("nodes")
    return not any(
        taint["key"] == NOT_READY for node in nodes for taint in node["spec"].get("taints", ())
    )


async def placed(manifest, folder, who):
    """Pods per node group as expected, or else as they are when patience ends."""
    async with ApiServer() as api:
        kubelets = Kubelets(api.registry, start_seconds=0.001, stop_seconds=0.001)
        controllers = ControllerManager(api.registry)
        steps = read_manifest(manifest)
        await Content(NODES).create_nodes(api)
        cluster = Cluster(api, folder)
        kubeconfig = cluster.kubeconfig()
        started = cluster.scheduler() if who == OURS else scheduler(who, kubeconfig, folder)
        async with asyncio.TaskGroup() as tasks, started:
            work = [tasks.create_task(one.run()) for one in (kubelets, controllers)]
            # Until then a pod may be found unschedulable, and the next step be applied too soon.
            await until(lambda: all_ready(api), "all nodes are ready")
            for step in steps:
                content = Content(step)
                await content.create_nodes(api)  # and whatever else has no namespace
                await content.create(api)
                await until(lambda: placements(api), "nothing moves any more")
            with contextlib.suppress(AssertionError):
                await until(lambda: placements(api) == EXPECTED[manifest.stem])
            for task in work:
                task.cancel()
        return placements(api)


@pytest.mark.parametrize("manifest", KNOWN, ids=lambda one: one.stem)
async def test_pods_get_the_node_groups_that_they_get_in_a_real_cluster(manifest, tmp_path):
    assert await placed(manifest, tmp_path, OURS) == EXPECTED[manifest.stem]


@pytest.mark.slow
@pytest.mark.parametrize("manifest", KNOWN, ids=lambda one: one.stem)
async def test_so_do_they_with_kube_scheduler(manifest, tmp_path):
    have_programs_or_skip()
    assert await placed(manifest, tmp_path, THEIRS) == EXPECTED[manifest.stem]


def test_there_are_twenty_and_all_are_known():
    assert [one.stem for one in MANIFESTS] == list(expected())
    assert len(MANIFESTS) == 20
