"""A cluster with all its controllers and two nodes, and a scheduler that takes the first node."""

import asyncio
from contextlib import suppress

import pytest

from kscheduler.sandbox import ControllerManager, Kubelets, StatusError
from tests.sandbox.controllers.workloads import Cluster


@pytest.fixture
async def cluster(server):
    """Pods without a node affinity go to the node with the fewest, others where they are for."""
    kubelets = Kubelets(server.registry, start_seconds=0.001, stop_seconds=0.001, run_seconds=0.01)
    manager = ControllerManager(
        server.registry, node_grace_seconds=1000, node_gone_seconds=0.01, job_backoff_seconds=0.01
    )
    kubelets.add_nodes(2)
    running = Cluster(server, kubelets, manager)

    async def schedule():
        while True:
            for pod in server.objects.list("pods", field_selector="spec.nodeName="):
                if node := running.node_for(pod):
                    with suppress(StatusError):
                        about = pod["metadata"]
                        server.objects.bind(about["name"], node, about["namespace"])
            await asyncio.sleep(0.002)

    tasks = [asyncio.create_task(work) for work in (kubelets.run(), manager.run(), schedule())]
    yield running
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    assert all(task.cancelled() for task in tasks)
