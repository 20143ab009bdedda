"""A plugin that hangs again and again leaves the loop to the others."""

import time

from kscheduler.framework import Code
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.runtime.out_of_tree.rests import Rests


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_three_late_answers_in_a_row_make_a_rest():
    rests = Rests(5.0, clock := Clock())
    for _ in range(2):
        rests.late("Score")
        assert rests.refusal("Score") is None
    rests.late("Score")
    assert str(rests.refusal("Score")) == "timed out 3 times in a row and is not asked for 1m0s"
    assert rests.refusal("Filter") is None
    clock.now = 60.0
    assert rests.refusal("Score") is None


def test_after_a_rest_one_late_answer_is_enough_for_the_next():
    rests = Rests(5.0, clock := Clock())
    for _ in range(3):
        rests.late("Score")
    clock.now = 60.0
    rests.late("Score")
    assert str(rests.refusal("Score")) == "timed out 4 times in a row and is not asked for 1m0s"


def test_who_takes_more_to_be_ended_rests_longer():
    rests = Rests(5.0, Clock())
    for _ in range(3):
        rests.late("Score", interruptions=4)
    assert str(rests.refusal("Score")) == "timed out 3 times in a row and is not asked for 4m0s"


def test_an_answer_in_time_makes_all_good_again():
    rests = Rests(5.0, Clock())
    for _ in range(3):
        rests.late("Score")
    rests.in_time("Score")
    assert not rests
    assert rests.refusal("Score") is None


def test_while_it_rests_pods_fail_at_once_and_are_counted(
    guarded, make_framework, cycle, pod, faults
):
    limits = Limits(call_seconds=0.05, max_failures=4)
    asked = []

    def reserve(self, cycle, pod, node):
        asked.append(pod.name)
        time.sleep(60)

    plugin = guarded(reserve=reserve, limits=limits)
    framework = make_framework(plugin)
    for _ in range(6):
        status = framework.run_reserve(cycle, pod, "n0")
        assert status.code is Code.ERROR
    assert status.message == (
        'running Reserve plugin "A": timed out 3 times in a row and is not asked for 600ms'
    )
    assert len(asked) == 3
    assert faults() == {("Reserve", "timeout"): 6}


def answer_late(*_):
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        try:
            time.sleep(0.3)
        except BaseException:
            continue


async def answer_late_and_wait(*_):
    answer_late()


LATE = "timed out: it had not answered after 50ms"


def test_who_swallows_the_interruption_and_answers_is_late(
    guarded, make_framework, cycle, pod, faults
):
    framework = make_framework(guarded(reserve=answer_late, limits=Limits(call_seconds=0.05)))
    status = framework.run_reserve(cycle, pod, "n0")
    assert status.message == f'running Reserve plugin "A": {LATE}'
    assert faults() == {("Reserve", "timeout"): 1}


async def test_so_is_who_may_wait_but_blocks(guarded, make_framework, cycle, pod, faults):
    framework = make_framework(guarded(bind=answer_late_and_wait, limits=Limits(call_seconds=0.05)))
    status = await framework.run_bind(cycle, pod, "n0")
    assert status.message == f'running Bind plugin "A": {LATE}'
    assert faults() == {("Bind", "timeout"): 1}
