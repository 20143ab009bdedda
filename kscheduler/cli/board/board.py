"""Board: keys in, pictures out; see the package."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from rich.text import Text

from kscheduler.cli.board import keys
from kscheduler.cli.board.cluster import Cluster
from kscheduler.cli.board.frame import Look, Page, Panel, Story, frame
from kscheduler.cli.board.pages import answer_lines, help_lines, node_lines
from kscheduler.cli.board.sentences import pod_name
from kscheduler.cli.board.terminal import Terminal
from kscheduler.cli.scenarios import moves
from kscheduler.cli.scenarios.stage import Stage
from kscheduler.errors import KschedulerError
from kscheduler.rest.status import StatusError

REFRESH_SECONDS = 0.25
# Keys that come closer together than this are drawn together.
KEY_SECONDS = 0.03
# How long the answer to a key stays.
MESSAGE_SECONDS = 6.0
BURST = 10
RESIZED = "resized"
_LISTS = {"n": Panel.NODES, "d": Panel.DECISIONS, "p": Panel.WAITING}
_PANELS = tuple(Panel)

Explain = Callable[[str, str], Awaitable[Sequence[str]]]
Addresses = Callable[[], Mapping[str, str]]


class Board:
    """A sandbox on a terminal until somebody quits."""

    def __init__(
        self,
        cluster: Cluster,
        stage: Stage,
        terminal: Terminal,
        story: Story,
        *,
        explain: Explain,
        addresses: Addresses,
        stop: Callable[[], None],
    ) -> None:
        """`explain` gives blocks of text about a pod (KschedulerError if there is no answer);
        `stop` is called by the key that quits.
        """
        self.look = Look()
        self._cluster = cluster
        self._stage = stage
        self._terminal = terminal
        self._story = story
        self._explain = explain
        self._addresses = addresses
        self._pressed: asyncio.Queue[str] = asyncio.Queue()
        self._message_until = 0.0
        self._drawn: object = None
        self._presses = 0
        self._tasks: asyncio.TaskGroup
        self._asking: asyncio.Task[None] | None = None
        terminal.on_key = self._pressed.put_nowait
        terminal.on_change = lambda: self._pressed.put_nowait(RESIZED)
        self._actions: Mapping[str, Callable[[], None]] = {
            "q": stop,
            "?": self._show_help,
            " ": self._toggle_pause,
            "+": lambda: self._change_burst(BURST),
            "=": lambda: self._change_burst(BURST),
            "-": lambda: self._change_burst(-BURST),
            "k": self._toggle_kubelet,
            "c": self._toggle_cordon,
            keys.ENTER: self._open,
            keys.ESCAPE: self._close,
            keys.UP: lambda: self._move(-1),
            keys.DOWN: lambda: self._move(1),
            keys.PAGE_UP: lambda: self._move(-self._page_lines),
            keys.PAGE_DOWN: lambda: self._move(self._page_lines),
            keys.HOME: lambda: self._move(-1 << 30),
            keys.END: lambda: self._move(1 << 30),
            keys.RIGHT: lambda: self._change_panel(1),
            keys.TAB: lambda: self._change_panel(1),
            keys.LEFT: lambda: self._change_panel(-1),
            keys.BACK_TAB: lambda: self._change_panel(-1),
        }

    async def run(self) -> None:
        """Draw what has changed and obey keys, until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            while True:
                self._terminal.check_size()
                self._draw_if_changed()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(REFRESH_SECONDS):
                        self.press(await self._pressed.get())
                    await asyncio.sleep(KEY_SECONDS)
                while not self._pressed.empty():
                    self.press(self._pressed.get_nowait())

    def press(self, key: str) -> None:
        """Do what a key stands for; other keys do nothing."""
        self._presses += 1
        self._select_something()
        if key in _LISTS:
            self._close_page()
            self.look.panel, self.look.is_alone = _LISTS[key], True
        elif key in self._actions:
            try:
                self._actions[key]()
            except StatusError as error:
                self.say(f"the API server refuses it: {error}")

    def lines(self) -> list[Text]:
        """The picture of the moment."""
        self._select_something()
        return frame(self._cluster, self.look, self._story, self._terminal.size)

    def _draw_if_changed(self) -> None:
        if self.look.message and time.monotonic() > self._message_until:
            self.look.message = ""
            self._presses += 1
        self._story.is_paused = self._stage.is_paused
        story = (self._story.title, self._story.text)
        state = (self._cluster.version, story, self._presses)
        if state != self._drawn:
            self._drawn = state
            self._terminal.draw(self.lines())

    def say(self, message: str) -> None:
        """A message in the place of the keys, for a while."""
        self._presses += 1
        self.look.message = message
        self._message_until = time.monotonic() + MESSAGE_SECONDS

    @property
    def _page_lines(self) -> int:
        return max(1, self._terminal.size.lines - 8)

    # Selecting.

    def _select_something(self) -> None:
        """The first node, until another is selected; so that `k` and `c` mean one."""
        rows = self._cluster.node_rows()
        if rows and self._cluster.place_of(self.look.node) is None:
            self.look.node = self._cluster.nodes.name_of(rows[0])

    def _move(self, by: int) -> None:
        look, cluster = self.look, self._cluster
        if look.page is not None:
            look.page.first = max(0, look.page.first + by)
        elif look.panel is Panel.NODES:
            rows = cluster.node_rows()
            if rows:
                place = cluster.place_of(look.node) or 0
                look.node = cluster.nodes.name_of(rows[_clamped(place + by, len(rows))])
        elif look.panel is Panel.DECISIONS:
            decided = cluster.decided
            if decided:
                is_there = look.decision is not None and look.decision in decided
                place = decided.index(look.decision) + by if is_there and look.decision else 0
                look.decision = decided[_clamped(place, len(decided))]
        elif waiting := cluster.waiting_keys():
            place = waiting.index(look.pod) + by if look.pod in waiting else 0
            look.pod = waiting[_clamped(place, len(waiting))]

    def _change_panel(self, by: int) -> None:
        look = self.look
        if look.page is None:
            look.panel = _PANELS[(_PANELS.index(look.panel) + by) % len(_PANELS)]

    # Pages.

    def _open(self) -> None:
        look = self.look
        if look.page is not None:
            return
        if look.panel is Panel.NODES:
            if look.node:
                write = partial(node_lines, self._cluster, look.node)
                look.page = Page(f"node {look.node}", write=write)
            return
        self._move(0)
        if look.panel is Panel.DECISIONS:
            key = look.decision.key if look.decision is not None else ""
        else:
            key = look.pod
        if key:
            page = look.page = Page(f"explain {pod_name(*key.split('/', 1))}", [Text(" asking …")])
            self._asking = self._tasks.create_task(self._ask(key, page), name="board/explain")

    async def _ask(self, key: str, page: Page) -> None:
        namespace, name = key.split("/", 1)
        try:
            page.lines = answer_lines(await self._explain(namespace, name))
        except KschedulerError as error:
            page.lines = answer_lines([str(error)])
        self._presses += 1

    def _close(self) -> None:
        if self.look.page is not None:
            self._close_page()
        else:
            # Nothing selected: the latest decisions and pods are in sight again.
            self.look.is_alone, self.look.decision, self.look.pod = False, None, ""

    def _close_page(self) -> None:
        self.look.page = None
        if self._asking is not None:
            self._asking.cancel()
            self._asking = None

    def _show_help(self) -> None:
        self._close_page()
        self.look.page = Page("help", write=partial(help_lines, self._addresses()))

    # Playing.

    def _toggle_pause(self) -> None:
        if not self._story.title:
            self.say("there is no scenario to hold; --scenario tour has one")
        elif self._stage.toggle_pause():
            self.say("the scenario is held before its next step; space lets it go on")
        else:
            self.say("the scenario goes on")

    def _change_burst(self, by: int) -> None:
        count = self._stage.change_burst(by)
        self.say(f"the Deployment burst is to have {count:,} pods now")

    def _toggle_kubelet(self) -> None:
        node = self.look.node
        if not node:
            self.say("there is no node to kill")
        elif moves.toggle_kubelet(self._stage.objects, node):
            self.say(f"the kubelet of {node} runs again")
        else:
            self.say(f"the kubelet of {node} is stopped: NotReady soon; k again starts it")

    def _toggle_cordon(self) -> None:
        node = self.look.node
        if not node:
            self.say("there is no node to cordon")
        elif moves.toggle_cordon(self._stage.objects, node):
            self.say(f"{node} is cordoned: it gets no new pods; c again takes that back")
        else:
            self.say(f"{node} is uncordoned")


def _clamped(place: int, count: int) -> int:
    return max(0, min(place, count - 1))
