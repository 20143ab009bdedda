"""Pods that left their node before they ran: which of them a kubelet refused, and who is told."""

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from kscheduler.client.errors import Forbidden, NotFound
from kscheduler.cycle import refused_pods
from kscheduler.cycle.refused_pods import RefusedPods
from kscheduler.metrics import Metrics
from tests.kit.objects import make_pod
from tests.kit.polling import until

WEB = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web"}
MESSAGE = "Pod was rejected: Node didn't have enough resource: cpu"


class World:
    """Pods as the API server has them in `stored`, by name; `told` is what was recorded."""

    def __init__(self, **settings):
        self.stored = {}
        self.asked = []
        self.told = []
        self.now = 1000.0
        self.metrics = Metrics()
        recorder = self
        self.refused = RefusedPods(
            self, lambda profile: recorder, self.metrics, clock=lambda: self.now, **settings
        )

    async def get(self, resource, name, namespace=""):
        self.asked.append(name)
        stored = self.stored.get(name, NotFound(f'pods "{name}" not found'))
        if isinstance(stored, Exception):
            raise stored
        return json.dumps(stored).encode()

    def record(self, regarding, *, type, reason, action, note):
        self.told.append((regarding.kind, regarding.name, regarding.uid, type, reason, note))

    def ended(self, name, reason, *, phase="Failed", message=MESSAGE, uid=None, **fields):
        """A pod that is on its node no more; the server has it in this state."""
        pod = make_pod(name, node="n1", **fields)
        self.stored[name] = {
            "metadata": {"name": name, "namespace": "default", "uid": uid or pod.uid},
            "status": {"phase": phase, "reason": reason, "message": message},
        }
        self.refused.vanished(pod)

    @property
    def counts(self):
        series = self.metrics.kscheduler_refused_pods_total._series
        return {labels[0]: counter.value for labels, counter in series.items()}

    @asynccontextmanager
    async def running(self):
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.refused.run())
            await asyncio.sleep(0)
            yield task
            task.cancel()


@pytest.mark.parametrize(
    ("reason", "message", "want"),
    [
        pytest.param("OutOfcpu", MESSAGE, "OutOfcpu", id="no cpu"),
        pytest.param("OutOfpods", MESSAGE, "OutOfpods", id="no place"),
        pytest.param("OutOfexample.com/gpu", MESSAGE, "OutOfExtendedResources", id="no device"),
        pytest.param("NodeAffinity", MESSAGE, "NodeAffinity", id="labels changed"),
        pytest.param("MadeUpByAPlugin", MESSAGE, "Other", id="a reason that nobody knows"),
    ],
)
async def test_refusals_are_counted_by_their_cause(reason, message, want):
    world = World()
    async with world.running():
        world.ended("p", reason, message=message)
        await until(lambda: world.counts)
    assert world.counts == {want: 1}


async def test_the_owner_is_told_or_else_the_pod():
    world = World()
    async with world.running():
        world.ended("a", "OutOfcpu", owner=WEB)
        world.ended("b", "OutOfcpu")
        await until(lambda: len(world.told) == 2)
    note = "Node n1 refused pod default/{}: OutOfcpu: Node didn't have enough resource: cpu"
    assert world.told == [
        ("ReplicaSet", "web", "uid-web", "Warning", "PodRefused", note.format("a")),
        ("Pod", "b", "uid-b", "Warning", "PodRefused", note.format("b")),
    ]


@pytest.mark.parametrize(
    ("status", "owner", "want"),
    [
        pytest.param({"reason": "", "phase": "Succeeded"}, None, {}, id="it was quick"),
        pytest.param({"reason": "", "message": ""}, None, {}, id="its container failed"),
        pytest.param({"reason": "x", "uid": "other"}, None, {}, id="another pod of its name"),
        pytest.param(
            {"reason": "x", "uid": "other"}, WEB, {"Unknown": 1}, id="its controller was faster"
        ),
    ],
)
async def test_other_ends_are_no_refusals(status, owner, want):
    world = World(look_seconds=0.0)
    async with world.running():
        world.ended("p", **status, owner=owner)
        world.ended("q", "OutOfcpu")
        await until(lambda: world.told)
    assert world.counts == {**want, "OutOfcpu": 1}
    assert len(world.told) == 1


async def test_deleted_pods_are_looked_at_one_at_a_time_until_one_was_refused():
    world = World(look_seconds=3600.0)
    async with world.running():
        for name in ("a", "b", "c"):
            world.refused.vanished(make_pod(name, node="n1"))
        await until(lambda: world.asked)
        for _ in range(10):
            await asyncio.sleep(0)
        assert world.asked == ["a"]


async def test_after_a_refusal_all_are_looked_at_for_a_while():
    world = World(look_seconds=3600.0)
    async with world.running():
        world.ended("a", "OutOfcpu")
        for name in ("b", "c"):
            world.refused.vanished(make_pod(name, node="n1"))
        await until(lambda: world.asked == ["a", "b", "c"])
        world.now += refused_pods.ALERT_SECONDS + 1
        for name in ("d", "e"):
            world.refused.vanished(make_pod(name, node="n1"))
        await until(lambda: world.asked == ["a", "b", "c", "d"])
        for _ in range(10):
            await asyncio.sleep(0)
        assert world.asked == ["a", "b", "c", "d"]


async def test_no_more_than_so_many_wait(monkeypatch):
    monkeypatch.setattr(refused_pods, "MAX_WAITING", 2)
    world = World(look_seconds=0.0)
    async with world.running():
        for name in ("a", "b", "c"):
            world.refused.vanished(make_pod(name, node="n1"))
        await until(lambda: "c" in world.asked)
    assert world.asked == ["b", "c"]


async def test_a_standby_keeps_nothing():
    world = World()
    world.refused.vanished(make_pod("p", node="n1"))
    assert not world.refused._gone


async def test_without_the_right_to_read_pods_nobody_is_asked_again():
    world = World()
    world.stored["p"] = Forbidden("pods is forbidden")
    async with world.running() as task:
        world.refused.vanished(make_pod("p", node="n1"))
        await until(task.done)
        world.refused.vanished(make_pod("q", node="n1"))
    assert world.asked == ["p"]
    assert not world.refused._gone
