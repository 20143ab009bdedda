"""Numbers as people read them, reasons that pods share, and the page's files."""

import re
import subprocess
import sys
import zlib
from importlib import resources
from pathlib import Path

import pytest

import kscheduler.ui
from kscheduler.api.explanation import Decision, OutcomeCount, PendingPod
from kscheduler.api.timestamps import parse_time
from kscheduler.ui import parts
from kscheduler.ui.cluster import natural
from kscheduler.ui.pods import reason_of
from kscheduler.ui.views.pod import timeline

FILES = {
    file.name: file.read_bytes()
    for file in resources.files("kscheduler.ui").joinpath("static").iterdir()
}


@pytest.mark.parametrize(
    ("resource", "value", "text"),
    [
        ("cpu", 0.25, "0.25"),
        ("cpu", 1234.0, "1,234"),
        ("memory", 17 * 2**30, "17Gi"),
        ("memory", 1.5 * 2**40, "1.5Ti"),
        ("memory", 0, "0"),
        ("pods", 1100, "1,100"),
        ("example.com/gpu", 8, "8"),
    ],
)
def test_amounts_have_their_unit(resource, value, text):
    assert parts.amount(resource, value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (5e-5, "50 µs"),
        (0.0123, "12.3 ms"),
        (3.21, "3.2 s"),
        (90, "90 s"),
        (600, "10 min"),
        (1e6, "12 d"),
    ],
)
def test_durations_are_short(seconds, text):
    assert parts.duration(seconds) == text


def test_names_are_sorted_as_people_count():
    names = ["node-10", "node-2", "node-1", "a", "node"]
    assert sorted(names, key=natural) == ["a", "node", "node-1", "node-2", "node-10"]


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (
            PendingPod(
                queue="Unschedulable",
                message="0/6 nodes are available: 3 Insufficient cpu, 3 node(s) had untolerated "
                "taint(s). preemption: 0/6 nodes are available: 6 No preemption victims found.",
            ),
            "Insufficient cpu, node(s) had untolerated taint(s)",
        ),
        (PendingPod(queue="Gated", scheduling_gates=("a/b",)), "held by its scheduling gates: a/b"),
        (PendingPod(queue="Unschedulable", unschedulable_plugins=("X",)), "X"),
        (PendingPod(queue="Active"), "not tried yet"),
        (PendingPod(queue="Unschedulable", message="odd"), "odd"),
    ],
)
def test_reasons_leave_out_what_differs_between_alike_pods(pod, reason):
    assert reason_of(pod) == reason


def test_attempts_are_bars_on_a_line_from_the_first_to_now():
    start = "2026-01-02T03:04:00Z"
    decision = Decision(
        attempts=4,
        outcomes=(
            OutcomeCount("Unschedulable", "no", 3, start, "2026-01-02T03:04:30Z"),
            OutcomeCount("Scheduled", "", 1, "2026-01-02T03:05:00Z", "2026-01-02T03:05:00Z"),
        ),
    )
    drawn = timeline(decision, now=parse_time(start) + 60)
    bars = re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="\d+" width="([\d.]+)"', drawn)
    assert bars == [("span", "2.0", "446.0"), ("placed", "894.0", "5.0")]
    for text in (
        "<title>3 attempts: Unschedulable</title>",
        "<title>1 attempt: Scheduled</title>",
        "<title>4 attempts over 60 s</title>",
        "60 s ago",
    ):
        assert text in drawn


class TestFiles:
    def test_the_wheel_grows_by_less_than_150_kilobytes(self):
        """A wheel is compressed file by file."""
        files = Path(kscheduler.ui.__file__).parent.rglob("*")
        kept = [one for one in files if one.suffix in (".py", ".js", ".css", ".svg")]
        assert len(kept) > 20
        assert sum(len(zlib.compress(one.read_bytes())) + 200 for one in kept) < 150_000

    def test_the_daemon_loads_none_of_it(self):
        script = (
            "import sys, kscheduler.cli.daemon, kscheduler.app.daemon, kscheduler.app.startup; "
            "import kscheduler.serving.explanation.api; "
            "print([name for name in sys.modules if name.startswith('kscheduler.ui')])"
        )
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert (told.stdout, told.stderr) == ("[]\n", "")

    def test_scripts_are_few_and_small(self):
        assert sum(len(text) for name, text in FILES.items() if name.endswith(".js")) < 60_000
        assert sum(map(len, FILES.values())) < 100_000

    @pytest.mark.parametrize("name", sorted(FILES))
    def test_nothing_of_elsewhere_is_asked_for(self, name):
        text = FILES[name].decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?:|//[a-z]+\.", text)

    @pytest.mark.parametrize("name", sorted(name for name in FILES if name.endswith(".js")))
    def test_no_script_makes_markup_of_text(self, name):
        text = FILES[name].decode()
        for word in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "DOMParser",
        ):
            assert word not in text
