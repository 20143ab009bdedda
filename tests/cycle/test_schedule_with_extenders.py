"""A decision in which extenders have a say: asked in between, with the world held still."""

import asyncio
from contextlib import contextmanager

import numpy as np
import pytest

from kscheduler.config.model import Extender as ExtenderConfig
from kscheduler.cycle.attempt import Attempt
from kscheduler.decisions.explain import decision_of
from kscheduler.errors import KschedulerError
from kscheduler.framework.status import unresolvable
from kscheduler.runtime.extenders.extender import Extender
from kscheduler.runtime.extenders.extenders import EXTENDER, Extenders

PATIENCE = 5.0
THREE = ("n1", "n2", "n3")


class Wire:
    """Answers by verb; an answer may be an error, or something to wait for first."""

    def __init__(self, **answers):
        self.answers = answers
        self.asked = []

    async def ask(self, verb, question, *, repeatable, is_complete):
        self.asked.append(verb)
        answer = self.answers[verb]
        if isinstance(answer, Exception):
            raise answer
        if asyncio.iscoroutinefunction(answer):
            answer = await answer()
        return answer


class World:
    """Counts how often it is held, and can tell whether it is."""

    def __init__(self):
        self.holds = 0
        self.free = asyncio.Event()
        self.free.set()

    @contextmanager
    def hold(self):
        self.holds += 1
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()

    async def moving(self):
        await self.free.wait()

    async def catch_up(self, seconds):
        await asyncio.sleep(0)


@pytest.fixture
def extend(make_rig):
    """A rig whose decisions an extender takes part in."""

    def make(wire, *plugins, nodes=("n1", "n2"), **config):
        known = {"url_prefix": "http://e", "node_cache_capable": True, **config}
        world = World()
        extender = Extender(ExtenderConfig.model_construct(**known), wire)
        extenders = Extenders([extender], world)
        rig = make_rig(*plugins, nodes=nodes, extenders=extenders)
        rig.world = world
        rig.framework._handle.extenders = extenders
        return rig

    return make


async def decide(rig):
    return await asyncio.wait_for(rig.loop.schedule_one(rig.queue.pop()), PATIENCE)


async def test_only_what_passes_is_left(extend):
    rig = extend(Wire(filter=b'{"NodeNames":["n2"]}'), filter_verb="filter")
    rig.add()
    attempt = await decide(rig)
    assert isinstance(attempt, Attempt)
    assert attempt.node == "n2"
    assert rig.world.holds == 1


async def test_nodes_that_an_extender_drops_without_a_word_do_not_count_as_judged(extend):
    wire = Wire(filter=b'{"NodeNames":["n2"],"FailedNodes":{"n3":"no"}}')
    rig = extend(wire, filter_verb="filter", nodes=("n1", "n2", "n3"))
    rig.add()
    attempt = await decide(rig)
    assert (attempt.evaluated, attempt.feasible) == (2, 1)


async def test_a_pod_that_nobody_lets_pass_waits_for_any_event(extend):
    wire = Wire(filter=b'{"NodeNames":[],"FailedNodes":{"n1":"no","n2":"no"}}')
    rig = extend(wire, filter_verb="filter")
    rig.add()
    queued = rig.queue.pop()
    assert await asyncio.wait_for(rig.loop.schedule_one(queued), PATIENCE) is None
    assert rig.events[0][5] == "0/2 nodes are available: 2 no."
    assert queued.unschedulable_plugins == {EXTENDER}


async def test_an_extender_has_the_last_word_on_why_a_node_fails(extend, scripted):
    def judge(cycle, pod, nodes):
        return [unresolvable(np.array([name == "n1" for name in nodes.names]), "too small")]

    answer = b'{"NodeNames":[],"FailedNodes":{"n1":"no"}}'
    rig = extend(Wire(filter=answer), scripted("Small", filter=judge), filter_verb="filter")
    rig.add()
    assert await decide(rig) is None
    assert rig.events[0][5] == "0/2 nodes are available: 1 no."


async def test_an_error_costs_the_pod_its_attempt(extend):
    rig = extend(Wire(filter=KschedulerError("am tired")), filter_verb="filter")
    rig.add()
    assert await decide(rig) is None
    assert rig.events[0][5] == "am tired"


async def test_an_exception_lets_the_world_move_again(extend):
    rig = extend(Wire(filter=RuntimeError("a bug")), filter_verb="filter")
    rig.add()
    assert await decide(rig) is None
    assert rig.world.free.is_set()
    assert rig.events[0][5] == "a bug"


async def test_scores_are_added(extend):
    wire = Wire(prioritize=b'[{"Host":"n2","Score":1}]')
    rig = extend(wire, prioritize_verb="prioritize", weight=1)
    rig.add()
    attempt = await decide(rig)
    assert attempt.node == "n2"
    assert rig.metrics.goroutines.labels("prioritizing_extender").value == 0


async def test_a_promised_node_is_asked_about_first(extend):
    wire = Wire(filter=b'{"NodeNames":["n1"]}')
    rig = extend(wire, filter_verb="filter")
    rig.add(nominated_node_name="n1")
    attempt = await decide(rig)
    assert attempt.node == "n1"
    assert wire.asked == ["filter"]


async def test_a_promise_that_an_extender_breaks_is_no_end(extend):
    answers = [b'{"NodeNames":[]}', b'{"NodeNames":["n2"]}']

    async def answer():
        return answers.pop(0)

    rig = extend(Wire(filter=answer), filter_verb="filter")
    rig.add(nominated_node_name="n1")
    attempt = await decide(rig)
    assert attempt.node == "n2"
    assert answers == []


async def test_what_was_said_of_a_promised_node_stands_until_something_else_is(extend):
    answers = [
        b'{"NodeNames":[],"FailedNodes":{"n1":"no","n2":"nor that"}}',
        b'{"NodeNames":[],"FailedNodes":{"n2":"never"}}',
    ]

    async def answer():
        return answers.pop(0)

    rig = extend(Wire(filter=answer), filter_verb="filter")
    rig.add(nominated_node_name="n1")
    assert await decide(rig) is None
    assert rig.events[0][5] == "0/2 nodes are available: 1 never, 1 no."


async def test_a_failed_binding_gives_back_its_room_only_when_the_world_moves(extend, scripted):
    asked, answered = asyncio.Event(), asyncio.Event()

    async def answer():
        asked.set()
        await answered.wait()
        return b'{"NodeNames":["n1"]}'

    async def fail(*_):
        raise RuntimeError("cannot bind")

    wire = Wire(filter=b'{"NodeNames":["n1"]}')
    rig = extend(wire, scripted("Fails", bind=fail), filter_verb="filter", nodes=("n1",))
    rig.add("first")
    attempt = await decide(rig)
    wire.answers["filter"] = answer
    rig.add("second")
    deciding = asyncio.create_task(decide(rig))
    await asyncio.wait_for(asked.wait(), PATIENCE)
    binding = asyncio.create_task(rig.binder.run_binding_cycle(attempt))
    for _ in range(20):
        await asyncio.sleep(0)
    assert rig.cache.is_assumed(attempt.pod)
    answered.set()
    await asyncio.wait_for(asyncio.gather(deciding, binding), PATIENCE)
    assert not rig.cache.is_assumed(attempt.pod)


async def test_answers_of_extenders_are_kept(extend):
    wire = Wire(
        filter=b'{"NodeNames":["n2","n3"],"FailedNodes":{"n1":"no"}}',
        prioritize=b'[{"Host":"n3","Score":4}]',
    )
    rig = extend(wire, filter_verb="filter", prioritize_verb="prioritize", weight=2, nodes=THREE)
    rig.add()
    await rig.bind(await decide(rig))
    last = decision_of(rig.decisions.get("ns", "p")).last
    assert [(one.verb, one.asked, one.passed) for one in last.extenders] == [
        ("Filter", 3, 2),
        ("Prioritize", 2, 1),
    ]
    assert [(one.plugin, one.reason) for one in last.rejections] == [("extender http://e", "no")]
    assert [(one.node, one.from_extenders) for one in last.scores.nodes] == [("n3", 80), ("n2", 0)]


async def test_an_extender_that_is_ignored_is_told(extend):
    rig = extend(Wire(filter=KschedulerError("no answer")), filter_verb="filter", ignorable=True)
    rig.add()
    await rig.bind(await decide(rig))
    (answer,) = decision_of(rig.decisions.get("ns", "p")).last.extenders
    assert (answer.verb, answer.passed, answer.ignored) == ("Filter", 0, True)
    assert answer.error
