"""The stage of a scenario: a pace, patience, and others who play there, too."""

import asyncio

import pytest

from kscheduler.cli.scenarios import moves
from kscheduler.cli.scenarios.chapters import Chapter, pending, play, preemption
from kscheduler.cli.scenarios.stage import Stage
from kscheduler.sandbox import ApiServer, Kubelets, NodeShape
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until


@pytest.fixture
def told():
    return []


@pytest.fixture
def stage(told):
    server = ApiServer()
    Kubelets(server.registry).add_nodes(2, NodeShape(cpu="4"))
    return Stage(
        server.objects,
        lambda title, text: told.append(f"{title}: {text}"),
        seed=1,
        reading_seconds=0.0,
        patience_seconds=0.05,
    )


async def test_nothing_is_waited_for_for_ever(stage):
    assert await stage.until(lambda: True)
    assert not await stage.until(lambda: False)


async def test_a_pause_holds_it_before_the_next_step(stage, told):
    steps = []

    async def two_steps(stage):
        for number in range(2):
            steps.append(number)
            await stage.tell(str(number))

    assert stage.toggle_pause()
    async with asyncio.TaskGroup() as tasks:
        playing = tasks.create_task(play(stage, [Chapter("Steps", two_steps)], again=False))
        await until(lambda: told, "the first sentence")
        assert steps == [0]
        assert not stage.toggle_pause()
        await playing
    assert steps == [0, 1]


async def test_a_chapter_that_is_refused_ends_and_the_next_begins(stage, told):
    async def refused(stage):
        moves.set_label(stage.objects, "gone", "a", "b")

    async def next_one(stage):
        stage.say("still here")

    chapters = [Chapter("First", refused), Chapter("Second", next_one)]
    await play(stage, chapters, again=False)
    assert told == [
        '1/2 First: it ends early, for the API server says: nodes "gone" not found.',
        "2/2 Second: still here",
        "The end: nothing more happens by itself; the cluster is yours.",
    ]


async def test_hints_are_for_a_board(stage, told):
    stage.say("so it is.", "Press Enter.")
    stage._on_board = True
    stage.say("so it is.", "Press Enter.")
    assert told == [": so it is.", ": so it is. Press Enter."]


async def test_a_chapter_leaves_nothing_behind_when_it_is_broken_off(stage, told):
    patient = Stage(stage.objects, lambda title, text: told.append(text), reading_seconds=60.0)
    async with asyncio.TaskGroup() as tasks:
        playing = tasks.create_task(preemption(patient))
        await until(lambda: told, "the first sentence")
        assert stage.objects.find("deployments.apps", "filler") is not None
        playing.cancel()
    assert stage.objects.find("deployments.apps", "filler") is None
    assert stage.objects.count("priorityclasses.scheduling.k8s.io") == 2


async def test_without_a_node_that_takes_pods_there_is_nothing_to_play(stage, told):
    for node in stage.usable_nodes():
        moves.toggle_cordon(stage.objects, node)
    await pending(stage)
    await preemption(stage)
    assert told == [
        ": no node takes pods, so all of them wait.",
        ": no node has CPU left, so there is nothing to play a preemption with.",
    ]


def test_free_cpu_is_what_pods_have_not_asked_for(stage):
    stage.objects.create(pod_manifest("p", cpu="1500m", nodeName="node-0"))
    assert stage.free_milli_cpu(["node-0", "node-1"]) == {"node-0": 2500, "node-1": 4000}


def test_choices_by_chance_follow_from_the_seed(stage):
    chosen = [Stage(stage.objects, print, seed=7).some_nodes(1) for _ in range(5)]
    assert chosen == [chosen[0]] * 5
