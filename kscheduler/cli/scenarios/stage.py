"""The stage of a scenario: the sandbox's API, somebody who is told the story, and a pace.

A scenario never waits for ever: whoever plays along at the keyboard, or by kubectl, may have made
impossible what it waits for. It goes on then.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from kscheduler.api.core import Pod
from kscheduler.api.decode import convert
from kscheduler.api.quantity import milli_value
from kscheduler.api.requests import in_units, pod_requests
from kscheduler.api.resource_names import CPU
from kscheduler.cli.scenarios import moves
from kscheduler.cli.scenarios.workload import Manifest, burst_deployment, with_scheduler
from kscheduler.sandbox import Objects

# How long a sentence is left to be read, and how long something is waited for at most.
READING_SECONDS = 5.0
PATIENCE_SECONDS = 60.0
# Between two looks at the cluster while something is waited for.
LOOK_SECONDS = 0.2
Json = dict[str, Any]
Tell = Callable[[str, str], None]


class Stage:
    """The cluster that a scenario plays on."""

    def __init__(
        self,
        objects: Objects,
        tell: Tell,
        *,
        scheduler_name: str = "",
        seed: int | None = None,
        reading_seconds: float = READING_SECONDS,
        patience_seconds: float = PATIENCE_SECONDS,
        on_board: bool = False,
    ) -> None:
        """`tell` is called with a title and a sentence. Without `reading_seconds` the story is
        played as fast as the cluster can. `on_board` has hints told that only a board makes sense
        of.
        """
        self.objects = objects
        self.rng = random.Random(seed)
        self.title = ""
        self._tell = tell
        self._on_board = on_board
        self._scheduler_name = scheduler_name
        self._reading_seconds = reading_seconds
        self._patience_seconds = patience_seconds
        self._going = asyncio.Event()
        self._going.set()

    @property
    def is_paused(self) -> bool:
        return not self._going.is_set()

    def toggle_pause(self) -> bool:
        """Hold the scenario before its next step, or let it go on; says whether it is held."""
        if self.is_paused:
            self._going.set()
        else:
            self._going.clear()
        return self.is_paused

    def say(self, text: str, hint: str = "") -> None:
        """A sentence; and a `hint` for somebody who has the board before them."""
        self._tell(self.title, f"{text} {hint}" if hint and self._on_board else text)

    async def tell(self, text: str, readings: float = 1.0, *, hint: str = "") -> None:
        """A sentence, with time to read it and to look."""
        self.say(text, hint)
        await self.rest(readings)

    async def rest(self, readings: float = 1.0) -> None:
        await asyncio.sleep(readings * self._reading_seconds)
        await self._going.wait()

    async def until(self, condition: Callable[[], bool]) -> bool:
        """Wait for something; says whether it came in time."""
        deadline = time.monotonic() + self._patience_seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        await self._going.wait()
        return True

    # Things that scenarios do and ask.

    def create(self, manifest: Manifest) -> None:
        self.objects.create(with_scheduler(manifest, self._scheduler_name))

    def change_burst(self, by: int) -> int:
        """More or fewer pods of the burst; returns how many it has now."""
        manifest = with_scheduler(burst_deployment(), self._scheduler_name)
        return moves.scale_by(self.objects, manifest, by)

    def count(self, app: str, *, running: bool = False) -> int:
        """Pods of an app, or those of them that run."""
        fields = "status.phase=Running" if running else ""
        return self.objects.count("pods", label_selector=f"app={app}", field_selector=fields)

    def waiting(self, app: str) -> int:
        """Pods of an app that have no node."""
        return self.objects.count(
            "pods", label_selector=f"app={app}", field_selector="spec.nodeName="
        )

    def is_refused(self, pod: str) -> bool:
        """Whether the scheduler has tried a pod, and found no node for it."""
        found = self.objects.find("pods", pod) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

    async def all_run(self, app: str, count: int) -> bool:
        return await self.until(lambda: self.count(app) == count == self.count(app, running=True))

    def usable_nodes(self) -> list[str]:
        """Names of nodes that new pods may go to."""
        return [
            node["metadata"]["name"]
            for node in self.objects.list("nodes")
            if not node["spec"].get("unschedulable") and not node["spec"].get("taints")
        ]

    def some_nodes(self, most: int) -> list[str]:
        """A few of those, chosen by chance."""
        usable = self.usable_nodes()
        return sorted(self.rng.sample(usable, min(most, len(usable))))

    def free_milli_cpu(self, nodes: Sequence[str]) -> dict[str, int]:
        """CPU that pods on these nodes have not asked for, in thousandths."""
        free = {}
        for name in nodes:
            node = self.objects.get("nodes", name)
            there = milli_value((node["status"].get("allocatable") or {}).get(CPU, "0"))
            pods = self.objects.list("pods", field_selector=f"spec.nodeName={name}")
            asked = sum(in_units(pod_requests(convert(pod, Pod))).get(CPU, 0) for pod in pods)
            free[name] = max(0, there - asked)
        return free
