import asyncio

import pytest

from kscheduler.api.core import Pod, PodSpec
from kscheduler.api.meta import ObjectMeta
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.pace import Gate, Pace
from tests.client.following import SHAPE, Story


def make(name, version, node=""):
    metadata = ObjectMeta(name=name, namespace="ns", resource_version=str(version))
    return Pod(metadata=metadata, spec=PodSpec(node_name=node))


def by_key(*pods):
    return {one.key: one for one in pods}


@pytest.fixture
def informer():
    return Informer(SHAPE, Pace(Gate()))


async def test_store_finds_objects_by_key(informer):
    a = make("a", 1)
    await informer.replace(by_key(a, make("b", 2)))
    assert informer.get("ns/a") is a
    assert informer.get("ns/nope") is None
    assert (len(informer), [one.name for one in informer.items()]) == (2, ["a", "b"])


async def test_first_list_is_initial_and_the_second_is_told_as_differences(informer):
    story = Story()
    registration = informer.add_handler(story)
    assert not registration.has_synced
    await informer.replace(by_key(make("a", 1), make("b", 2), make("c", 3)))
    assert registration.has_synced
    await informer.replace(by_key(make("a", 1), make("b", 20), make("d", 21)))
    assert story.calls == [
        ("initial", "a", "1"),
        ("initial", "b", "2"),
        ("initial", "c", "3"),
        ("update", "b", "20"),
        ("add", "d", "21"),
        ("lost", "c", "3"),
    ]


async def test_late_handler_gets_what_is_there_and_counts_as_synced(informer):
    await informer.replace(by_key(make("a", 1)))
    story = Story()
    registration = informer.add_handler(story)
    assert (story.calls, registration.has_synced) == ([("initial", "a", "1")], True)
    informer.put("ns/b", make("b", 2))
    assert story.calls[1:] == [("add", "b", "2")]


async def test_handler_that_comes_during_the_first_list_misses_nothing(informer, monkeypatch):
    monkeypatch.setattr("kscheduler.client.informers.pace.BUDGET_SECONDS", 0.0)
    listing = asyncio.create_task(informer.replace(by_key(*(make(f"p{n}", n) for n in range(9)))))
    for _ in range(100):
        if len(informer) >= 4:
            break
        await asyncio.sleep(0)
    assert 4 <= len(informer) < 9
    story = Story()
    registration = informer.add_handler(story)
    assert not registration.has_synced
    await listing
    assert registration.has_synced
    assert story.calls == [("initial", f"p{n}", str(n)) for n in range(9)]


async def test_handler_that_raises_is_told_and_does_not_stop_the_others(informer, logged):
    class Failing(Story):
        def on_update(self, old, new):
            raise LookupError("wanted to fail")

    failing, story = Failing(), Story()
    informer.add_handler(failing)
    informer.add_handler(story)
    await informer.replace(by_key(make("a", 1)))
    informer.put("ns/a", make("a", 2))
    informer.remove("ns/a", make("a", 3))
    assert story.calls == [("initial", "a", "1"), ("update", "a", "2"), ("delete", "a", "3")]
    assert failing.calls == [("initial", "a", "1"), ("delete", "a", "3")]
    assert '"Event handler failed" err="wanted to fail" type="*v1.Pod" object="ns/a"' in logged.text
    assert "Traceback (most recent call last)" in logged.text


async def test_handler_sees_the_store_as_of_its_change(informer):
    seen = []

    class Looking(Story):
        def on_add(self, item, *, is_initial):
            seen.append((item.name, sorted(one.name for one in informer.items())))

        def on_delete(self, item, *, final_state_unknown):
            seen.append((item.name, sorted(one.name for one in informer.items())))

    informer.add_handler(Looking())
    informer.put("ns/a", make("a", 1))
    informer.put("ns/b", make("b", 2))
    informer.remove("ns/a", make("a", 3))
    assert seen == [("a", ["a"]), ("b", ["a", "b"]), ("a", ["b"])]


async def test_deletion_of_an_unknown_object_is_no_news(informer):
    story = Story()
    informer.add_handler(story)
    informer.remove("ns/a", make("a", 1))
    assert story.calls == []


def on_node(one):
    return (one.spec.node_name,) if one.spec.node_name else ()


async def test_generation_tells_of_every_change(informer):
    seen = [informer.generation]

    def look():
        seen.append(informer.generation)

    await informer.replace(by_key(make("a", 1), make("b", 1)))
    look()
    informer.put("ns/a", make("a", 2))
    look()
    informer.put("ns/a", make("a", 2))
    assert informer.generation == seen[-1]
    informer.remove("ns/b", make("b", 1))
    look()
    assert len(set(seen)) == len(seen)


async def test_index_follows_every_change(informer):
    informer.put("ns/a", make("a", 1, "n1"))
    informer.add_index("node", on_node)
    informer.put("ns/b", make("b", 2, "n1"))
    informer.put("ns/c", make("c", 3))

    def names(node):
        return sorted(one.name for one in informer.by_index("node", node))

    assert (names("n1"), names("n2"), names("")) == (["a", "b"], [], [])
    informer.put("ns/a", make("a", 4, "n2"))
    informer.remove("ns/b", make("b", 5, "n1"))
    assert (names("n1"), names("n2")) == ([], ["a"])
    await informer.replace(by_key(make("c", 6, "n2")))
    assert (names("n1"), names("n2")) == ([], ["c"])


async def test_waiting_for_sync_ends_with_the_first_list(informer):
    waiting = asyncio.create_task(informer.wait_for_sync())
    await asyncio.sleep(0)
    assert not waiting.done()
    await informer.replace({})
    await waiting
