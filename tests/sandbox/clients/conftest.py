"""kubectl as the admin of a sandbox."""

import asyncio

import pytest

from kscheduler.sandbox import Kubelets
from tests.sandbox.clients.kubectl import Kubectl


@pytest.fixture
async def kubectl(server, tmp_path):
    config = tmp_path / "config"
    server.write_kubeconfig(config)
    return Kubectl(tmp_path, config)


@pytest.fixture
async def nodes(server):
    played = Kubelets(server.registry, start_seconds=0.01, stop_seconds=0.01)
    task = asyncio.create_task(played.run())
    yield played.add_nodes(2)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
