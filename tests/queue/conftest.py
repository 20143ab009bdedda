"""Pods, profiles made of lambdas, and queues that are checked when the test is over."""

from collections import Counter

import pytest

from kscheduler.metrics import Metrics
from kscheduler.queue import SchedulingQueue
from tests.kit.log import captured_log
from tests.kit.objects import make_pod_info
from tests.queue.profiles import PROFILE, FakeProfile


def make_pod(name="p", *, uid=None, priority=None, profile=PROFILE, tolerations=0, **fields):
    """A pod as the queue holds it; its uid is its name unless given."""
    tolerated = {"tolerations": [{"key": "k"}] * tolerations} if tolerations else {}
    identity = {"namespace": "ns", "uid": uid or name, "version": "1"}
    fields = {"priority": priority, "scheduler": profile, **identity, **tolerated, **fields}
    return make_pod_info(name, **fields)


class Harness:
    """A queue and what one may ask about it."""

    def __init__(self, profiles, **options):
        self.metrics = Metrics()
        self.profile = next(iter(profiles.values()))
        self.queue = SchedulingQueue(profiles, self.metrics, **options)

    def fail(self, queued, *, by=(), pending=(), now, pod=None):
        """Ends an attempt as the failure handler does."""
        queued.unschedulable_plugins = set(by)
        queued.pending_plugins = set(pending)
        queued.gating_plugin = ""
        queued.pod = pod or queued.pod
        self.queue.add_unschedulable_if_not_present(queued, now)
        return queued

    def parked(self, pod, *, now, by=("fit",), pending=()):
        """A pod that was tried and rejected."""
        self.queue.add(pod, now)
        return self.fail(self.pop(pod.name), by=by, pending=pending, now=now)

    def pop(self, name=None):
        queued = self.queue.pop()
        assert name is None or queued.pod.name == name
        return queued

    def where(self):
        """Names by place; places without pods are left out."""
        pending = self.queue.pending()
        places = {
            "active": pending.active,
            "backoff": pending.backoff,
            "unschedulable": pending.unschedulable,
        }
        return {place: {q.pod.name for q in pods} for place, pods in places.items() if pods}

    def series(self, family):
        """Values by label values, zeros left out."""
        found = getattr(self.metrics, family)._series
        return {labels: series.value for labels, series in found.items() if series.value}

    def check(self):
        """What holds at any moment."""
        pending = self.queue.pending()
        keys = Counter(queued.key for queued in pending.pods)
        assert all(count == 1 for count in keys.values())
        gated = sum(queued.gated for queued in pending.unschedulable)
        sizes = {
            "active": len(pending.active),
            "backoff": len(pending.backoff),
            "unschedulable": len(pending.unschedulable) - gated,
            "gated": gated,
        }
        nonzero = {place: size for place, size in sizes.items() if size}
        assert self.series("pending_pods") == {(place,): n for place, n in nonzero.items()}
        assert self.series("queued_entities") == {(place, "pod"): n for place, n in nonzero.items()}
        rejections = Counter(
            (plugin, queued.profile) for queued in pending.pods for plugin in queued.rejectors
        )
        assert self.series("unschedulable_pods") == rejections
        in_flight = self.queue.in_flight
        assert sum(self.series("inflight_events").values()) == len(in_flight.entries())
        assert len(in_flight) or not in_flight.event_count

    def check_on_the_way_out(self):
        self.check()
        for uid in list(self.queue.in_flight):
            self.queue.done(uid)
        assert self.queue.in_flight.entries() == []
        assert self.series("inflight_events") == {}


@pytest.fixture(name="make_pod", scope="session")
def _make_pod():
    return make_pod


@pytest.fixture
def make_queue():
    """Builds queues from registrations and gates by plugin, and checks them when all is over."""
    made = []

    def build(events=None, gates=None, *, profiles=None, **options):
        profiles = profiles or {PROFILE: FakeProfile(events, gates)}
        made.append(Harness(profiles, **options))
        return made[-1]

    yield build
    for harness in made:
        harness.check_on_the_way_out()


@pytest.fixture
def log_text():
    """What was logged so far."""
    with captured_log() as log:
        yield lambda: log.text


@pytest.fixture(scope="session")
def fake_profile():
    return FakeProfile


@pytest.fixture(scope="session")
def new_harness():
    """A queue that the test itself checks."""
    return Harness
