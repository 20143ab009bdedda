"""The board in a real terminal: every key, every size, and what is left when it is gone."""

import base64
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import urllib.request

import pytest
import yaml

from tests.kit import tmux
from tests.kit.polling import block_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(tmux.EXECUTABLE is None, reason=tmux.MISSING),
]

PROGRAM = "import kscheduler.cli as cli; cli.main()"
# A board that fails when a key is pressed that means nothing to it.
FAILING = """
from kscheduler.cli.board import board
def press(self, key):
    raise RuntimeError("a mistake of ours")
board.Board.press = press
"""


class Sandbox:
    """A sandbox that was started in a terminal, and the API server behind it."""

    def __init__(self, terminal, folder):
        self.terminal = terminal
        self._folder = folder

    def start(self, *arguments, before=""):
        """In a shell that notes how the terminal is set, before and after."""
        (self._folder / "tmp").mkdir(exist_ok=True)
        program = self._folder / "program.py"
        program.write_text(before + PROGRAM)
        state = f"stty -g; {sys.executable} -c 'import os; print(os.get_blocking(0))'"
        command = [sys.executable, str(program), "sandbox"]
        command.append(f"--kubeconfig={self._folder / 'kubeconfig'}")
        script = self._folder / "start.sh"
        script.write_text(
            f"export TMPDIR={self._folder / 'tmp'}\n"
            f"({state}) > {self._folder / 'before'}\n"
            f"{' '.join([*command, *arguments])}\n"
            "code=$?\n"
            f"({state}) > {self._folder / 'after'}\n"
            "echo ended $code\n"
        )
        self.terminal.type("clear")
        self.terminal.type(".", str(script))

    def get(self, path):
        """What kubectl would get."""
        config = yaml.safe_load((self._folder / "kubeconfig").read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        asked = urllib.request.Request(
            f"{cluster['server']}{path}", headers={"Authorization": f"Bearer {user['token']}"}
        )
        context = ssl.create_default_context(cadata=authority)
        with urllib.request.urlopen(asked, timeout=30, context=context) as answer:
            return json.load(answer)

    def has_ended(self, code=0):
        """Ended with this code, and the terminal is what it was."""
        self.terminal.shows(f"ended {code}")
        before, after = (self._folder / name for name in ("before", "after"))
        assert after.read_text() == before.read_text()
        facts = ("alternate_on", "cursor_flag", "wrap_flag")
        assert [self.terminal.fact(name) for name in facts] == ["0", "1", "1"]
        assert list((self._folder / "tmp").iterdir()) == []
        self.terminal.type("echo", "typed")
        self.terminal.shows("$ echo typed\ntyped")


@pytest.fixture
def sandbox(tmp_path):
    with tmux.terminal() as terminal:
        yield Sandbox(terminal, tmp_path)


def test_every_key(sandbox, tmp_path):
    terminal = sandbox.terminal
    sandbox.start("--nodes=3", "--seed=1", "--scenario=pending")
    terminal.shows("picky unschedulable: 3 node(s) didn't match", "21 pods placed")
    assert terminal.fact("alternate_on") == "1"
    terminal.press("Space")
    terminal.shows("scenario PAUSED", "the scenario is held before its next step")

    terminal.press("p", "Down", "Enter")
    terminal.shows("explain picky", "What would help:", "Esc back")
    command = [sys.executable, "-c", PROGRAM, "explain", "picky", "--aggregated"]
    command.append(f"--kubeconfig={tmp_path / 'kubeconfig'}")
    told = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    sentence = told.stdout.split("\n\n")[0]
    assert sentence in " ".join(terminal.text.split())

    terminal.press("Escape")
    terminal.shows("Esc overview")
    terminal.press("Escape")
    terminal.shows("DECISIONS", "NODES", "WAITING")
    terminal.press("d", "Down", "Down", "Up", "Enter")
    terminal.shows("explain ", "Esc back")
    terminal.press("Escape", "n")
    terminal.shows_no_more("DECISIONS")
    terminal.press("Home", "Down", "Enter")
    terminal.shows("node node-1", "RESOURCE", "agent-")
    terminal.press("Escape", "Escape")
    terminal.shows("DECISIONS")

    terminal.press("c")
    terminal.shows("node-1 is cordoned", "cordoned agent")
    assert sandbox.get("/api/v1/nodes/node-1")["spec"]["unschedulable"] is True
    terminal.press("c")
    terminal.shows("node-1 is uncordoned")
    assert "unschedulable" not in sandbox.get("/api/v1/nodes/node-1")["spec"]
    terminal.press("k")
    terminal.shows("kubelet stopped", "the kubelet of node-1 is stopped")
    terminal.shows("NotReady")
    terminal.press("k")
    terminal.shows("the kubelet of node-1 runs again")
    terminal.shows_no_more("NotReady")

    terminal.press("+")
    terminal.shows("the Deployment burst is to have 10 pods now", "burst×")  # noqa: RUF001
    assert (
        sandbox.get("/apis/apps/v1/namespaces/default/deployments/burst")["spec"]["replicas"] == 10
    )
    terminal.press("-")
    terminal.shows("the Deployment burst is to have 0 pods now")
    terminal.shows_no_more("burst×")  # noqa: RUF001

    terminal.press("?")
    terminal.shows("How to read it", "kill the selected node")
    terminal.press("Escape", "Right", "Tab", "Left", "Space")
    terminal.shows("the scenario goes on")
    terminal.shows("picky → node-")
    terminal.press("q")
    terminal.shows("pods placed, 0 waiting")
    sandbox.has_ended()


def test_it_survives_any_size(sandbox):
    terminal = sandbox.terminal
    sandbox.start("--nodes=40", "--scenario=workload")
    terminal.shows("58 pods placed", "of 40 in sight")
    for columns, lines in ((60, 18), (200, 60), (30, 8), (1, 1), (60, 18), (100, 30)):
        terminal.resize(columns, lines)
        if (columns, lines) == (1, 1):
            continue
        if columns < 60:
            terminal.shows("This window has 30×8 cells")  # noqa: RUF001
        else:
            terminal.shows("40 nodes", "QUEUE", "NODES", "DECISIONS", "WAITING", "q quit")
            block_until(lambda lines=lines: len(terminal.lines) == lines, "as many lines")
            block_until(lambda: "? help" in terminal.lines[-1], "the keys at the bottom")
    terminal.press("q")
    sandbox.has_ended()


def test_ctrl_c_twice_leaves_the_terminal_as_it_was(sandbox):
    """Twice, as make passes it on; and on another page."""
    sandbox.start("--nodes=2", "--scenario=none")
    sandbox.terminal.shows("2 nodes", "WAITING")
    sandbox.terminal.press("?", "C-c", "C-c")
    sandbox.has_ended()


def test_a_signal_leaves_the_terminal_as_it_was(sandbox):
    sandbox.start("--nodes=2", "--scenario=none")
    terminal = sandbox.terminal
    terminal.shows("2 nodes", "WAITING")
    shell = terminal.fact("pane_pid")
    (child,) = subprocess.check_output(["pgrep", "-P", shell], text=True).split()
    os.kill(int(child), signal.SIGTERM)
    sandbox.has_ended()


def test_a_mistake_of_ours_leaves_the_terminal_as_it_was(sandbox):
    sandbox.start("--nodes=2", "--scenario=none", before=FAILING)
    sandbox.terminal.shows("2 nodes", "WAITING")
    sandbox.terminal.press("x")
    sandbox.terminal.shows("RuntimeError: a mistake of ours")
    sandbox.has_ended(1)


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(sandbox, tmp_path):
    terminal = sandbox.terminal
    kubeconfig = f"--kubeconfig={tmp_path / 'kubeconfig'}"
    arguments = ("sandbox", kubeconfig, "--nodes=2", "--scenario=none")
    terminal.type(sys.executable, "-c", PROGRAM, *arguments)
    terminal.shows("2 nodes", "WAITING")
    terminal.press("C-z")
    terminal.shows("Stopped")
    assert terminal.fact("alternate_on") == "0"
    terminal.resize(70, 20)
    terminal.type("fg")
    terminal.shows("2 nodes", "WAITING")
    assert terminal.fact("alternate_on") == "1"
    terminal.press("q")
    terminal.shows("0 pods placed, 0 waiting")
    assert terminal.fact("alternate_on") == "0"


def test_manifests_by_standard_input_leave_the_keys_to_the_board(sandbox, tmp_path):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "typed", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    (tmp_path / "pod.yaml").write_text(yaml.safe_dump(pod))
    sandbox.start("--nodes=2", "--validate=ignore", "-f", "-", "<", str(tmp_path / "pod.yaml"))
    sandbox.terminal.shows("shop/typed → node-")
    sandbox.terminal.press("q")
    sandbox.terminal.shows("1 pod placed, 0 waiting")
    sandbox.has_ended()


def test_boards_in_two_terminals_do_not_collide(tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with tmux.terminal() as first, tmux.terminal() as second:
        boards = [Sandbox(*pair) for pair in zip((first, second), folders, strict=True)]
        for board in boards:
            board.start("--nodes=2", "--scenario=none")
        for board in boards:
            board.terminal.shows("2 nodes", "WAITING")
        first.press("c")
        first.shows("node-0 is cordoned")
        assert "unschedulable" not in boards[1].get("/api/v1/nodes/node-0")["spec"]
        for board in boards:
            board.terminal.press("q")
            board.has_ended()


def test_without_colours_the_selection_can_still_be_seen(sandbox):
    terminal = sandbox.terminal
    terminal.type("export", "NO_COLOR=1")
    sandbox.start("--nodes=2", "--scenario=none")
    terminal.shows("2 nodes", "node-1")
    escapes = terminal.tmux("capture-pane", "-p", "-e")
    (selected,) = [line for line in escapes.split("\n") if "node-0" in line]
    assert re.search(r"\x1b\[(0;)?7m", selected)
    assert not re.search(r"\x1b\[[0-9;]*(3[1-7]|4[1-7])m", escapes)
    terminal.press("q")
    sandbox.has_ended()
