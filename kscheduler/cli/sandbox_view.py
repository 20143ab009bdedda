"""The view of a sandbox: a board on a terminal, plain lines elsewhere, and how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from enum import Enum, auto
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from kscheduler.api.core import Pod
from kscheduler.app.scheduler import Scheduler
from kscheduler.cli.board.board import Addresses, Board, Explain
from kscheduler.cli.board.cluster import Cluster, devices_by_node
from kscheduler.cli.board.frame import Story
from kscheduler.cli.board.terminal import Terminal, keyboard
from kscheduler.cli.page import counted
from kscheduler.cli.scenarios.stage import Stage

# How long nothing may move before the backlog counts as dealt with, and how often that is checked
# meanwhile: time in which the process stood still counts as one check, whatever its length.
QUIET_SECONDS = 0.5
QUIET_CHECKS = 5

console = Console(highlight=False, markup=False)


def commands(kubeconfig: Path) -> dict[str, str]:
    """Commands to look at the sandbox with; this program by its file if it is not on PATH."""
    program = "kscheduler" if shutil.which("kscheduler") else sys.argv[0]
    return {
        "kubectl": f"kubectl --kubeconfig {kubeconfig} get pods -A -o wide",
        "explain": f"{program} explain --kubeconfig {kubeconfig} POD",
    }


def introduce(url: str, kubeconfig: Path, *, server_only: bool, to_stderr: bool) -> None:
    """Prints the addresses of the sandbox."""
    console = Console(highlight=False, markup=False, stderr=to_stderr)
    lines = {"API server": url, **commands(kubeconfig)}
    if server_only:
        del lines["explain"]
        lines["scheduler"] = f"kscheduler --kubeconfig {kubeconfig} --leader-elect=false"
    for name, text in lines.items():
        console.print(Text(f"{name + ':':<12}").append(text, style="bold"), soft_wrap=True)
    console.print("Ctrl-C ends it; nothing is kept.\n")


class Audience:
    """Whoever watches: told by lines as they come, or by a board on the whole terminal."""

    def __init__(self, terminal: Terminal | None = None) -> None:
        self.story = Story()
        self._terminal = terminal
        self._board: Board | None = None
        self._notices: list[str] = []

    @classmethod
    @contextlib.contextmanager
    def of(cls, *, wants_board: bool) -> Iterator[Audience]:
        if not wants_board:
            yield cls()
            return
        with keyboard() as keys:
            yield cls(Terminal(console, keys=keys))

    def leave(self) -> None:
        """Gives the terminal back, whatever is on it."""
        if self._terminal is not None:
            self._terminal.leave()

    def tell(self, title: str, text: str) -> None:
        """A sentence of the scenario."""
        self.story.title, self.story.text = title, text
        if self._terminal is None:
            console.print(f"{title}: {text}", soft_wrap=True)

    def notice(self, text: str) -> None:
        """A line that has to be read: on the board for a while, and again after it."""
        if self._board is None:
            click.echo(text)
        else:
            self._notices.append(text)
            self._board.say(text)

    @contextlib.asynccontextmanager
    async def board(
        self,
        scheduler: Scheduler,
        stage: Stage,
        explain: Explain,
        addresses: Addresses,
        stop: Callable[[], None],
    ) -> AsyncIterator[None]:
        """The board while the block runs, if there is a terminal for it."""
        if self._terminal is None:
            yield
            return
        board = Board(
            Cluster(scheduler),
            stage,
            self._terminal,
            self.story,
            explain=explain,
            addresses=addresses,
            stop=stop,
        )
        try:
            with self._terminal.full_screen():
                async with asyncio.TaskGroup() as tasks:
                    self._board = board
                    showing = tasks.create_task(board.run(), name="board")
                    try:
                        yield
                    finally:
                        showing.cancel()
        finally:
            self._board = None
            for text in self._notices:
                click.echo(text)


class Lines(Enum):
    """When a line per pod is printed."""

    AS_IT_HAPPENS = auto()
    # Placements in the order of names, so that two equal runs print the same.
    AT_THE_END = auto()
    NEVER = auto()


class View:
    """Pods as the scheduler knows them: a handler of its own pod informer."""

    def __init__(self, scheduler: Scheduler, lines: Lines) -> None:
        self._scheduler = scheduler
        self._moved = True
        self._lines = lines
        scheduler.informers.pods.add_handler(self)

    def on_add(self, item: Pod, *, is_initial: bool) -> None:
        self._moved = True

    def on_update(self, old: Pod, new: Pod) -> None:
        self._moved = True
        if self._lines is not Lines.AS_IT_HAPPENS:
            return
        if new.spec.node_name and not old.spec.node_name:
            console.print(f"{new.key} -> {new.spec.node_name}", soft_wrap=True)
        elif _refusal(new) != _refusal(old) and _refusal(new):
            console.print(f"{new.key} waits: {_refusal(new)}", soft_wrap=True)

    def on_delete(self, item: Pod, *, final_state_unknown: bool) -> None:
        self._moved = True

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
                # Tried, and the reason is still on its way to the pod's status.
                untold = any(one.attempts and not _refusal(one.pod.pod) for one in pending.pods)
                if not (pending.active or retried or under_way or untold):
                    return
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(QUIET_SECONDS / QUIET_CHECKS):
                    await stop.wait()

    def conclude(self, *, once: bool) -> int:
        """Print how it ended; with `once`, 1 if a pod is left without a node."""
        pods = sorted(self._scheduler.informers.pods.items(), key=lambda pod: pod.key)
        placed = [pod for pod in pods if pod.spec.node_name]
        waiting = [pod for pod in pods if not pod.spec.node_name]
        for pod in placed if self._lines is Lines.AT_THE_END else ():
            console.print(f"{pod.key} -> {pod.spec.node_name}", soft_wrap=True)
        console.print(f"{counted(len(placed), 'pod')} placed, {len(waiting)} waiting")
        if devices := devices_by_node(self._scheduler).values():
            allocated = sum(len(one.allocated) for one in devices)
            total = sum(one.total for one in devices)
            console.print(f"{allocated} of {total} devices allocated")
        for pod in waiting if once else ():
            console.print(f"  {pod.key}: {self._reason(pod)}", soft_wrap=True)
        return 1 if once and waiting else 0

    def _reason(self, pod: Pod) -> str:
        if pod.spec.scheduler_name not in self._scheduler.frameworks:
            return f"nobody answers to schedulerName {pod.spec.scheduler_name}"
        return _refusal(pod) or "not tried yet"


def _refusal(pod: Pod) -> str:
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status == "True":
        return ""
    return condition.message or condition.reason
