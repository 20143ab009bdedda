"""The terminal of the board: a whole screen, keys one by one, and all of it left as it was found.

    descriptor of keys ──▶ KeyDecoder ──▶ on_key
    Frame (a Text per line) ──▶ the lines that differ from those on the screen ──▶ standard output

The board's own process reads and writes the descriptors; no thread of rich's is involved. `leave`
can be called at any time and twice: at the end of the block, when the process is stopped by Ctrl-Z,
and before a second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import select
import signal
import sys
import termios
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from kscheduler.cli.board.keys import KeyDecoder

# How long after an Escape the rest of a sequence may take to arrive.
ESCAPE_SECONDS = 0.05
READ_BYTES = 4096
# How long a terminal may take nothing before a picture is given up.
WRITE_SECONDS = 1.0
# Of a terminal that does not tell its size.
FALLBACK = os.terminal_size((80, 24))
_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J"  # other screen, no cursor, no wrapping, empty
_LEAVE = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
# Terminals that know it show what is between at once; the others ignore it.
_BEGIN, _COMMIT = "\x1b[?2026h", "\x1b[?2026l"
# Signs of ours in an encoding that does not have them, cell by cell.
_PLAIN = str.maketrans(
    "█░▁▂▃▄▅▆▇→←↑↓…×",  # noqa: RUF001
    "#........><^v~x",
)


class Terminal:
    """A terminal in full screen while its block runs."""

    def __init__(self, console: Console, *, output: int = 1, keys: int | None = None) -> None:
        """`console` says which colours there are; `keys` is the descriptor to read keys from."""
        self.on_key: Callable[[str], None] = lambda key: None
        self.on_change: Callable[[], None] = lambda: None
        self._output = output
        self._keys = keys
        self._encoding = console.encoding
        self._shown: Sequence[Text] = ()
        self._size = self._measured()
        self._attributes: list[Any] | None = None
        self._is_entered = False
        self._decoder = KeyDecoder()
        self._escape: asyncio.TimerHandle | None = None
        self._renderer = Console(
            file=io.StringIO(),
            force_terminal=True,
            color_system=console.color_system,  # type: ignore[arg-type]
            no_color=console.no_color,
            highlight=False,
            markup=False,
            emoji=False,
            width=self._size.columns,
        )

    @property
    def size(self) -> os.terminal_size:
        return self._size

    def check_size(self) -> None:
        """Look at the size without being told: signals that come together are one."""
        if self._measured() != self._size:
            self._resized()

    @contextlib.contextmanager
    def full_screen(self) -> Iterator[None]:
        """The other screen, keys and changes of the size, until the block ends; on the loop."""
        loop = asyncio.get_running_loop()
        self._enter()
        try:
            loop.add_signal_handler(signal.SIGWINCH, self._resized)
            if self._keys is not None:
                loop.add_signal_handler(signal.SIGTSTP, self._suspend)
                loop.add_reader(self._keys, self._read)
            yield
        finally:
            if self._keys is not None:
                loop.remove_reader(self._keys)
                loop.remove_signal_handler(signal.SIGTSTP)
            loop.remove_signal_handler(signal.SIGWINCH)
            if self._escape is not None:
                self._escape.cancel()
            self.leave()

    def leave(self) -> None:
        """Gives the terminal back as it was: its screen, cursor, echo and lines."""
        if not self._is_entered:
            return
        self._is_entered = False
        # A terminal that is gone needs nothing.
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        if self._attributes is not None and self._keys is not None:
            with contextlib.suppress(termios.error):
                # Keys that nobody has read are not for the shell.
                termios.tcsetattr(self._keys, termios.TCSAFLUSH, self._attributes)

    def draw(self, lines: Sequence[Text]) -> None:
        """Writes what is not on the screen yet; a line is at most as wide as the terminal."""
        changed = [_BEGIN]
        for number, line in enumerate(lines[: self._size.lines]):
            if number < len(self._shown) and self._shown[number] == line:
                continue
            # Beyond the last column there is nothing to clear, and it would take that column.
            rest = "\x1b[K" if line.cell_len < self._size.columns else ""
            changed.append(f"\x1b[{number + 1};1H{self._rendered(line)}\x1b[0m{rest}")
        if len(self._shown) > len(lines):
            changed.append(f"\x1b[{len(lines) + 1};1H\x1b[J")
        self._shown = list(lines)
        if len(changed) > 1:
            try:
                self._write("".join([*changed, _COMMIT]))
            except OSError:
                # Who knows what has arrived: the next picture is drawn as a whole.
                self._shown = ()

    def _rendered(self, line: Text) -> str:
        with self._renderer.capture() as captured:
            self._renderer.print(line, end="", no_wrap=True, overflow="crop", crop=True)
        return captured.get()

    def _write(self, text: str) -> None:
        try:
            data = text.encode(self._encoding)
        except UnicodeEncodeError:
            data = text.translate(_PLAIN).encode(self._encoding, "replace")
        while data:
            try:
                data = data[os.write(self._output, data) :]
            except BlockingIOError:
                # Somebody who shares the terminal has made it non-blocking.
                if not select.select([], [self._output], [], WRITE_SECONDS)[1]:
                    raise

    def _measured(self) -> os.terminal_size:
        try:
            size = os.get_terminal_size(self._output)
        except OSError:
            return FALLBACK
        return size if size.columns and size.lines else FALLBACK

    def _enter(self) -> None:
        sys.stdout.flush()
        if self._keys is not None:
            self._attributes = termios.tcgetattr(self._keys)
            changed = termios.tcgetattr(self._keys)
            # Keys at once and unseen, Ctrl-S not to stop the output. Ctrl-C stays a signal, but
            # Ctrl-\ would end the process without a chance to restore anything.
            changed[0] &= ~termios.IXON
            changed[3] &= ~(termios.ICANON | termios.ECHO)
            changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
            changed[6][termios.VQUIT] = b"\0"
            termios.tcsetattr(self._keys, termios.TCSADRAIN, changed)
        self._is_entered = True
        self._shown = ()
        self._write(_ENTER)

    def _resized(self) -> None:
        self._size = self._measured()
        self._renderer.width = self._size.columns
        self._shown = ()
        with contextlib.suppress(OSError):
            self._write("\x1b[0m\x1b[2J")
        self.on_change()

    def _suspend(self) -> None:
        """Ctrl-Z: the shell gets its terminal back, and we ours when we go on."""
        self.leave()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._enter()
        self._resized()

    def _read(self) -> None:
        assert self._keys is not None
        try:
            data = os.read(self._keys, READ_BYTES)
        except OSError:
            data = b""
        if not data:  # The terminal is gone; SIGHUP ends us, unless that is ignored.
            asyncio.get_running_loop().remove_reader(self._keys)
            return
        if self._escape is not None:
            self._escape.cancel()
            self._escape = None
        self._press(self._decoder.feed(data))
        if self._decoder.is_waiting:
            loop = asyncio.get_running_loop()
            self._escape = loop.call_later(ESCAPE_SECONDS, self._flush_escape)

    def _flush_escape(self) -> None:
        self._escape = None
        self._press(self._decoder.flush())

    def _press(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.on_key(key)


@contextlib.contextmanager
def keyboard(output: int = 1) -> Iterator[int | None]:
    """A descriptor to read keys from: of the terminal that is standard input, or if manifests come
    by that, of the one that shows the board; None if it cannot be read.

    It is opened anew, for the loop makes it non-blocking, and others share the one we were given:
    the shell, and our own output, which would lose what the terminal does not take at once.
    """
    shown_by = 0 if sys.stdin is not None and sys.stdin.isatty() else output
    try:
        descriptor = os.open(os.ttyname(shown_by), os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
