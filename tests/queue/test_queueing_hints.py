import pytest

from kscheduler.framework.cluster_event import (
    ANY_CHANGE,
    ASSIGNED_POD,
    FORCE_ACTIVATE,
    NODE,
    PERSISTENT_VOLUME,
    POD,
    TARGET_POD,
    UNSCHEDULED_POD,
    WILDCARD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.queueing_hints import QueueingHints, QueueingStrategy, Rejector

PROFILE = "default-scheduler"
LABEL = ClusterEvent(NODE, Action.UPDATE_NODE_LABEL)
NODE_ADDED = ClusterEvent(NODE, Action.ADD)


def queue(pod, old, new):
    return Hint.QUEUE


def skip(pod, old, new):
    return Hint.SKIP


def broken(pod, old, new):
    raise RuntimeError("no idea")


class Observed(list):
    def __call__(self, plugin, event, answer, seconds):
        assert seconds >= 0
        self.append((plugin, event, answer))


@pytest.fixture
def observed():
    return Observed()


@pytest.fixture
def hints_of(observed):
    def build(registrations):
        by_plugin = {
            plugin: [EventWithHint(event, hint) for event, hint in events]
            for plugin, events in registrations.items()
        }
        return QueueingHints({PROFILE: by_plugin}, observed)

    return build


@pytest.fixture
def waiting(make_pod):
    def build(*, by=(), pending=(), profile=PROFILE):
        pod = make_pod(profile=profile)
        return QueuedPodInfo(
            pod, timestamp=0, unschedulable_plugins=set(by), pending_plugins=set(pending)
        )

    return build


@pytest.mark.parametrize(
    ("registrations", "by", "pending", "want"),
    [
        pytest.param({}, [], [], QueueingStrategy.AFTER_BACKOFF, id="rejected by nobody"),
        pytest.param(
            {"a": [(LABEL, queue)]}, ["a"], [], QueueingStrategy.AFTER_BACKOFF, id="queue"
        ),
        pytest.param(
            {"a": [(LABEL, queue)]}, [], ["a"], QueueingStrategy.IMMEDIATELY, id="pending queue"
        ),
        pytest.param({"a": [(LABEL, skip)]}, ["a"], [], QueueingStrategy.SKIP, id="skip"),
        pytest.param(
            {"a": [(LABEL, None)]}, ["a"], [], QueueingStrategy.AFTER_BACKOFF, id="no function"
        ),
        pytest.param(
            {"a": [(LABEL, broken)]}, ["a"], [], QueueingStrategy.AFTER_BACKOFF, id="error"
        ),
        pytest.param(
            {"a": [(LABEL, broken)]}, [], ["a"], QueueingStrategy.IMMEDIATELY, id="pending error"
        ),
        pytest.param(
            {"a": [(NODE_ADDED, queue)]}, ["a"], [], QueueingStrategy.SKIP, id="another event"
        ),
        pytest.param(
            {"b": [(LABEL, queue)]}, ["a"], [], QueueingStrategy.SKIP, id="another plugin"
        ),
        pytest.param(
            {"a": [(LABEL, queue)], "b": [(LABEL, queue)]},
            ["a"],
            ["b"],
            QueueingStrategy.IMMEDIATELY,
            id="both say queue: pending wins",
        ),
        pytest.param(
            {"a": [(LABEL, queue)], "b": [(LABEL, skip)]},
            ["a"],
            ["b"],
            QueueingStrategy.AFTER_BACKOFF,
            id="pending skips, the other queues",
        ),
        pytest.param(
            {"a": [(LABEL, skip), (ClusterEvent(NODE, Action.UPDATE), queue)]},
            ["a"],
            [],
            QueueingStrategy.AFTER_BACKOFF,
            id="one of two registrations queues",
        ),
    ],
)
def test_verdict_of_a_label_change(hints_of, waiting, registrations, by, pending, want):
    pod = waiting(by=by, pending=pending)
    assert hints_of(registrations).is_pod_worth_requeuing(pod, LABEL, "old", "new") is want


def test_a_hint_of_a_plugin_that_did_not_reject_the_pod_is_never_called(hints_of, waiting):
    asked = []

    def remember(pod, old, new):
        asked.append((pod.name, old, new))
        return Hint.SKIP

    hints = hints_of({"rejector": [(LABEL, remember)], "other": [(LABEL, broken)]})
    hints.is_pod_worth_requeuing(waiting(by=["rejector"]), LABEL, "old", "new")
    assert asked == [("p", "old", "new")]


def test_each_call_is_observed_with_its_answer(hints_of, waiting, observed):
    hints = hints_of({"a": [(LABEL, skip)], "b": [(LABEL, broken)], "c": [(LABEL, queue)]})
    pod = waiting(by=["a", "b", "c"], pending=["never"])
    hints.is_pod_worth_requeuing(pod, LABEL, None, None)
    label = "NodeUpdateNodeLabel"
    assert observed == [("a", label, "QueueSkip"), ("b", label, "Error"), ("c", label, "Queue")]


@pytest.mark.parametrize(
    ("registered", "incoming", "want"),
    [
        pytest.param(LABEL, LABEL, True, id="same"),
        pytest.param(ClusterEvent(NODE, Action.UPDATE), LABEL, True, id="any update wants a label"),
        pytest.param(LABEL, ClusterEvent(NODE, Action.UPDATE), False, id="unspecific is not label"),
        pytest.param(ClusterEvent(POD, Action.ALL), ClusterEvent(ASSIGNED_POD, Action.ADD), True),
        pytest.param(ClusterEvent(POD, Action.ALL), ClusterEvent(TARGET_POD, Action.UPDATE), True),
        pytest.param(
            ClusterEvent(POD, Action.ALL), ClusterEvent(UNSCHEDULED_POD, Action.DELETE), True
        ),
        pytest.param(
            ClusterEvent(ASSIGNED_POD, Action.ALL), ClusterEvent(TARGET_POD, Action.UPDATE), False
        ),
        pytest.param(ClusterEvent(ASSIGNED_POD, Action.ALL), ClusterEvent(POD, Action.ADD), False),
        pytest.param(
            ClusterEvent(ASSIGNED_POD, Action.ALL), ClusterEvent(WILDCARD, Action.ADD), False
        ),
        pytest.param(ClusterEvent(WILDCARD, Action.ADD), NODE_ADDED, True, id="any addition"),
        pytest.param(ClusterEvent(WILDCARD, Action.ADD), LABEL, False, id="no addition"),
        pytest.param(ANY_CHANGE, LABEL, True, id="any change"),
    ],
)
def test_which_registration_wants_which_event(hints_of, registered, incoming, want):
    hints = hints_of({"a": [(registered, queue)]})
    assert hints.is_event_of_interest(incoming) is want
    assert hints.interested_in(incoming).rejectors == ((Rejector(PROFILE, "a"),) if want else ())


def test_a_wildcard_wakes_everyone_without_asking(hints_of, waiting):
    hints = hints_of({"a": [(ANY_CHANGE, broken)]})
    assert (
        hints.is_pod_worth_requeuing(waiting(by=["a"]), ANY_CHANGE, None, None)
        is QueueingStrategy.AFTER_BACKOFF
    )


def test_a_wildcard_for_one_pod_wakes_no_other(hints_of, waiting, make_pod):
    hints = hints_of({})
    for_me, for_another = make_pod("p"), make_pod("q")
    pod = waiting(by=["a"])
    assert (
        hints.is_pod_worth_requeuing(pod, FORCE_ACTIVATE, None, for_me)
        is QueueingStrategy.AFTER_BACKOFF
    )
    assert (
        hints.is_pod_worth_requeuing(pod, FORCE_ACTIVATE, None, for_another)
        is QueueingStrategy.SKIP
    )


def test_hints_of_another_profile_are_not_asked(observed, waiting):
    hints = QueueingHints({"other": {"a": [EventWithHint(LABEL, queue)]}, PROFILE: {}}, observed)
    assert hints.interested_in(LABEL).rejectors == (Rejector("other", "a"),)
    assert (
        hints.is_pod_worth_requeuing(waiting(by=["a"]), LABEL, None, None) is QueueingStrategy.SKIP
    )


def test_a_pod_of_an_unknown_profile_is_tried_again(hints_of, waiting):
    hints = hints_of({"a": [(LABEL, skip)]})
    pod = waiting(by=["a"], profile="gone")
    assert hints.is_pod_worth_requeuing(pod, LABEL, None, None) is QueueingStrategy.AFTER_BACKOFF


def test_resources_are_the_union_of_what_plugins_registered(hints_of):
    hints = hints_of(
        {
            "a": [(NODE_ADDED, queue), (ClusterEvent(POD, Action.DELETE), queue)],
            "b": [(LABEL, queue), (ClusterEvent(PERSISTENT_VOLUME, Action.UPDATE), queue)],
        }
    )
    assert hints.registered_actions() == {
        NODE: Action.ADD | Action.UPDATE_NODE_LABEL,
        ASSIGNED_POD: Action.DELETE,
        UNSCHEDULED_POD: Action.DELETE,
        TARGET_POD: Action.DELETE,
        PERSISTENT_VOLUME: Action.UPDATE,
    }


def naming(*keys):
    return lambda old, new: keys


@pytest.mark.parametrize(
    ("pre_hints", "concerned", "told"),
    [
        pytest.param([naming("a", "b")], {"a", "b"}, [("p0", "narrowed")], id="one names pods"),
        pytest.param(
            [naming("a"), naming()],
            {"a"},
            [("p0", "narrowed"), ("p1", "narrowed")],
            id="all name pods",
        ),
        pytest.param([naming("a"), None], None, [], id="another wants to be asked about any"),
        pytest.param(
            [lambda old, new: None, naming("a")], None, [("p0", "all_pods")], id="any pod"
        ),
        pytest.param([lambda old, new: 1 / 0], None, [], id="one fails"),
        pytest.param([], None, [], id="nobody waits for it"),
    ],
)
def test_pods_that_an_event_can_concern(observed, pre_hints, concerned, told):
    seen = []
    registrations = {
        f"p{number}": [EventWithHint(LABEL, queue, pre_hint)]
        for number, pre_hint in enumerate(pre_hints)
    }
    hints = QueueingHints(
        {PROFILE: registrations}, observed, lambda plugin, result: seen.append((plugin, result))
    )
    assert hints.pods_concerned(LABEL, "old", "new") == concerned
    assert seen == told
