from functools import partial

import pytest

from kscheduler.api.core import Taint
from kscheduler.event_handlers import EventHandlers
from kscheduler.framework.cluster_event import (
    CSI_DRIVER,
    CSI_NODE,
    NODE,
    PERSISTENT_VOLUME,
    POD,
    RESOURCE_CLAIM,
    TARGET_POD,
    WILDCARD,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.metrics import Metrics
from kscheduler.queue import SchedulingQueue
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from tests.kit.log import captured_log
from tests.kit.objects import make_node as kit_node
from tests.kit.objects import make_pod as kit_pod

NOW = 1_700_000_000.0
OURS = "default-scheduler"
GONE = "2026-01-01T00:00:00Z"


def make_pod(name="p", *, uid=None, version="1", profile=OURS, priority=None, **fields):
    fields = {"priority": priority, "scheduler": profile, "version": version, **fields}
    return kit_pod(name, uid=uid or name, namespace="ns", **fields)


def make_node(name="n1", *, taints=(), **fields):
    return kit_node(name, allocatable={}, taints=[Taint(key) for key in taints], **fields)


class Profile:
    def __init__(self, events):
        self.events = events

    def sort_key(self, queued):
        return -queued.pod.priority, queued.timestamp

    def run_pre_enqueue(self, pod, first):
        return None

    def sign(self, pod):
        return None


class World:
    """Handlers with a real cache and queue; `woken` is every event that reached the waiting pod."""

    def __init__(self, registered=(), profiles=(OURS,), hint=lambda pod: None):
        self.woken = []
        self.hint = hint
        wanted = [POD, NODE, *registered]
        listening = [
            EventWithHint(ClusterEvent(resource, Action.ALL), partial(self._hint, resource))
            for resource in wanted
        ]
        events = {name: Profile({"fit": listening}) for name in profiles}
        self.metrics = Metrics()
        self.cache = Cache()
        self.queue = SchedulingQueue(events, self.metrics)
        self.waiting_pods = WaitingPods()
        self.vanished = []
        self.handlers = EventHandlers(
            self.cache,
            self.queue,
            profiles,
            self.metrics,
            waiting_pods=self.waiting_pods,
            vanished=lambda pod: self.vanished.append(pod.name),
            clock=lambda: NOW,
        )

    def _hint(self, resource, pod, old, new):
        self.woken.append((resource, old and old.name, new and new.name))
        self.hint(pod)
        return Hint.SKIP

    def rejected(self, pod):
        """A pod that was tried and waits for an event."""
        self.queue.add(PodInfo(pod), NOW)
        queued = self.queue.pop()
        queued.unschedulable_plugins = {"fit"}
        self.queue.add_unschedulable_if_not_present(queued, NOW)

    def assumed(self, pod, node="n1"):
        self.cache.assume(PodInfo(pod).assigned_to(node))

    @property
    def queued(self):
        return {queued.pod.name for queued in self.queue.pending().pods}

    @property
    def cached(self):
        return {pod.name: pod.node_name for pod in self.cache.pods}

    @property
    def timed(self):
        """How often each event was timed."""
        series = self.metrics.event_handling_duration_seconds._series
        return {labels[0]: histogram.count for labels, histogram in series.items()}


@pytest.fixture
def world():
    return World()


@pytest.fixture
def watched(world):
    """With one waiting pod, through which we see what is broadcast."""
    world.rejected(make_pod("watcher"))
    return world


@pytest.fixture
def log_text():
    with captured_log() as log:
        yield lambda: log.text


def test_a_node_comes_and_goes(watched):
    node = make_node()
    watched.handlers.node_added(node)
    assert watched.cache.node_names == ["n1"]
    watched.handlers.node_deleted(node)
    assert watched.cache.node_names == []
    assert watched.woken == [(NODE, None, "n1"), (NODE, "n1", None)]
    assert watched.timed == {"NodeAdd": 1, "NodeDelete": 1}


def test_waiting_pods_hear_of_a_deleted_node_while_it_is_still_cached():
    seen = []
    world = World(hint=lambda pod: seen.append(list(world.cache.node_names)))
    world.handlers.node_added(make_node())
    world.rejected(make_pod())
    world.handlers.node_deleted(make_node())
    assert seen == [["n1"]]


def test_deleting_an_unknown_node_is_only_told(world, log_text):
    world.handlers.node_deleted(make_node())
    assert '"Scheduler cache RemoveNode failed" err="node n1 is not found"' in log_text()


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({}, {}, {}, id="nothing of interest"),
        pytest.param({}, {"unschedulable": True}, {}, id="cordon"),
        pytest.param({"unschedulable": True}, {}, {"NodeUpdateNodeTaint": 1}, id="uncordon"),
        pytest.param(
            {"taints": ["a"]},
            {"labels": {"zone": "b"}},
            {"NodeUpdateNodeLabel": 1, "NodeUpdateNodeTaint": 1},
            id="label and taint",
        ),
    ],
)
def test_a_node_update_is_told_once_per_kind_of_change(watched, old, new, want):
    watched.handlers.node_updated(make_node(**old), make_node(**new))
    assert watched.timed == want
    assert len(watched.woken) == len(want)
    assert watched.cache.node_names == ["n1"]


@pytest.mark.parametrize(
    ("pod", "queued", "cached"),
    [
        pytest.param(make_pod(), {"p"}, {}, id="ours, pending"),
        pytest.param(make_pod(profile="second"), {"p"}, {}, id="our second profile's, pending"),
        pytest.param(make_pod(profile="theirs"), set(), {}, id="theirs, pending"),
        pytest.param(make_pod(node="n1"), set(), {"p": "n1"}, id="ours, assigned"),
        pytest.param(
            make_pod(node="n1", profile="theirs"), set(), {"p": "n1"}, id="theirs, assigned"
        ),
    ],
)
def test_where_a_new_pod_goes(pod, queued, cached):
    world = World(profiles=(OURS, "second"))
    world.handlers.pod_added(pod)
    assert (world.queued, world.cached) == (queued, cached)


def test_an_assigned_pod_is_told_to_waiting_pods_when_it_comes_changes_and_goes(watched):
    handlers = watched.handlers
    versions = [
        make_pod(node="n1"),
        make_pod(node="n1", labels={"a": "b"}, version="2"),
        make_pod(node="n1", labels={"a": "b"}, version="3"),
    ]
    handlers.pod_added(versions[0])
    handlers.pod_updated(versions[0], versions[1])
    handlers.pod_updated(versions[1], versions[2])
    handlers.pod_deleted(versions[2])
    assert watched.cached == {}
    assert watched.woken == [(POD, None, "p"), (POD, "p", "p"), (POD, "p", "p"), (POD, "p", None)]
    assert watched.timed == {
        "AssignedPodAdd": 1,
        "AssignedPodUpdatePodLabel": 1,
        # Each update as a whole, and the second one's only change.
        "AssignedPodUpdate": 3,
        "AssignedPodDelete": 1,
    }


def test_pending_pods_are_not_told_to_other_pods(watched):
    handlers = watched.handlers
    handlers.pod_added(make_pod())
    handlers.pod_updated(make_pod(), make_pod(version="2", labels={"a": "b"}))
    handlers.pod_deleted(make_pod(version="2"))
    assert watched.woken == []
    assert watched.queued == {"watcher"}
    assert watched.timed == {
        "UnscheduledPodAdd": 1,
        "UnscheduledPodUpdate": 1,
        "UnscheduledPodUpdatePodLabel": 1,
        "UnscheduledPodDelete": 1,
    }


def test_an_update_of_a_pending_pod_reaches_its_own_hints_as_target(world):
    world.rejected(make_pod())
    world.handlers.pod_updated(make_pod(), make_pod(version="2"))
    assert world.woken == [(POD, "p", "p")]
    assert world.queue.get("ns/p").pod.pod.metadata.resource_version == "2"


def test_an_update_of_the_same_version_is_no_update(world):
    world.handlers.pod_updated(make_pod(), make_pod(labels={"a": "b"}))
    assert world.queued == set()
    assert world.timed == {}


def test_an_update_of_a_pending_pod_of_theirs_is_ignored(world):
    world.handlers.pod_updated(make_pod(profile="theirs"), make_pod(profile="theirs", version="2"))
    assert world.queued == set()


def test_a_bound_pod_leaves_the_queue_and_confirms_its_assumption(world):
    pod = make_pod()
    world.handlers.pod_added(pod)
    world.assumed(pod)
    world.handlers.pod_updated(pod, make_pod(node="n1", version="2"))
    assert (world.queued, world.cached) == (set(), {"p": "n1"})
    assert world.cache.assumed_pod_count == 0
    assert world.timed["AssignedPodAdd"] == world.timed["UnscheduledPodDelete"] == 1


def test_a_pod_bound_elsewhere_than_assumed_is_where_the_api_server_says(world):
    world.assumed(make_pod(), "n1")
    world.handlers.pod_updated(make_pod(), make_pod(node="n2", version="2"))
    assert world.cached == {"p": "n2"}


def test_an_update_of_an_assumed_pod_leaves_cache_and_queue_alone(watched):
    watched.assumed(make_pod())
    watched.handlers.pod_updated(make_pod(), make_pod(version="2", labels={"a": "b"}))
    assert (watched.queued, watched.cached) == ({"watcher"}, {"p": "n1"})
    assert watched.woken == []


def test_an_assumed_pod_about_to_be_deleted_frees_its_node_at_once(watched):
    watched.assumed(make_pod())
    watched.handlers.pod_updated(make_pod(), make_pod(version="2", deleted=GONE))
    assert watched.cached == {}
    assert watched.woken == [(POD, "p", None)]
    watched.handlers.pod_updated(
        make_pod(version="2", deleted=GONE), make_pod(version="3", deleted=GONE)
    )
    assert len(watched.woken) == 1


async def test_an_assumed_pod_that_waits_for_permission_is_rejected_instead(watched):
    watched.assumed(make_pod())
    waiting = watched.waiting_pods.add(watched.cache.get_pod(PodInfo(make_pod())), {"gang": 9}, 0)
    watched.handlers.pod_updated(make_pod(), make_pod(version="2", deleted=GONE))
    assert watched.cached == {"p": "n1"}
    status = await waiting.decision(lambda: 0)
    assert (status.plugin, status.message) == ("", "removed")
    assert watched.woken == [(POD, "p", None)]


def test_a_deleted_assumed_pod_frees_its_node(watched):
    watched.assumed(make_pod())
    watched.handlers.pod_deleted(make_pod())
    assert watched.cached == {}
    assert watched.woken == [(POD, "p", None)]


def test_a_missed_deletion_cleans_up_a_pod_that_was_bound_meanwhile(world):
    pending = make_pod()
    world.handlers.pod_added(make_pod(node="n1"))
    world.handlers.pod_deleted(pending, final_state_unknown=True)
    assert world.cached == {}


def test_a_missed_deletion_of_a_pending_pod_takes_it_out_of_the_queue(world, log_text):
    world.handlers.pod_added(make_pod())
    world.handlers.pod_deleted(make_pod(), final_state_unknown=True)
    assert world.queued == set()
    assert "Scheduler cache RemovePod failed" in log_text()


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param("", "n1", set(), id="newly nominated"),
        pytest.param("n1", "n1", set(), id="unchanged"),
        pytest.param("n1", "n2", {"low", "same"}, id="nominated elsewhere"),
        pytest.param("n1", "", {"low", "same"}, id="no longer nominated"),
        pytest.param("n1", None, {"low", "same"}, id="deleted"),
        pytest.param("", None, set(), id="deleted, never nominated"),
    ],
)
def test_the_end_of_a_nomination_helps_pods_of_no_higher_priority(old, new, want):
    asked = set()
    world = World(hint=lambda pod: asked.add(pod.name))
    for name, priority in (("low", 1), ("same", 5), ("high", 9)):
        world.rejected(make_pod(name, priority=priority))
    before = make_pod(priority=5, nominated=old)
    world.handlers.pod_added(before)
    if new is None:
        world.handlers.pod_deleted(before)
    else:
        world.handlers.pod_updated(before, make_pod(priority=5, nominated=new, version="2"))
    assert asked == want


def test_a_pod_replaced_by_another_of_its_name_is_gone_and_there_is_a_new_one(world):
    world.handlers.pod_added(make_pod(node="n1", uid="old"))
    world.handlers.pod_updated(make_pod(node="n1", uid="old"), make_pod(uid="new", version="2"))
    assert (world.queued, world.cached) == ({"p"}, {})
    world.handlers.pod_updated(make_pod(uid="new"), make_pod(uid="newer", node="n2", version="3"))
    assert (world.queued, world.cached) == (set(), {"p": "n2"})


def test_what_the_cache_refuses_is_told_and_put_right(world, log_text):
    world.handlers.pod_updated(make_pod(node="n1"), make_pod(node="n1", version="2"))
    assert '"Scheduler cache UpdatePod failed"' in log_text()
    assert world.cached == {"p": "n1"}
    world.handlers.pod_added(make_pod(node="n2", version="3"))
    assert '"Scheduler cache AddPod failed"' in log_text()
    assert world.cached == {"p": "n2"}
    world.handlers.pod_updated(make_pod(node="n2"), make_pod(node="n3", version="4"))
    assert world.cached == {"p": "n3"}
    world.handlers.pod_deleted(make_pod(node="n1", version="4"))
    assert world.cached == {}


def test_an_assigned_pod_that_is_still_assumed_here_is_put_right(world):
    world.assumed(make_pod())
    world.handlers.pod_updated(make_pod(node="n1"), make_pod(node="n1", version="2"))
    assert (world.cached, world.cache.assumed_pod_count) == ({"p": "n1"}, 0)


def needed(registrations):
    events = {
        "plugin": [EventWithHint(ClusterEvent(name, action)) for name, action in registrations]
    }
    metrics = Metrics()
    queue = SchedulingQueue({OURS: Profile(events)}, metrics)
    handlers = EventHandlers(Cache(), queue, {OURS}, metrics, waiting_pods=WaitingPods())
    return handlers.needed_resources()


def test_only_what_plugins_wait_for_is_watched_besides_pods_and_nodes():
    assert needed(
        [
            (NODE, Action.ALL),
            (POD, Action.ALL),
            (TARGET_POD, Action.UPDATE),
            (CSI_NODE, Action.ADD),
            (CSI_NODE, Action.UPDATE),
            (CSI_DRIVER, Action.UPDATE),
            ("foos.v1.example.com", Action.ADD),
        ]
    ) == {
        CSI_NODE: Action.ADD | Action.UPDATE,
        CSI_DRIVER: Action.UPDATE,
        "foos.v1.example.com": Action.ADD,
    }


def test_a_malformed_name_is_told_and_skipped_and_the_others_are_watched(log_text):
    names = ["foos.v1", "bars.v1.example.com", WILDCARD]
    assert needed([(name, Action.ADD) for name in names]) == {"bars.v1.example.com": Action.ADD}
    assert log_text().count('"Incorrect event registration"') == 2
    assert 'gvk="foos.v1"' in log_text()


def test_other_kinds_are_told_as_they_come():
    world = World(registered=[PERSISTENT_VOLUME, "foos.v1.example.com"])
    world.rejected(make_pod())
    volume = make_node("volume")
    subscriber = world.handlers.others(PERSISTENT_VOLUME)
    subscriber.on_add(volume, is_initial=False)
    subscriber.on_update(volume, volume)
    subscriber.on_delete(volume, final_state_unknown=True)
    world.handlers.others("foos.v1.example.com").on_add(volume, is_initial=True)
    world.handlers.others(RESOURCE_CLAIM).on_add(volume, is_initial=False)
    assert world.woken == [
        (PERSISTENT_VOLUME, None, "volume"),
        (PERSISTENT_VOLUME, "volume", "volume"),
        (PERSISTENT_VOLUME, "volume", None),
        ("foos.v1.example.com", None, "volume"),
    ]
    assert world.timed == {
        "PersistentVolumeAdd": 1,
        "PersistentVolumeUpdate": 1,
        "PersistentVolumeDelete": 1,
        "foos.v1.example.comAdd": 1,
    }


def test_actions_nobody_waits_for_are_not_told():
    events = {"plugin": [EventWithHint(ClusterEvent(CSI_DRIVER, Action.UPDATE))]}
    metrics = Metrics()
    queue = SchedulingQueue({OURS: Profile(events)}, metrics)
    handlers = EventHandlers(Cache(), queue, {OURS}, metrics, waiting_pods=WaitingPods())
    handlers.added(CSI_DRIVER, make_node())
    handlers.deleted(CSI_DRIVER, make_node())
    handlers.updated(CSI_DRIVER, make_node(), make_node())
    assert list(metrics.event_handling_duration_seconds._series) == [
        ("storage.k8s.io/CSIDriverUpdate",)
    ]


def test_informers_call_the_same_methods(world):
    pods, nodes = world.handlers.pods, world.handlers.nodes
    nodes.on_add(make_node(), is_initial=True)
    nodes.on_update(make_node(), make_node(labels={"a": "b"}))
    pods.on_add(make_pod(), is_initial=True)
    pods.on_update(make_pod(), make_pod(node="n1", version="2"))
    assert world.cached == {"p": "n1"}
    pods.on_delete(make_pod(), final_state_unknown=True)
    nodes.on_delete(make_node(), final_state_unknown=False)
    assert (world.cached, world.cache.node_names) == ({}, [])


class TestForeignBinds:
    """A node of four CPUs; `other` names a scheduler that is not ours."""

    @pytest.fixture
    def world(self):
        world = World()
        world.handlers.node_added(kit_node("n1", allocatable={"cpu": "4", "pods": "10"}))
        world.cache.foreign_binds.noticed = True
        return world

    @staticmethod
    def counted(world):
        return {
            series[0]: counter.value
            for family in (
                world.metrics.kscheduler_foreign_binds_total,
                world.metrics.kscheduler_conflicts_total,
            )
            for series, counter in family._series.items()
        }

    def test_our_own_bind_is_none(self, world):
        world.assumed(make_pod())
        world.handlers.pod_updated(make_pod(), make_pod(node="n1", version="2"))
        assert self.counted(world) == {}

    def test_a_pod_of_another_scheduler_is_one(self, world):
        world.handlers.pod_added(make_pod(profile="other"))
        world.handlers.pod_updated(
            make_pod(profile="other"), make_pod(profile="other", node="n1", version="2")
        )
        assert self.counted(world) == {"other-pod": 1}
        assert world.cache.foreign_binds.any_since(0, "n1")

    @pytest.mark.parametrize("assumed", [False, True])
    def test_a_pod_of_ours_that_we_did_not_put_there_is_one(self, world, assumed):
        world.handlers.pod_added(make_pod())
        if assumed:
            world.assumed(make_pod(), "n2")
        world.handlers.pod_updated(make_pod(), make_pod(node="n1", version="2"))
        assert self.counted(world) == {"own-pod": 1}

    def test_later_changes_of_it_are_none(self, world):
        world.handlers.pod_added(make_pod(profile="other", node="n1"))
        world.handlers.pod_updated(
            make_pod(profile="other", node="n1"),
            make_pod(profile="other", node="n1", version="2", labels={"a": "b"}),
        )
        assert self.counted(world) == {"other-pod": 1}

    def test_a_bind_of_ours_that_met_a_deletion_is_none(self, world):
        """The deletion took the assumption away, and then the bind was carried out all the same."""
        world.assumed(make_pod())
        world.handlers.pod_updated(make_pod(), make_pod(version="2", deleted=GONE))
        world.handlers.pod_updated(
            make_pod(version="2", deleted=GONE), make_pod(version="3", deleted=GONE, node="n1")
        )
        assert self.counted(world) == {}

    def test_before_this_instance_leads_nothing_is_one(self, world):
        world.cache.foreign_binds.noticed = False
        world.handlers.pod_added(make_pod(profile="other", node="n1"))
        world.handlers.pod_added(make_pod("q", node="n1"))
        assert self.counted(world) == {}
        assert world.cache.foreign_binds.latest == 0

    def test_a_node_with_more_on_it_than_it_has_is_a_conflict(self, world):
        world.assumed(make_pod(requests={"cpu": "3"}))
        theirs = make_pod("q", profile="other", node="n1", requests={"cpu": "1"})
        world.handlers.pod_added(theirs)
        assert self.counted(world) == {"other-pod": 1}
        theirs = make_pod("r", profile="other", node="n1", requests={"cpu": "1"})
        world.handlers.pod_added(theirs)
        assert self.counted(world) == {"other-pod": 2, "node-overcommitted": 1}


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(make_pod(node="n1", status={"phase": "Pending"}), ["p"], id="before it ran"),
        pytest.param(make_pod(node="n1", status={"phase": "Running"}), [], id="running"),
        pytest.param(make_pod(node="n1", deleted=GONE), [], id="deleted"),
        pytest.param(make_pod(), [], id="without a node"),
        pytest.param(make_pod(node="n1", profile="other"), [], id="of another scheduler"),
    ],
)
def test_pods_that_leave_their_node_before_they_ran_are_reported(world, pod, want):
    world.handlers.pod_added(pod)
    world.handlers.pod_deleted(pod)
    assert world.vanished == want
