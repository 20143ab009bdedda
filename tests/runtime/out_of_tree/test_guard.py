"""A plugin that hangs again and again leaves the loop to the others."""

import time

from kscheduler.framework import Code
from kscheduler.runtime.out_of_tree.guard import TimeoutBackoff
from kscheduler.runtime.out_of_tree.health import Limits


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_three_timeouts_in_a_row_make_a_backoff():
    backoff = TimeoutBackoff(5.0, clock := Clock())
    for _ in range(2):
        backoff.timed_out("Score")
        assert backoff.refusal("Score") is None
    backoff.timed_out("Score")
    assert str(backoff.refusal("Score")) == "timed out 3 times in a row and is not asked for 1m0s"
    assert backoff.refusal("Filter") is None
    clock.now = 60.0
    assert backoff.refusal("Score") is None


def test_after_a_backoff_one_timeout_is_enough_for_the_next():
    backoff = TimeoutBackoff(5.0, clock := Clock())
    for _ in range(3):
        backoff.timed_out("Score")
    clock.now = 60.0
    backoff.timed_out("Score")
    assert str(backoff.refusal("Score")) == "timed out 4 times in a row and is not asked for 1m0s"


def test_the_backoff_grows_with_the_interruptions_it_took():
    backoff = TimeoutBackoff(5.0, Clock())
    for _ in range(3):
        backoff.timed_out("Score", interruptions=4)
    assert str(backoff.refusal("Score")) == "timed out 3 times in a row and is not asked for 4m0s"


def test_an_answer_in_time_ends_the_backoff():
    backoff = TimeoutBackoff(5.0, Clock())
    for _ in range(3):
        backoff.timed_out("Score")
    backoff.answered("Score")
    assert not backoff
    assert backoff.refusal("Score") is None


def test_in_backoff_pods_fail_at_once_and_are_counted(guarded, make_framework, cycle, pod, faults):
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
