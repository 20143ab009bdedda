"""The view of a sandbox: a live picture on a terminal, plain lines elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kscheduler.api.core import Pod
from kscheduler.api.resource import ResourceClaim, ResourceSlice
from kscheduler.app.scheduler import Scheduler
from kscheduler.state.nodes_view import Nodes

REFRESHES_PER_SECOND = 4
RECENT = 10
REASONS_SHOWN = 6
# How long nothing may move before the backlog counts as dealt with, and how often that is checked
# meanwhile: time in which the process stood still counts as one check, whatever its length.
QUIET_SECONDS = 0.5
QUIET_CHECKS = 5
BAR_WIDTH = 12
# Beyond this many nodes, sorting their names costs more than it helps.
SORTED_NODES = 2000
# Beyond this many slices and claims, looking at all of them for each picture costs too much.
COUNTED_OBJECTS = 2000

console = Console(highlight=False, markup=False)


def introduce(url: str, kubeconfig: Path, *, server_only: bool) -> None:
    """Prints the addresses of the sandbox."""
    lines = {
        "API server": url,
        "kubectl": f"kubectl --kubeconfig {kubeconfig} get pods -A -o wide",
    }
    if server_only:
        lines["scheduler"] = f"kscheduler --kubeconfig {kubeconfig} --leader-elect=false"
    for name, text in lines.items():
        console.print(Text(f"{name + ':':<12}").append(text, style="bold"), soft_wrap=True)
    console.print("Ctrl-C ends it; nothing is kept.\n")


@dataclass(slots=True)
class NodeDevices:
    """The devices of one node; partitions of a device count as devices."""

    total: int = 0
    allocated: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{len(self.allocated)}/{self.total} {' '.join(sorted(self.allocated))}".rstrip()


class View:
    """Pods as the scheduler knows them: a handler of its own pod informer."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._recent: deque[tuple[str, str]] = deque(maxlen=RECENT)
        self._moved = True
        self._lines = not console.is_terminal
        scheduler.informers.pods.add_handler(self)

    def on_add(self, item: Pod, *, is_initial: bool) -> None:
        self._moved = True

    def on_update(self, old: Pod, new: Pod) -> None:
        self._moved = True
        if new.spec.node_name and not old.spec.node_name:
            self._recent.append((new.key, new.spec.node_name))
            if self._lines:
                console.print(f"{new.key} -> {new.spec.node_name}", soft_wrap=True)
        elif self._lines and _refusal(new) != _refusal(old) and _refusal(new):
            console.print(f"{new.key} waits: {_refusal(new)}", soft_wrap=True)

    def on_delete(self, item: Pod, *, final_state_unknown: bool) -> None:
        self._moved = True

    @contextlib.asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """The live picture while the block runs; on anything but a terminal, lines as they come."""
        if self._lines:
            yield
            return
        # Not refreshed by rich's own thread: the picture reads state that only the loop may touch.
        live = Live(
            get_renderable=self._picture,
            console=console,
            auto_refresh=False,
            vertical_overflow="crop",
        )
        async with asyncio.TaskGroup() as tasks:

            async def refresh() -> None:
                while True:
                    await asyncio.sleep(1 / REFRESHES_PER_SECOND)
                    live.refresh()

            with live:
                refreshing = tasks.create_task(refresh(), name="picture")
                try:
                    yield
                finally:
                    refreshing.cancel()

    async def settled(self, stop: asyncio.Event) -> None:
        """Return when nothing moves and no pod is about to be tried, or when `stop` is set."""
        cache, queue = self._scheduler.cache, self._scheduler.queue
        quiet_checks = 0
        while not stop.is_set():
            quiet_checks = 0 if self._moved else quiet_checks + 1
            self._moved = False
            if quiet_checks > QUIET_CHECKS and self._scheduler.in_sync:
                pending = queue.pending()
                # Without any node, pods are tried again and again for ever.
                retried = pending.backoff if cache.node_count else ()
                under_way = len(queue.in_flight) or cache.assumed_pod_count
                if not (pending.active or retried or under_way):
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS / QUIET_CHECKS):
                    await stop.wait()

    def conclude(self, *, once: bool) -> int:
        """Print how it ended; with `once`, 1 if a pod is left without a node."""
        placed = sum(1 for pod in self._pods() if pod.spec.node_name)
        waiting = [pod for pod in self._pods() if not pod.spec.node_name]
        console.print(f"{placed} pods placed, {len(waiting)} waiting")
        if devices := self.devices_by_node().values():
            allocated = sum(len(one.allocated) for one in devices)
            total = sum(one.total for one in devices)
            console.print(f"{allocated} of {total} devices allocated")
        for pod in waiting if once else ():
            console.print(f"  {pod.key}: {self._reason(pod)}", soft_wrap=True)
        return 1 if once and waiting else 0

    def _pods(self) -> Iterator[Pod]:
        return iter(list(self._scheduler.informers.pods.items()))

    def _reason(self, pod: Pod) -> str:
        if pod.spec.scheduler_name not in self._scheduler.frameworks:
            return f"nobody answers to schedulerName {pod.spec.scheduler_name}"
        return _refusal(pod) or "not tried yet"

    def _picture(self) -> Group:
        """Nodes, queue, latest placements and waiting pods, from top to bottom."""
        recent = [f"{pod} → {node}" for pod, node in reversed(self._recent)]
        waiting = [pod for pod in self._pods() if not pod.spec.node_name]
        reasons = [f"{pod.key}: {self._reason(pod)}" for pod in waiting[:REASONS_SHOWN]]
        if len(waiting) > REASONS_SHOWN:
            reasons.append(f"… {len(waiting) - REASONS_SHOWN} more")
        reasons_text = Text("\n".join(reasons) or "nobody", overflow="ellipsis", no_wrap=True)
        return Group(
            self._nodes_table(max(3, console.height - RECENT - REASONS_SHOWN - 10)),
            self._queue_line(),
            Panel(
                Text("\n".join(recent) or "none yet"), title="latest placements", height=RECENT + 2
            ),
            Panel(reasons_text, title="waiting", height=REASONS_SHOWN + 3),
        )

    def _nodes_table(self, most: int) -> Table:
        nodes = self._scheduler.cache.snapshot()
        rows = _by_name(nodes)[:most]
        devices = self.devices_by_node()
        table = Table(box=None, pad_edge=False, expand=False)
        for column in ("NODE", "ZONE", "PODS", "CPU", "MEMORY", *(("DEVICES",) if devices else ())):
            justify: JustifyMethod = "right" if column == "PODS" else "left"
            table.add_column(column, justify=justify, no_wrap=True)
        # Columns 0 and 1 are CPU and memory: [nodes, 2], a part of 1 each.
        shares = nodes.requested[:, :2] / np.maximum(nodes.allocatable[:, :2], 1)
        for row in rows:
            zone = nodes.node(row).metadata.labels.get("topology.kubernetes.io/zone", "")
            bars = [_bar(float(share)) for share in shares[row]]
            if (there := devices.get(nodes.name_of(row))) is not None:
                bars.append(Text(str(there), overflow="ellipsis"))
            table.add_row(nodes.name_of(row), zone, str(nodes.pod_count[row]), *bars)
        if nodes.total > len(rows):
            table.add_row(f"… {nodes.total - len(rows)} more nodes")
        return table

    def devices_by_node(self) -> dict[str, NodeDevices]:
        """Devices that belong to one node each; none when there are too many to look at."""
        informers = self._scheduler.informers
        slices = list(informers.lister(ResourceSlice).items())
        claims = list(informers.lister(ResourceClaim).items())
        if len(slices) + len(claims) > COUNTED_OBJECTS:
            return {}
        found: dict[str, NodeDevices] = {}
        node_of: dict[tuple[str, str], str] = {}  # by driver and pool
        for one in slices:
            if node := one.spec.node_name:
                node_of[one.spec.driver, one.spec.pool.name] = node
                found.setdefault(node, NodeDevices()).total += len(one.spec.devices)
        for claim in claims:
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                if node := node_of.get((result.driver, result.pool), ""):
                    found[node].allocated.add(result.device)
        return found

    def _queue_line(self) -> Text:
        pending = self._scheduler.queue.pending()
        gated = sum(queued.gated for queued in pending.unschedulable)
        parts = {
            "active": len(pending.active),
            "being tried": len(self._scheduler.queue.in_flight),
            "backing off": len(pending.backoff),
            "unschedulable": len(pending.unschedulable) - gated,
            "gated": gated,
        }
        placed = sum(1 for pod in self._pods() if pod.spec.node_name)
        text = Text(f"\nplaced {placed}", style="bold")
        for name, count in parts.items():
            text.append(f"   {name} {count}", style="" if count else "dim")
        return text


def _by_name(nodes: Nodes) -> list[int]:
    """Rows as people count: node-2 before node-10."""
    rows: list[int] = nodes.order.tolist()
    if len(rows) > SORTED_NODES:
        return rows

    def natural(row: int) -> list[tuple[int, str]]:
        parts = re.split(r"(\d+)", nodes.name_of(row))
        return [(int(part), "") if part.isdigit() else (-1, part) for part in parts]

    return sorted(rows, key=natural)


def _refusal(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status == "True":
        return ""
    return condition.message or condition.reason


def _bar(share: float) -> Text:
    filled = min(BAR_WIDTH, round(share * BAR_WIDTH))
    style = "red" if share > 0.9 else "yellow" if share > 0.7 else "green"
    bar = Text("█" * filled, style=style)
    bar.append("░" * (BAR_WIDTH - filled), style="dim")
    bar.append(f" {share:4.0%}")
    return bar
