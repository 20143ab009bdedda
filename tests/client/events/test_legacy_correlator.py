import msgspec

from kscheduler.api.core import ObjectReference
from kscheduler.client.events.legacy import (
    CoreEvent,
    EventCorrelator,
    Lru,
    core_event_body,
    core_event_patch,
)

SECOND = 10**9
T0 = 1_700_000_000 * SECOND
LEASE = ObjectReference(
    kind="Lease",
    namespace="kube-system",
    name="kube-scheduler",
    uid="u1",
    api_version="coordination.k8s.io/v1",
    resource_version="7",
)


def make(message="m", *, at=T0, name="kube-scheduler.1", reason="LeaderElection"):
    return CoreEvent(
        name=name,
        namespace="kube-system",
        regarding=LEASE,
        reason=reason,
        message=message,
        component="default-scheduler",
        type="Normal",
        first_ns=at,
        last_ns=at,
        reporting_component="default-scheduler",
    )


def test_repetition_counts_on_the_event_told_before():
    correlator = EventCorrelator()
    first = correlator.correlate(make(name="a.1"), T0)
    again = correlator.correlate(make(name="a.2", at=T0 + SECOND), T0 + SECOND)
    assert (first.name, first.count) == ("a.1", 1)
    assert (again.name, again.count, again.first_ns, again.last_ns) == ("a.1", 2, T0, T0 + SECOND)


def test_tenth_different_message_is_combined_with_those_to_come():
    correlator = EventCorrelator()
    told = [correlator.correlate(make(f"m{n}", name=f"a.{n}"), T0 + n) for n in range(12)]
    assert [one.message for one in told[:9]] == [f"m{n}" for n in range(9)]
    assert [(one.message, one.count) for one in told[9:]] == [
        ("(combined from similar events): m9", 1),
        ("(combined from similar events): m10", 2),
        ("(combined from similar events): m11", 3),
    ]
    assert told[9].name == told[10].name == f"kube-scheduler.{T0 + 9:x}"
    assert told[9].reporting_component == ""


def test_similar_messages_are_forgotten_after_ten_minutes():
    correlator = EventCorrelator()
    for n in range(9):
        correlator.correlate(make(f"m{n}"), T0)
    later = T0 + 601 * SECOND
    assert correlator.correlate(make("m9", at=later), later).message == "m9"


def test_flood_about_one_object_is_dammed_after_twenty_five():
    correlator = EventCorrelator()
    told = [correlator.correlate(make(), T0) for _ in range(30)]
    assert sum(one is not None for one in told) == 25
    later = T0 + 300 * SECOND
    assert correlator.correlate(make(at=later), later).count == 31
    assert correlator.correlate(make(at=later), later) is None


def test_other_objects_are_not_dammed():
    correlator = EventCorrelator()
    for _ in range(30):
        correlator.correlate(make(), T0)
    other = msgspec.structs.replace(make(), regarding=ObjectReference(kind="Pod", name="p"))
    assert correlator.correlate(other, T0) is not None


def test_body_is_upstreams_byte_for_byte():
    assert core_event_body(make("x became leader")).decode() == (
        '{"kind":"Event","apiVersion":"v1",'
        '"metadata":{"name":"kube-scheduler.1","namespace":"kube-system"},'
        '"involvedObject":{"kind":"Lease","namespace":"kube-system","name":"kube-scheduler",'
        '"uid":"u1","apiVersion":"coordination.k8s.io/v1","resourceVersion":"7"},'
        '"reason":"LeaderElection","message":"x became leader",'
        '"source":{"component":"default-scheduler"},"firstTimestamp":"2023-11-14T22:13:20Z",'
        '"lastTimestamp":"2023-11-14T22:13:20Z","count":1,"type":"Normal","eventTime":null,'
        '"reportingComponent":"default-scheduler","reportingInstance":""}'
    )


def test_patch_tells_count_time_and_message():
    event = msgspec.structs.replace(make(), count=3)
    assert core_event_patch(event) == (
        b'{"count":3,"lastTimestamp":"2023-11-14T22:13:20Z","message":"m"}'
    )


def test_least_recently_used_value_makes_room():
    cache = Lru(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.get("a") == 1
    cache.put("c", 3)
    assert (cache.get("a"), cache.get("b"), cache.get("c"), len(cache)) == (1, None, 3, 2)
