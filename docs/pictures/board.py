"""The picture of the board for the docs: a preemption in a sandbox, on a real terminal.

    make pictures

tmux is the terminal; `apt-get install tmux` brings it. Names and choices follow from a seed.
"""

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

HERE = Path(__file__).parent
COLUMNS, LINES = 112, 32
PATIENCE_SECONDS = 120
SANDBOX = ("sandbox", "--seed=7", "--scenario=preemption")
# Fonts from elsewhere are not loaded; each text has its length, so that any font will do.
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def main() -> None:
    if shutil.which("tmux") is None:
        sys.exit("tmux is missing: `apt-get install tmux` (as root) brings it.")
    program = (sys.executable, "-c", "from kscheduler.cli import main; main()", *SANDBOX)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMUX_TMPDIR": folder, "LC_ALL": "C.UTF-8"}
        environment.pop("NO_COLOR", None)
        environment.pop("TMUX", None)

        def tmux(*arguments: str) -> str:
            command = ["tmux", "-f", os.devnull, *arguments]
            made = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            return made.stdout

        tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), shlex.join(program))
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            # Victims are struck through for some seconds, beside the pod that they make room for.
            while "vip evicts " not in (screen := tmux("capture-pane", "-p")):
                if time.monotonic() > deadline:
                    sys.exit(f"there was no preemption; the last screen:\n{screen}")
                time.sleep(0.1)
            screen = tmux("capture-pane", "-p", "-e", "-N")
            tmux("send-keys", "q")
        finally:
            tmux("kill-server")
    console = Console(
        file=io.StringIO(), record=True, width=COLUMNS, force_terminal=True, color_system="256"
    )
    for line in screen.split("\n")[:LINES]:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", highlight=False)
    picture = FONTS.sub("", console.export_svg(title="kscheduler sandbox", unique_id="board"))
    (HERE / "board.svg").write_text(picture, encoding="utf-8")
    sys.stdout.write(f"board.svg  {len(picture.encode()):,} bytes\n")


if __name__ == "__main__":
    main()
