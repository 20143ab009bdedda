"""Scenarios on the embedded cluster, told in lines, to their end."""

import gc
import re

import pytest
from click.testing import CliRunner

from kscheduler import logs
from kscheduler.cli.sandbox import sandbox
from kscheduler.cli.scenarios import SCENARIOS
from kscheduler.cli.scenarios.chapters import CHAPTERS, chapters_of

# uvloop leaves the socket of a TLS handshake that was broken off to the garbage collector: the
# aggregator's look at a scheduler that ends before it serves.
unraisable = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
)


@pytest.fixture
def play(tmp_path):
    """Plays a scenario as fast as it goes; gives its lines."""

    def invoke(*arguments, code=0):
        kubeconfig = f"--kubeconfig={tmp_path / 'kubeconfig'}"
        outcome = CliRunner().invoke(sandbox, [kubeconfig, "--once", "--seed=1", *arguments])
        gc.collect()
        if outcome.exception and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
        assert outcome.exit_code == code, outcome.output
        return outcome.output.splitlines()

    yield invoke
    logs.configure(logs.Logging())


def placements(lines, app):
    return [line for line in lines if re.match(rf"default/{app}(-\S+)? -> ", line)]


def story(lines, title):
    return [line.removeprefix(f"{title}: ") for line in lines if line.startswith(f"{title}: ")]


def test_every_scenario_is_explained_and_can_be_played():
    assert set(CHAPTERS) == set(SCENARIOS) - {"tour", "workload", "none"}
    assert chapters_of("tour") == tuple(CHAPTERS.values())
    assert [len(chapters_of(name)) for name in CHAPTERS] == [1] * len(CHAPTERS)
    assert chapters_of("workload") == chapters_of("none") == ()


@unraisable
@pytest.mark.slow
class TestChapters:
    """Each ends with the workload that was there before, all of it placed."""

    END = "24 pods placed, 0 waiting"

    def test_a_rollout_replaces_every_pod(self, play):
        lines = play("--scenario=rollout")
        assert len(placements(lines, "web")) == 12
        assert len(story(lines, "A rollout")) == 3
        assert lines[-1] == self.END

    def test_a_burst_comes_and_goes(self, play):
        lines = play("--scenario=burst")
        assert len(placements(lines, "burst")) == 48
        assert "all 48 run." in story(lines, "A burst")
        assert lines[-1] == self.END

    def test_a_node_fails_and_returns(self, play):
        lines = play("--scenario=node-failure")
        told = story(lines, "A node fails")
        (node,) = re.findall(r"the kubelet of (\S+) is about to stop", told[0])
        assert told[-1].startswith(f"{node} is back and its taints are gone")
        silence = lines.index(next(line for line in lines if f"{node} is silent" in line))
        replaced = placements(lines[silence:], "web")
        assert replaced
        assert not any(line.endswith(f" {node}") for line in replaced)
        assert lines[-1] == self.END

    def test_a_pod_waits_until_a_node_has_its_label(self, play):
        lines = play("--scenario=pending")
        waits = [line for line in lines if line.startswith("default/picky waits: 0/6 nodes")]
        (placed,) = placements(lines, "picky")
        assert lines.index(waits[0]) < lines.index(placed)
        node = placed.split(" -> ")[1]
        assert any(line.startswith(f"{node} gets the label") for line in story(lines, TITLE))
        assert lines[-1] == self.END

    def test_an_important_pod_takes_the_place_of_others(self, play):
        lines = play("--scenario=preemption")
        (vip,) = placements(lines, "vip")
        before = [line.split(" -> ")[0] for line in placements(lines[: lines.index(vip)], "filler")]
        after = [line.split(" -> ")[0] for line in placements(lines[lines.index(vip) :], "filler")]
        # Those that had to go wait as new pods, and come back when it is gone.
        assert len(after) in (1, 2)
        assert not set(after) & set(before)
        assert lines[-1] == self.END

    def test_pods_with_claims_get_devices_that_are_there_for_the_chapter_only(self, play):
        lines = play("--scenario=devices")
        for name in ("train-0", "infer-1", "notebook-1", "render"):
            assert placements(lines, name)
        assert lines[-1] == self.END

    def test_devices_that_are_there_anyway_are_used_and_stay(self, play):
        lines = play("--scenario=devices", "--gpus=1")
        assert len(story(lines, "Devices")) == 3
        assert lines[-2:] == [self.END, "0 of 24 devices allocated"]

    @pytest.mark.parametrize("scenario", ["burst", "pending", "preemption", "devices"])
    def test_one_node_is_enough(self, play, scenario):
        lines = play(f"--scenario={scenario}", "--nodes=1")
        assert lines[-1] == "19 pods placed, 0 waiting"
        assert "ends early" not in "\n".join(lines)


TITLE = "A pod that fits nowhere"


class TestNames:
    def test_a_list_says_what_there_is(self):
        outcome = CliRunner().invoke(sandbox, ["--scenario", "list"])
        assert outcome.exit_code == 0
        assert [line.split()[0] for line in outcome.output.splitlines()] == list(SCENARIOS)

    @pytest.mark.parametrize(
        ("name", "hint"), [("preemtion", " Did you mean preemption?"), ("xyz", "")]
    )
    def test_a_name_that_does_not_exist_is_told_with_those_that_do(self, name, hint):
        outcome = CliRunner().invoke(sandbox, ["--scenario", name])
        assert outcome.exit_code == 2
        text = " ".join(outcome.output.split())
        assert f"there is no scenario '{name}'.{hint} There are tour, rollout, burst," in text
