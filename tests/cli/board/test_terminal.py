"""The terminal: what is written to it, and how it is left."""

import asyncio
import os
import pty
import termios

import pytest
from rich.console import Console
from rich.text import Text

from kscheduler.cli.board.terminal import Terminal
from tests.kit.polling import until


class Pty:
    """The other end of a terminal."""

    def __init__(self):
        self.ours, self.theirs = pty.openpty()
        os.set_blocking(self.ours, False)

    def read(self):
        """What was written since the last time."""
        try:
            return os.read(self.ours, 1 << 16).decode("utf-8", "replace")
        except BlockingIOError:
            return ""

    @property
    def settings(self):
        return termios.tcgetattr(self.theirs)

    def make(self, encoding="utf-8"):
        with open(os.dup(self.theirs), "w", encoding=encoding) as file:
            console = Console(file=file, force_terminal=True, color_system="standard")
            return Terminal(console, output=self.theirs, keys=self.theirs)


@pytest.fixture
def terminal():
    made = Pty()
    yield made
    os.close(made.ours)
    os.close(made.theirs)


async def test_it_is_left_as_it_was_found_however_often(terminal):
    before = terminal.settings
    screen = terminal.make()
    with screen.full_screen():
        assert "\x1b[?1049h" in terminal.read()
        assert not terminal.settings[3] & (termios.ECHO | termios.ICANON)
        # Before a signal that ends the process at once, and then at the end of the block.
        screen.leave()
        assert terminal.read().endswith("\x1b[?7h\x1b[?25h\x1b[?1049l")
        assert terminal.settings == before
    assert terminal.read() == ""


async def test_only_lines_that_changed_are_written(terminal):
    screen = terminal.make()
    with screen.full_screen():
        terminal.read()
        screen.draw([Text("one"), Text("two")])
        shown = terminal.read()
        assert "\x1b[1;1Hone" in shown
        assert "\x1b[2;1Htwo" in shown
        screen.draw([Text("one"), Text("three")])
        assert "one" not in (shown := terminal.read())
        assert "\x1b[2;1Hthree" in shown
        screen.draw([Text("one"), Text("three")])
        assert terminal.read() == ""


async def test_an_encoding_without_our_signs_gets_others_as_wide(terminal):
    screen = terminal.make("latin-1")
    with screen.full_screen():
        terminal.read()
        screen.draw([Text("█░ a → b 世")])
        assert "#. a > b ?" in terminal.read()


async def test_keys_are_passed_on_and_a_lone_escape_after_a_moment(terminal):
    screen, keys = terminal.make(), []
    screen.on_key = keys.append
    with screen.full_screen():
        os.write(terminal.ours, b"q\x1b[A")
        await until(lambda: keys == ["q", "up"], "two keys")
        os.write(terminal.ours, b"\x1b")
        await until(lambda: keys == ["q", "up", "escape"], "the escape")


async def test_a_terminal_that_is_gone_is_no_trouble():
    made = Pty()
    screen = made.make()
    with screen.full_screen():
        os.close(made.ours)
        await asyncio.sleep(0)
        screen.draw([Text("unseen")])
    os.close(made.theirs)
