"""Binding is one write, and a failed one is an error of the attempt."""

from types import SimpleNamespace

import pytest

from kscheduler.errors import KschedulerError
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status
from kscheduler.plugins.default_binder import DefaultBinder
from tests.plugins.topologies import make_handle, make_pod


class Client:
    def __init__(self, problem=None):
        self.bound = []
        self._problem = problem

    async def bind(self, pod, node):
        if self._problem is not None:
            raise self._problem
        self.bound.append((pod.key, node))


def make_plugin(client):
    handle = make_handle()
    handle.client = client
    return DefaultBinder(None, handle)


async def test_the_pod_is_bound_to_its_node():
    client = Client()
    assert await make_plugin(client).bind(CycleState(), make_pod("p"), "n1") is None
    assert client.bound == [("default/p", "n1")]


async def test_what_the_server_refuses_is_an_error():
    plugin = make_plugin(Client(KschedulerError("pods is forbidden")))
    status = await plugin.bind(CycleState(), make_pod(), "n1")
    assert status == Status(Code.ERROR, ("pods is forbidden",))


async def test_what_is_wrong_with_us_is_not_swallowed():
    broken = SimpleNamespace(bind=None)
    with pytest.raises(TypeError):
        await make_plugin(broken).bind(CycleState(), make_pod(), "n1")
