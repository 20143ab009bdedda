"""PreBind, Bind, PostBind: who works, who works together, and what ends it."""

import asyncio
import io
from types import SimpleNamespace as Plugin

import pytest

from kscheduler import logs
from kscheduler.framework.plugin import PreFlight
from kscheduler.framework.status import SKIP, Code, Status, failed, rejected


def raising(*_):
    raise OSError("disk full")


def pre_binding(name, pre_flight=None, work=None):
    async def nothing(cycle, pod, node):
        return None

    return Plugin(name=name, pre_bind_pre_flight=lambda *_: pre_flight, pre_bind=work or nothing)


@pytest.mark.parametrize(
    ("answers", "want", "skipped"),
    [
        pytest.param([], SKIP, set(), id="no plugin"),
        pytest.param([SKIP, SKIP], SKIP, {"A", "B"}, id="nobody has work"),
        pytest.param([SKIP, None], None, {"A"}, id="one has"),
        pytest.param([PreFlight(), SKIP], None, {"B"}, id="one has and says so"),
        pytest.param([PreFlight(has_work=False)], SKIP, {"A"}, id="none, in other words"),
        pytest.param(
            [failed("boom")],
            Status(Code.ERROR, ('running PreBindPreFlight "A": boom',)),
            set(),
            id="error",
        ),
        pytest.param(
            [rejected("no")],
            Status(
                Code.ERROR,
                (
                    'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
                    "It is supposed to return Success, Skip, or Error status",
                ),
            ),
            set(),
            id="a rejection has no place here",
        ),
    ],
)
def test_pre_flight(answers, want, skipped, make_framework, cycle, pod):
    plugins = [pre_binding(name, answer) for name, answer in zip("AB", answers, strict=False)]
    assert make_framework(*plugins).run_pre_bind_pre_flight(cycle, pod, "n1") == want
    assert cycle.skip_pre_bind == skipped


class Workshop:
    """Plugins that note when they start and end, and work until told to stop."""

    def __init__(self):
        self.log = []
        self.started = asyncio.Event()
        self.done = asyncio.Event()

    def plugin(self, name, pre_flight=None, *, answer=None, waits=False):
        async def work(cycle, pod, node):
            self.log.append(f"+{name}")
            self.started.set()
            try:
                await (self.done.wait() if waits else asyncio.sleep(0))
            finally:
                self.log.append(f"-{name}")
            return answer

        return pre_binding(name, pre_flight, work)


PARALLEL = PreFlight(allow_parallel=True)
PARALLEL_IDLE = PreFlight(allow_parallel=True, has_work=False)


@pytest.mark.parametrize(
    ("pre_flights", "want"),
    [
        pytest.param([None, None], "+A-A+B-B", id="one after the other"),
        pytest.param([PARALLEL, PARALLEL], "+A+B-A-B", id="together"),
        pytest.param(
            [None, PARALLEL, PARALLEL, None], "+A-A+B+C-B-C+D-D", id="alone, together, alone"
        ),
        pytest.param(
            [PARALLEL, SKIP, PARALLEL], "+A-A+C-C", id="a loner parts neighbours even when idle"
        ),
        pytest.param(
            [PARALLEL, PARALLEL_IDLE, PARALLEL], "+A+C-A-C", id="an idle neighbour does not"
        ),
        pytest.param([SKIP, None], "+B-B", id="idle plugins are not called"),
    ],
)
async def test_who_works_together(pre_flights, want, make_framework, cycle, pod):
    workshop = Workshop()
    plugins = [workshop.plugin(*pair) for pair in zip("ABCD", pre_flights, strict=False)]
    framework = make_framework(*plugins)
    framework.run_pre_bind_pre_flight(cycle, pod, "n1")
    assert await framework.run_pre_bind(cycle, pod, "n1") is None
    assert "".join(workshop.log) == want


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(rejected("no"), Status(Code.UNSCHEDULABLE, ("no",), "A"), id="rejection"),
        pytest.param(
            failed("boom"), Status(Code.ERROR, ('running PreBind plugin "A": boom',)), id="error"
        ),
    ],
)
async def test_the_first_failure_ends_pre_bind(answer, want, make_framework, cycle, pod):
    workshop = Workshop()
    framework = make_framework(workshop.plugin("A", answer=answer), workshop.plugin("B"))
    assert await framework.run_pre_bind(cycle, pod, "n1") == want
    assert workshop.log == ["+A", "-A"]


async def test_a_failure_ends_the_work_of_the_whole_group(make_framework, cycle, pod):
    workshop = Workshop()
    framework = make_framework(
        workshop.plugin("A", PARALLEL, waits=True),
        workshop.plugin("B", PARALLEL, answer=failed("boom")),
    )
    framework.run_pre_bind_pre_flight(cycle, pod, "n1")
    status = await framework.run_pre_bind(cycle, pod, "n1")
    assert status.message == 'running PreBind plugin "B": boom'
    assert workshop.log == ["+A", "+B", "-B", "-A"]


async def test_a_pre_bind_plugin_that_raises(make_framework, cycle, pod):
    framework = make_framework(pre_binding("A", work=raising))
    status = await framework.run_pre_bind(cycle, pod, "n1")
    assert status == Status(Code.ERROR, ('running PreBind plugin "A": OSError: disk full',))


@pytest.mark.parametrize("pre_flight", [None, PARALLEL], ids=["alone", "together"])
async def test_work_called_off_fails_with_the_reason(
    pre_flight, make_framework, cycle, pod, handle
):
    workshop = Workshop()
    framework = make_framework(
        workshop.plugin("A", pre_flight, waits=True), workshop.plugin("B", pre_flight, waits=True)
    )
    framework.run_pre_bind_pre_flight(cycle, pod, "n1")

    async def bind():
        with handle.pods_in_pre_bind.registered(pod.uid) as entry:
            return await framework.run_pre_bind(cycle, pod, "n1"), entry.mark_prebound()

    task = asyncio.create_task(bind())
    await workshop.started.wait()
    assert handle.pods_in_pre_bind.get(pod.uid).cancel("preempted by DefaultPreemption")
    status, prebound = await task
    assert status.message == 'running PreBind plugin "A": preempted by DefaultPreemption'
    assert (prebound, task.cancelling()) == (False, 0)
    assert workshop.log.count("-A") == 1


async def test_a_shutdown_is_not_mistaken_for_being_called_off(make_framework, cycle, pod, handle):
    workshop = Workshop()
    framework = make_framework(workshop.plugin("A", waits=True))

    async def bind():
        with handle.pods_in_pre_bind.registered(pod.uid):
            await framework.run_pre_bind(cycle, pod, "n1")

    task = asyncio.create_task(bind())
    await workshop.started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def log_lines():
    """At some verbosity, lines without their headers."""
    lines = io.BytesIO()

    def start(verbosity):
        logs.configure(logs.Logging(verbosity=verbosity), stderr=lines)
        return lambda: [
            line[0] + " " + line.partition("] ")[2]
            for line in lines.getvalue().decode().splitlines()
        ]

    yield start
    logs.configure(logs.Logging())


@pytest.mark.parametrize(
    ("verbosity", "answer", "want"),
    [
        pytest.param(
            3,
            failed("boom"),
            [
                'E "Plugin failed" err="boom" pod="default/p" plugin="A"',
                'E "Plugin failed" err="boom" pod="default/p" plugin="A"',
                'E "Plugin failed" err="boom" pod="default/p" plugin="A" node="n1"',
                'E "Plugin failed" err="boom" pod="default/p" plugin="A" node="n1"',
                'E "Plugin Failed" err="boom" pod="default/p" plugin="A" node="n1"',
            ],
            id="errors",
        ),
        pytest.param(
            4,
            failed("boom"),
            [
                f'E "{what}" err="boom" logger="{point}" pod="default/p" plugin="A" node="n1"'
                for what, point in (
                    ("Plugin failed", "Reserve"),
                    ("Plugin failed", "Permit"),
                    ("Plugin failed", "PreBindPreFlight"),
                    ("Plugin failed", "PreBind"),
                    ("Plugin Failed", "Bind"),
                )
            ],
            id="errors, told with the extension point",
        ),
        pytest.param(3, rejected("no"), [], id="rejections"),
        pytest.param(
            4,
            rejected("no"),
            [
                f'I "Pod rejected by {what}" logger="{point}" pod="default/p" node="n1" '
                'plugin="A" status="no"'
                for what, point in (
                    ("plugin", "Reserve"),
                    ("plugin", "Permit"),
                    ("PreBind plugin", "PreBind"),
                    ("Bind plugin", "Bind"),
                )
            ],
            id="rejections, told with the extension point",
        ),
    ],
)
async def test_plugins_that_fail_or_reject_are_logged(
    verbosity, answer, want, make_framework, cycle, pod, log_lines
):
    async def later(cycle, pod, node):
        return answer

    def at_once(cycle, pod, node):
        return answer

    framework = make_framework(
        Plugin(
            name="A",
            reserve=at_once,
            unreserve=at_once,
            permit=at_once,
            pre_bind_pre_flight=at_once,
            pre_bind=later,
            bind=later,
        )
    )
    lines = log_lines(verbosity)
    framework.run_reserve(cycle, pod, "n1")
    framework.run_permit(cycle, pod, "n1")
    framework.run_pre_bind_pre_flight(cycle, pod, "n1")
    await framework.run_pre_bind(cycle, pod, "n1")
    await framework.run_bind(cycle, pod, "n1")
    assert lines() == want


def binding(name, answer):
    async def bind(cycle, pod, node):
        return answer

    return Plugin(name=name, bind=bind)


@pytest.mark.parametrize(
    ("answers", "want"),
    [
        pytest.param([None, failed("never asked")], None, id="the first that binds ends it"),
        pytest.param([SKIP, None], None, id="skip passes the pod on"),
        pytest.param([SKIP, SKIP], SKIP, id="all skipping is a failure"),
        pytest.param([], SKIP, id="so is nobody binding"),
        pytest.param(
            [rejected("no"), None], Status(Code.UNSCHEDULABLE, ("no",), "A"), id="rejection"
        ),
        pytest.param(
            [failed("409"), None],
            Status(Code.ERROR, ('running Bind plugin "A": 409',)),
            id="error",
        ),
    ],
)
async def test_bind(answers, want, make_framework, cycle, pod):
    plugins = [binding(name, answer) for name, answer in zip("AB", answers, strict=False)]
    assert await make_framework(*plugins).run_bind(cycle, pod, "n1") == want


def test_every_post_bind_plugin_is_told_even_if_one_raises(make_framework, cycle, pod):
    told = []
    good = Plugin(name="B", post_bind=lambda cycle, pod, node: told.append((pod.name, node)))
    framework = make_framework(Plugin(name="A", post_bind=raising), good)
    framework.run_post_bind(cycle, pod, "n1")
    assert told == [("p", "n1")]
