"""Numbers as people read them, reasons that pods share, and the page's files."""

import re
from importlib import resources

import pytest

from kscheduler.api.explanation import PendingPod
from kscheduler.ui import parts
from kscheduler.ui.cluster import natural
from kscheduler.ui.pods import reason_of

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


class TestFiles:
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
