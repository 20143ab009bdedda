"""Whatever a plugin of others does ends in its own name, in time, and is counted."""

import asyncio
import signal
import time

import numpy as np
import pytest

from kscheduler.extension_points import points_of
from kscheduler.framework import (
    SKIP,
    Code,
    ConfigError,
    Hint,
    KschedulerError,
    NodeNames,
    PostFilterResult,
    Rejection,
    Status,
    Wait,
    rejected,
    unschedulable,
)
from kscheduler.framework.cluster_event import Action, ClusterEvent, EventWithHint
from kscheduler.runtime.out_of_tree.health import Limits
from kscheduler.runtime.reserve import MAX_WAIT_SECONDS

# For those who answer late, but not too late even on a machine that stands still for a while.
PATIENT = Limits(call_seconds=60, wait_seconds=60)


def hang(*_):
    time.sleep(60)


def swallow(*_):
    while True:
        try:
            time.sleep(60)
        except Exception:
            continue


def boom(*_):
    raise ValueError("oops")


def score_of(value):
    return lambda self, cycle, pod, nodes: value


def write_column(self, cycle, pod, nodes):
    nodes.requested[0] = 1


def write_enabled(self, cycle, pod, nodes):
    nodes.pod_count.setflags(write=True)


def write_label(self, cycle, pod, nodes):
    pod.labels["a"] = "b"


def write_pod(self, cycle, pod, nodes):
    pod.pod.metadata.labels["a"] = "b"


def write_struct(self, cycle, pod, nodes):
    pod.pod.metadata.name = "other"


def write_view(self, cycle, pod, nodes):
    pod.priority = 7


def write_node(self, cycle, pod, nodes):
    nodes.node(0).metadata.labels["a"] = "b"


INVALID = (
    "applying score defaultWeights on Score plugins: "
    'plugin "A" returns an invalid score {}, '
    "it should in the range of [0, 100] after normalizing"
)
FAILED = 'running Score plugins: plugin "A" failed with: '
CHANGED = FAILED + "tried to change what it was given: "


@pytest.mark.parametrize(
    ("score", "message", "fault"),
    [
        pytest.param(boom, FAILED + "ValueError: oops", "exception", id="raises"),
        pytest.param(
            hang,
            FAILED + "timed out: it had not answered after 200ms",
            "timeout",
            id="hangs",
        ),
        pytest.param(
            swallow,
            FAILED + "timed out: it had not answered after 200ms",
            "timeout",
            id="hangs and swallows exceptions",
        ),
        pytest.param(
            score_of(np.array([1.0, np.nan, 3.0])),
            FAILED + "a score is not a number",
            "score",
            id="not a number",
        ),
        pytest.param(
            score_of([1e300, 0, 0]), FAILED + "a score does not fit 64 bits", "answer", id="huge"
        ),
        pytest.param(score_of([0, 101, 0]), INVALID.format(101), "score", id="too high"),
        pytest.param(score_of([0, 0, -1]), INVALID.format(-1), "score", id="negative"),
        pytest.param(
            score_of(np.zeros((3, 1))),
            FAILED + "expected an array of 3 scores, got an array of shape (3, 1)",
            "answer",
            id="wrong shape",
        ),
        pytest.param(
            score_of(["a", "b", "c"]),
            FAILED + "scores are <U1, not numbers",
            "answer",
            id="wrong type",
        ),
        pytest.param(
            score_of(None),
            FAILED + "expected an array of 3 scores, got NoneType",
            "answer",
            id="None",
        ),
        pytest.param(
            write_column,
            CHANGED + "ValueError: assignment destination is read-only",
            "mutation",
            id="writes to a column",
        ),
        pytest.param(
            write_enabled,
            CHANGED + "ValueError: cannot set WRITEABLE flag to True of this array",
            "mutation",
            id="makes a column writable",
        ),
        pytest.param(
            write_label,
            CHANGED + "TypeError: 'mappingproxy' object does not support item assignment",
            "mutation",
            id="writes to the pod's labels",
        ),
        pytest.param(
            write_pod,
            CHANGED + "TypeError: 'mappingproxy' object does not support item assignment",
            "mutation",
            id="writes to the API object's labels",
        ),
        pytest.param(
            write_struct,
            CHANGED + "AttributeError: immutable type: 'ObjectMeta'",
            "mutation",
            id="writes to the API object",
        ),
        pytest.param(
            write_view,
            CHANGED + "AttributeError: property 'priority' of 'PodView' object has no setter",
            "mutation",
            id="writes to the pod",
        ),
        pytest.param(
            write_node,
            CHANGED + "TypeError: 'mappingproxy' object does not support item assignment",
            "mutation",
            id="writes to a node",
        ),
    ],
)
def test_a_score_that_goes_wrong(
    score, message, fault, guarded, make_framework, cycle, pod, nodes, faults
):
    framework = make_framework(guarded(score=score))
    assert framework.run_score(cycle, pod, nodes) == Status(Code.ERROR, (message,))
    assert faults() == {("Score", fault): 1}
    assert pod.labels == {}
    assert pod.priority == 0
    assert not nodes.node(0).metadata.labels


def test_nothing_is_left_of_the_timer(guarded, make_framework, cycle, pod, nodes):
    framework = make_framework(guarded(score=hang))
    framework.run_score(cycle, pod, nodes)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


MASK = np.array([True, False, False])


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(7, "an iterable of Rejections", id="a number"),
        pytest.param(rejected("no"), "an iterable of Rejections", id="a status"),
        pytest.param(MASK, "an iterable of Rejections", id="a bare mask"),
        pytest.param([MASK], "Rejections, as unschedulable() makes them", id="masks"),
        pytest.param(
            [unschedulable(np.array([True]), "no")],
            "a mask: an array of 3 booleans",
            id="a mask that would be broadcast",
        ),
        pytest.param(
            [unschedulable(np.array([1, 0, 0]), "no")], "a mask: an array of 3 booleans", id="dtype"
        ),
        pytest.param(
            [Rejection(MASK, Code.SUCCESS, "no")],
            "a code that rejects, or Code.ERROR",
            id="not a rejection",
        ),
        pytest.param([unschedulable(MASK, None)], "a reason in words", id="no reason"),
    ],
)
def test_a_filter_that_answers_nonsense(
    answer, expected, guarded, make_framework, cycle, pod, nodes, faults
):
    framework = make_framework(guarded(filter=lambda *_: answer))
    filtered = framework.run_filter(cycle, pod, nodes)
    (error,) = filtered.errors
    assert error.reason.startswith('running "A" filter plugin: returned ')
    assert error.reason.endswith(f", expected {expected}")
    assert filtered.count == 0
    assert faults() == {("Filter", "answer"): 1}


def test_a_filter_may_be_a_generator_and_is_watched_to_its_end(
    guarded, make_framework, cycle, pod, nodes
):
    def rejections(self, cycle, pod, nodes):
        yield unschedulable(MASK, "no")
        time.sleep(60)

    framework = make_framework(guarded(filter=rejections))
    (error,) = framework.run_filter(cycle, pod, nodes).errors
    assert error.reason == ('running "A" filter plugin: timed out: it had not answered after 200ms')


def test_a_filter_one_node_at_a_time(guarded, make_framework, cycle, pod, nodes):
    def filter_node(self, cycle, pod, node):
        return None if node.name == "n1" else rejected("not n1")

    framework = make_framework(guarded(filter_node=filter_node))
    assert framework.run_filter(cycle, pod, nodes).feasible.tolist() == [1]


def test_a_score_one_node_at_a_time(guarded, make_framework, cycle, pod, nodes, faults):
    def score_node(self, cycle, pod, node):
        return float("nan") if node.name == "n1" else 1.5

    framework = make_framework(guarded(score_node=score_node))
    message = FAILED + "a score is not a number"
    assert framework.run_score(cycle, pod, nodes) == Status(Code.ERROR, (message,))
    assert faults() == {("Score", "score"): 1}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(Status(Code.UNSCHEDULABLE, "no room"), "are a tuple", id="reasons: a string"),
        pytest.param(Status(Code.UNSCHEDULABLE, (5,)), "are a tuple", id="reasons: a number"),
        pytest.param(Status(99), "a Status with a Code", id="no code"),
        pytest.param(Wait(float("nan")), "a Wait for a number of seconds", id="wait: not a number"),
        pytest.param(Wait("10s"), "a Wait for a number of seconds", id="wait: a string"),
        pytest.param(True, "a Status, a Wait or None", id="a truth"),
    ],
)
def test_answers_are_looked_into(answer, expected, guarded, make_framework, cycle, pod, faults):
    framework = make_framework(guarded(permit=lambda *_: answer))
    status = framework.run_permit(cycle, pod, "n0")
    assert status.code is Code.ERROR
    assert expected in status.message
    assert faults() == {("Permit", "answer"): 1}


def test_names_of_nodes_are_a_set(guarded, make_framework, cycle, pod, nodes, faults):
    framework = make_framework(guarded(pre_filter=lambda *_: NodeNames("n1")))
    assert (
        "NodeNames of a set of strings"
        in framework.run_pre_filter(cycle, pod, nodes).status.message
    )
    assert faults() == {("PreFilter", "answer"): 1}


@pytest.mark.parametrize(
    "registration",
    [
        EventWithHint("Node"),
        EventWithHint(ClusterEvent("Node", 1)),
        EventWithHint(ClusterEvent("Node", Action.ADD), hint="always"),
    ],
)
def test_events_to_register_are_looked_into(registration, guarded):
    plugin = guarded(filter=lambda *_: (), events_to_register=lambda self: [registration])
    with pytest.raises(KschedulerError, match="expected a"):
        plugin.events_to_register()


async def test_pre_enqueue_that_failed_is_asked_again_without_an_event(
    guarded, make_framework, pod, handle, monkeypatch
):
    module = "kscheduler.runtime.out_of_tree.guarded"
    monkeypatch.setattr(f"{module}.PRE_ENQUEUE_RETRY_SECONDS", 0.01)
    activated = asyncio.Queue()
    handle.activate = activated.put_nowait
    framework = make_framework(guarded(pre_enqueue=boom))
    background = asyncio.create_task(handle.out_of_tree.background.run())
    for _ in range(2):
        framework.run_pre_enqueue(pod)
    async with asyncio.timeout(10):
        assert await activated.get() == [pod]
        framework.run_pre_enqueue(pod)
        assert await activated.get() == [pod]
    background.cancel()


def test_it_extends_what_the_plugin_extends(guarded):
    plugin = guarded(score=score_of([0]), permit=lambda *_: None)
    assert points_of(plugin) == {"score", "permit"}


def test_methods_that_may_be_left_out_are_made_up_for(guarded, cycle, pod):
    plugin = guarded(reserve=lambda *_: None, pre_bind=lambda *_: None)
    assert plugin.unreserve(cycle, pod, "n") is None
    assert plugin.pre_bind_pre_flight(cycle, pod, "n") is None


@pytest.mark.parametrize(
    ("method", "ask", "message"),
    [
        ("pre_filter", "run_pre_filter", 'running PreFilter plugin "A": ValueError: oops'),
        ("pre_score", "run_pre_score", 'running PreScore plugin "A": ValueError: oops'),
    ],
)
def test_preparing_that_raises(method, ask, message, guarded, make_framework, cycle, pod, nodes):
    framework = make_framework(guarded(**{method: boom, "filter": lambda *_: ()}))
    answer = getattr(framework, ask)(cycle, pod, nodes)
    status = answer if isinstance(answer, Status) else answer.status
    assert status.message == message


@pytest.mark.parametrize("method", ["reserve", "permit"])
def test_about_a_node_that_raises(method, guarded, make_framework, cycle, pod):
    framework = make_framework(guarded(**{method: boom}))
    status = getattr(framework, f"run_{method}")(cycle, pod, "n0")
    assert status.code is Code.ERROR
    assert status.message == f'running {method.capitalize()} plugin "A": ValueError: oops'


def test_pre_enqueue_that_raises_gates_the_pod_and_tells_it(
    guarded, make_framework, pod, recorder, faults
):
    framework = make_framework(guarded(pre_enqueue=boom))
    assert framework.run_pre_enqueue(pod) == Status(Code.ERROR, ("ValueError: oops",), "A")
    note = 'running PreEnqueue plugin "A": ValueError: oops'
    assert recorder.events == [("p", "Warning", "FailedScheduling", note)]
    assert faults() == {("PreEnqueue", "exception"): 1}


def test_a_sort_key_that_raises_leaves_an_order_by_time(guarded, make_pod):
    class Queued:
        def __init__(self, name, timestamp):
            self.pod, self.timestamp = make_pod(name), timestamp

    def key(self, queued):
        if queued.pod.name == "bad":
            raise ValueError("oops")
        return {"a": 2, "b": 1}[queued.pod.name]

    plugin = guarded(sort_key=key)
    entities = [Queued("a", 1.0), Queued("b", 3.0), Queued("bad", 2.0)]
    keys = {one.pod.name: plugin.sort_key(one) for one in entities}
    assert keys["b"] < keys["a"]
    assert keys["a"] < keys["bad"] < keys["b"]


async def test_pre_bind_may_wait_but_not_for_ever(guarded, make_framework, cycle, pod, faults):
    async def wait(self, cycle, pod, node):
        await asyncio.sleep(60)

    framework = make_framework(guarded(pre_bind=wait))
    framework.run_pre_bind_pre_flight(cycle, pod, "n0")
    status = await framework.run_pre_bind(cycle, pod, "n0")
    assert status == Status(
        Code.ERROR,
        ('running PreBind plugin "A": timed out: it had not answered after 200ms',),
    )
    assert faults() == {("PreBind", "timeout"): 1}


async def test_pre_bind_that_blocks_the_loop_is_interrupted(
    guarded, make_framework, cycle, pod, limits
):
    async def block(self, cycle, pod, node):
        await asyncio.sleep(0)
        time.sleep(60)  # noqa: ASYNC251 - what it does wrong

    longer = Limits(call_seconds=0.2, wait_seconds=60)
    framework = make_framework(guarded(pre_bind=block, limits=longer))
    framework.run_pre_bind_pre_flight(cycle, pod, "n0")
    status = await framework.run_pre_bind(cycle, pod, "n0")
    assert status is not None
    assert status.message.endswith("timed out: it had not answered after 200ms")


async def test_a_time_out_of_its_own_is_an_exception_like_any_other(
    guarded, make_framework, cycle, pod, faults
):
    async def bind(self, cycle, pod, node):
        async with asyncio.timeout(0.01):
            await asyncio.sleep(60)

    framework = make_framework(guarded(bind=bind, limits=PATIENT))
    status = await framework.run_bind(cycle, pod, "n0")
    assert status == Status(Code.ERROR, ('running Bind plugin "A": TimeoutError: ',))
    assert faults() == {("Bind", "exception"): 1}


async def test_bind_may_be_synchronous(guarded, make_framework, cycle, pod):
    framework = make_framework(guarded(bind=lambda *_: SKIP))
    assert await framework.run_bind(cycle, pod, "n0") is SKIP


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param(None, None, id="allowed"),
        pytest.param(rejected("no"), Status(Code.UNSCHEDULABLE, ("no",), "A"), id="rejected"),
        pytest.param(
            7,
            Status(
                Code.ERROR,
                (
                    'waiting on permit for pod: running Permit plugin "A": '
                    "returned int 7, expected a Status or None",
                ),
                "A",
            ),
            id="nonsense",
        ),
    ],
)
async def test_an_asynchronous_permit_holds_the_pod_until_it_answers(
    answer, want, guarded, make_framework, handle, cycle, pod
):
    async def permit(self, cycle, pod, node):
        await asyncio.sleep(0.01)
        return answer

    framework = make_framework(guarded(permit=permit, limits=PATIENT))
    work = asyncio.create_task(handle.out_of_tree.background.run())
    hold = framework.run_permit(cycle, pod, "n0")
    framework.hold(pod, hold)
    assert await framework.wait_on_permit(pod) == want
    work.cancel()


async def test_an_asynchronous_permit_ends_when_others_have_decided(
    guarded, make_framework, cycle, make_pod, handle, faults
):
    ended = asyncio.Event()

    async def permit(self, cycle, pod, node):
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    framework = make_framework(guarded(permit=permit, limits=Limits(wait_seconds=60)))
    background = asyncio.create_task(handle.out_of_tree.background.run())
    first, second = make_pod("p"), make_pod("p")
    framework.hold(first, framework.run_permit(cycle, first, "n0"))
    for _ in range(5):
        await asyncio.sleep(0)
    handle.waiting_pods.get(first.uid).reject("B", "no")
    # The same pod on another attempt is none of the first one's business.
    framework.let_go(first)
    framework.hold(second, framework.run_permit(cycle, second, "n0"))
    async with asyncio.timeout(10):
        await ended.wait()
    assert handle.waiting_pods.get(second.uid).pending_plugins == {"A"}
    assert faults() == {}
    background.cancel()


def test_an_asynchronous_permit_without_a_bound_waits_as_long_as_any(
    guarded, make_framework, cycle, pod
):
    async def permit(self, cycle, pod, node):
        pass

    framework = make_framework(guarded(permit=permit, limits=Limits(wait_seconds=0)))
    assert framework.run_permit(cycle, pod, "n0").timeouts == {"A": MAX_WAIT_SECONDS}


@pytest.mark.parametrize("error", [ValueError("oops"), SystemExit(3)])
def test_events_to_register_that_fail_are_told_with_the_plugin_s_name(error, guarded):
    def register(self):
        raise error

    plugin = guarded(filter=lambda *_: (), events_to_register=register)
    with pytest.raises(ConfigError, match='plugin "A": events_to_register: '):
        plugin.events_to_register()


@pytest.mark.parametrize("error", [ValueError("oops"), SystemExit(3)])
def test_a_constructor_that_fails_is_told(error, guarded):
    def construct(self, args, handle):
        raise error

    with pytest.raises(ConfigError, match=type(error).__name__):
        guarded(filter=lambda *_: (), __init__=construct)


def test_permit_may_ask_to_wait(guarded, make_framework, cycle, pod):
    framework = make_framework(guarded(permit=lambda *_: Wait(3)))
    assert framework.run_permit(cycle, pod, "n0").timeouts == {"A": 3}


def test_a_post_filter_that_answers_nonsense(guarded, make_framework, cycle, pod):
    from kscheduler.framework.status import Diagnosis

    framework = make_framework(guarded(post_filter=lambda *_: None))
    result = framework.run_post_filter(cycle, pod, Diagnosis())
    message = 'running PostFilter plugin "A": returned NoneType None, expected a PostFilterResult'
    assert result == PostFilterResult(Status(Code.ERROR, (message,), "A"))


async def test_a_post_filter_whose_preparation_fails_is_named(guarded, make_framework, cycle, pod):
    from kscheduler.framework.status import Diagnosis

    async def prepare():
        raise ValueError("oops")

    def post_filter(self, cycle, pod, diagnosis):
        return PostFilterResult(Status(Code.UNSCHEDULABLE), preparation=prepare)

    framework = make_framework(guarded(post_filter=post_filter))
    result = framework.run_post_filter(cycle, pod, Diagnosis())
    assert result.preparation is not None
    message = 'running PostFilter plugin "A": ValueError: oops'
    assert (await result.preparation()).status == Status(Code.ERROR, (message,), "A")


def test_hints_see_views_and_fail_towards_trying_again(guarded, make_pod):
    seen = []

    def hint(pod, old, new):
        seen.append((pod.key, old, new.metadata.name))
        return Hint.SKIP

    event = ClusterEvent("Node", Action.ADD)
    plugin = guarded(
        filter=lambda *_: (), events_to_register=lambda self: [EventWithHint(event, hint)]
    )
    from kscheduler.api.core import Node
    from kscheduler.api.meta import ObjectMeta

    (registered,) = plugin.events_to_register()
    node = Node(metadata=ObjectMeta(name="n", labels={"a": "b"}))
    assert registered.hint(make_pod("p"), None, node) is Hint.SKIP
    assert seen == [("default/p", None, "n")]


def test_a_signature_that_is_not_json_is_no_signature(guarded, make_framework, pod, faults):
    framework = make_framework(guarded(filter=lambda *_: (), sign=lambda *_: {"a": object()}))
    assert framework.sign(pod) is None
    assert faults() == {("Sign", "answer"): 1}


def test_who_keeps_failing_is_named_and_taken_out_if_so_configured(
    guarded, make_framework, handle, cycle, pod, nodes, metrics, recorder
):
    limits = Limits(call_seconds=1, max_failures=3)
    framework = make_framework(guarded(score=boom, filter=lambda *_: (), limits=limits))
    for _ in range(2):
        framework.run_score(cycle, pod, nodes)
        framework.run_filter(cycle, pod, nodes)
    assert handle.out_of_tree.health.troubles() == ""
    framework.run_score(cycle, pod, nodes)
    assert handle.out_of_tree.health.troubles() == "A was taken out of profile default-scheduler"
    assert metrics.kscheduler_plugin_taken_out.labels("A", "default-scheduler").value == 1
    note = (
        'Plugin "A" was taken out of profile default-scheduler because it kept failing at Score: '
        "ValueError: oops"
    )
    assert recorder.events == [("p", "Warning", "PluginTakenOut", note)]
    assert framework.run_score(cycle, pod, nodes).total.tolist() == [0, 0, 0]


def test_who_keeps_failing_stays_unless_so_configured(
    guarded, make_framework, handle, cycle, pod, nodes
):
    failing = [boom, boom, boom, score_of([0, 0, 0])]
    framework = make_framework(guarded(score=lambda *args: failing.pop(0)(*args)))
    for _ in range(3):
        framework.run_score(cycle, pod, nodes)
    assert handle.out_of_tree.health.troubles() == (
        "A failed 3 times in a row at Score in profile default-scheduler"
    )
    framework.run_score(cycle, pod, nodes)
    assert handle.out_of_tree.health.troubles() == ""


def test_the_next_scheduler_begins_with_all_plugins(guarded, cycle, pod, metrics):
    plugin = guarded(reserve=boom, limits=Limits(max_failures=1))
    with pytest.raises(ValueError, match="oops"):
        plugin.reserve(cycle, pod, "n0")
    taken_out = metrics.kscheduler_plugin_taken_out.labels("A", "default-scheduler")
    assert taken_out.value == 1
    guarded(reserve=boom)
    assert taken_out.value == 0


@pytest.mark.parametrize("normalizes", [False, True])
def test_scores_out_of_range_in_a_row_are_counted_as_such(
    normalizes, guarded, make_framework, cycle, pod, nodes, handle
):
    answers = [[101, 0, 0], [0, -1, 0], [0, 0, 0], [101, 0, 0], [101, 0, 0], [101, 0, 0]]

    def score(self, cycle, pod, nodes):
        return answers.pop(0)

    methods = {"normalize": lambda self, cycle, pod, scores, nodes: scores} if normalizes else {}
    limits = Limits(call_seconds=1, max_failures=3)
    framework = make_framework(guarded(score=score, **methods, limits=limits))
    for _ in range(5):
        framework.run_score(cycle, pod, nodes)
        assert handle.out_of_tree.health.troubles() == ""
    framework.run_score(cycle, pod, nodes)
    assert handle.out_of_tree.health.troubles() == "A was taken out of profile default-scheduler"


def test_one_that_was_taken_out_is_as_if_it_were_not_there(
    guarded, make_framework, cycle, pod, nodes
):
    methods = ("pre_filter", "filter", "pre_score", "reserve", "permit", "pre_enqueue")
    plugin = guarded(**dict.fromkeys(methods, boom), limits=Limits(max_failures=1))
    framework = make_framework(plugin)
    framework.run_pre_enqueue(pod)
    assert framework.run_pre_enqueue(pod) is None
    assert framework.run_pre_filter(cycle, pod, nodes).status is None
    assert framework.run_filter(cycle, pod, nodes).count == 3
    assert framework.run_pre_score(cycle, pod, nodes) is None
    assert framework.run_reserve(cycle, pod, "n0") is None
    assert framework.run_permit(cycle, pod, "n0") is None
