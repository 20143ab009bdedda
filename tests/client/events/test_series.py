import json
import re

import msgspec
import pytest

from kscheduler.api.core import ObjectReference
from kscheduler.client.events.series import Event, SeriesCache, event_body, event_name, series_patch

SECOND = 10**9
T0 = 1_700_000_000 * SECOND + 123_456_789
POD = ObjectReference(
    kind="Pod", namespace="default", name="p1", uid="u1", api_version="v1", resource_version="7"
)


def make(regarding=POD, *, at=T0, note="note", reason="FailedScheduling"):
    return Event(
        name=event_name(regarding.name, at),
        namespace="default",
        time_ns=at,
        controller="default-scheduler",
        instance="default-scheduler-host",
        action="Scheduling",
        reason=reason,
        regarding=regarding,
        related=None,
        note=note,
        type="Warning",
    )


def counts(sent):
    return [one and one.count for one in sent]


def test_first_is_sent_the_second_starts_a_series_and_later_ones_only_count():
    cache = SeriesCache()
    sent = [cache.observe(make(at=T0 + n), T0 + n) for n in range(4)]
    assert counts(sent) == [1, 2, None, None]
    assert sent[1].name == sent[0].name
    assert [one.count for one in cache.running_series()] == [4]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        pytest.param(make(note="another"), True, id="another note"),
        pytest.param(make(reason="Scheduled"), False, id="another reason"),
        pytest.param(
            make(msgspec.structs.replace(POD, resource_version="8")), False, id="another version"
        ),
    ],
)
def test_what_makes_a_series(other, same):
    cache = SeriesCache()
    cache.observe(make(), T0)
    assert counts([cache.observe(other, T0)]) == [2 if same else 1]


def test_sent_event_is_a_copy_of_the_cached_one():
    cache = SeriesCache()
    cache.observe(make(), T0)
    started = cache.observe(make(), T0)
    cache.observe(make(), T0)
    assert started.count == 2


def test_quiet_series_and_old_events_are_over_after_six_minutes():
    cache = SeriesCache()
    single = make(reason="Scheduled")
    cache.observe(single, T0)
    for _ in range(2):
        cache.observe(make(), T0)
    assert cache.finish(T0 + 360 * SECOND) == []
    assert len(cache) == 2
    over = cache.finish(T0 + 361 * SECOND)
    assert (counts(over), len(cache)) == ([2], 1)
    cache.forget(over[0])
    assert len(cache) == 0


def test_oldest_event_makes_room():
    cache = SeriesCache(capacity=2)
    pods = [msgspec.structs.replace(POD, name=f"p{n}") for n in range(3)]
    for one in (pods[0], pods[1], pods[0], pods[2]):
        cache.observe(make(one), T0)
    assert len(cache) == 2
    assert cache.observe(make(pods[0]), T0) is None
    assert counts([cache.observe(make(pods[1]), T0)]) == [1]


def test_body_is_upstreams_byte_for_byte():
    assert event_body(make()).decode() == (
        '{"kind":"Event","apiVersion":"events.k8s.io/v1",'
        f'"metadata":{{"name":"p1.{T0:x}","namespace":"default"}},'
        '"eventTime":"2023-11-14T22:13:20.123456Z","reportingController":"default-scheduler",'
        '"reportingInstance":"default-scheduler-host","action":"Scheduling",'
        '"reason":"FailedScheduling","regarding":{"kind":"Pod","namespace":"default","name":"p1",'
        '"uid":"u1","apiVersion":"v1","resourceVersion":"7"},"note":"note","type":"Warning",'
        '"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}'
    )


def test_related_object_and_series_stand_where_go_writes_them():
    event = make()
    event.related = msgspec.structs.replace(POD, name="other")
    event.count, event.last_seen_ns = 3, T0
    assert list(json.loads(event_body(event)))[3:11] == [
        "eventTime",
        "series",
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
        "regarding",
        "related",
    ]


def test_series_patch_holds_nothing_else():
    event = make()
    event.count, event.last_seen_ns = 2, T0
    assert series_patch(event) == (
        b'{"series":{"count":2,"lastObservedTime":"2023-11-14T22:13:20.123456Z"}}'
    )


def test_name_is_random_where_the_objects_name_would_make_a_bad_one():
    assert event_name("p1", 255) == "p1.ff"
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event_name("Bad_Name", 1))
