"""An informer that follows the scripted server's pods, and a handler that writes it all down."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from kscheduler.api.core import Pod
from kscheduler.api.resources import PODS
from kscheduler.client.informers.decoding import shape_of
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.listing import ListWatch
from kscheduler.client.informers.pace import Gate, Pace
from kscheduler.client.informers.reflector import Reflector
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.throttle import Backoff

SHAPE = shape_of(Pod, "*v1.Pod")


class Story:
    """Every call a handler gets, as (what, name, version)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []

    def on_add(self, item: Pod, *, is_initial: bool) -> None:
        self._tell("initial" if is_initial else "add", item)

    def on_update(self, old: Pod, new: Pod) -> None:
        assert old.key == new.key
        self._tell("update", new)

    def on_delete(self, item: Pod, *, final_state_unknown: bool) -> None:
        self._tell("lost" if final_state_unknown else "delete", item)

    def _tell(self, what: str, item: Pod) -> None:
        self.calls.append((what, item.name, item.metadata.resource_version))


class Followed:
    def __init__(self, informer: Informer[Pod], story: Story) -> None:
        self.informer = informer
        self.story = story

    @property
    def state(self) -> dict[str, str]:
        return {pod.name: pod.metadata.resource_version for pod in self.informer.items()}


@asynccontextmanager
async def following(
    client: KubeClient, *, idle_seconds: float = 30.0, gate: Gate | None = None, selector: str = ""
) -> AsyncIterator[Followed]:
    pace = Pace(gate or Gate())
    informer: Informer[Pod] = Informer(SHAPE, pace)
    story = Story()
    informer.add_handler(story)
    reflector = Reflector(
        client,
        ListWatch(PODS, SHAPE, field_selector=selector),
        informer,
        pace,
        backoff=Backoff(first_seconds=0.001, cap_seconds=0.01),
        idle_seconds=idle_seconds,
    )
    task = asyncio.create_task(reflector.run())
    try:
        yield Followed(informer, story)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
