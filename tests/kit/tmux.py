"""tmux as a real terminal: a shell in it, keys pressed there, and the screen as it looks."""

import os
import shlex
import shutil
import subprocess
import tempfile
from contextlib import contextmanager

from tests.kit.polling import block_until

EXECUTABLE = shutil.which("tmux")
MISSING = "tmux, which `apt-get install tmux` brings"


class Terminal:
    """One window with a shell; its server is its own, so that tests do not meet."""

    def __init__(self, folder):
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("TMUX")},
            "TMUX_TMPDIR": folder,
            "LC_ALL": "C.UTF-8",
        }

    def tmux(self, *arguments):
        command = [EXECUTABLE, "-f", os.devnull, *arguments]
        ended = subprocess.run(
            command, env=self._environment, capture_output=True, text=True, timeout=60, check=True
        )
        return ended.stdout

    def type(self, *words):
        """A command and Enter."""
        self.tmux("send-keys", "-l", shlex.join(words))
        self.press("Enter")

    def press(self, *keys):
        """Keys by tmux's names: `Enter`, `Escape`, `Down`, `C-c`, `q`."""
        self.tmux("send-keys", *keys)

    def resize(self, columns, lines):
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    @property
    def lines(self):
        return self.tmux("capture-pane", "-p").split("\n")[:-1]

    @property
    def text(self):
        return "\n".join(self.lines)

    def fact(self, name):
        """What tmux knows of the terminal: `alternate_on`, `cursor_flag`, `wrap_flag`."""
        return self.tmux("display-message", "-p", f"#{{{name}}}").strip()

    def shows(self, *texts):
        """Waits until all of these are on the screen."""
        block_until(lambda: all(text in self.text for text in texts), f"{texts} on the screen")

    def shows_no_more(self, text):
        block_until(lambda: text not in self.text, f"{text!r} gone from the screen")


@contextmanager
def terminal(columns=100, lines=30):
    """A shell without settings of its own."""
    # The path of a socket has to be short.
    with tempfile.TemporaryDirectory() as folder:
        made = Terminal(folder)
        size = ("-x", str(columns), "-y", str(lines))
        made.tmux("new-session", "-d", *size, "env PS1='$ ' bash --norc --noprofile")
        try:
            made.shows("$")
            yield made
        finally:
            made.tmux("kill-server")
