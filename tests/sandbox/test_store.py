"""The versioned store, without HTTP."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.sandbox.store import ExpiredError, Store


def make_collection(history=1000):
    return Store(history=history).add_collection("things", lambda item: {})


def thing(value=0, name="a", namespace="ns"):
    return {"metadata": {"name": name, "namespace": namespace}, "value": value}


def test_versions_grow_across_collections():
    store = Store()
    first = store.add_collection("first", lambda item: {}).put(("", "a"), thing())
    second = store.add_collection("second", lambda item: {}).put(("", "a"), thing())
    assert store.version == second.version > first.version


def test_a_stored_object_carries_its_version_and_keeps_every_field():
    stored = make_collection().put(("ns", "a"), thing() | {"unheard": {"of": [1, None]}})
    assert stored.decode() == {
        "metadata": {"name": "a", "namespace": "ns", "resourceVersion": str(stored.version)},
        "unheard": {"of": [1, None]},
        "value": 0,
    }


def test_storing_the_same_state_again_changes_nothing():
    collection = make_collection()
    first = collection.put(("ns", "a"), thing(1))
    seen = []
    collection.listen(seen.append)
    assert collection.put(("ns", "a"), {"value": 1, "metadata": thing()["metadata"]}) is first
    assert seen == []


def test_a_decoded_copy_does_not_lead_back_into_the_store():
    collection = make_collection()
    stored = collection.put(("ns", "a"), thing(1))
    stored.decode()["value"] = 2
    assert collection.get(("ns", "a")).decode()["value"] == 1


def test_keys_are_ordered_and_can_be_cut_by_namespace_and_position():
    collection = make_collection()
    for key in (("b", "x"), ("a", "y"), ("a", "x"), ("b-c", "z")):
        collection.put(key, thing(name=key[1], namespace=key[0]))
    assert collection.keys() == [("a", "x"), ("a", "y"), ("b", "x"), ("b-c", "z")]
    assert collection.keys("b") == [("b", "x")]
    assert collection.keys("", ("a", "x")) == [("a", "y"), ("b", "x"), ("b-c", "z")]


def test_old_history_is_forgotten_and_says_so():
    collection = make_collection(history=2)
    versions = [collection.put(("ns", "a"), thing(value)).version for value in range(4)]
    assert [change.version for change in collection.changes_since(versions[1])] == versions[2:]
    with pytest.raises(ExpiredError, match=r"too old resource version: \d+ \(\d+\)"):
        collection.changes_since(versions[0])
    with pytest.raises(ExpiredError):
        collection.rewound(versions[0])


def test_compaction_forgets_everything_up_to_now():
    store = Store()
    collection = store.add_collection("things", lambda item: {})
    stored = collection.put(("ns", "a"), thing(1))
    collection.put(("ns", "a"), thing(2))
    store.compact()
    assert collection.changes_since(store.version) == []
    with pytest.raises(ExpiredError):
        collection.changes_since(stored.version)


writes = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "remove"]), st.integers(0, 3)),
    max_size=40,
)


def run(store, steps):
    """Apply random writes; yields each version with the state it has, as {key: body}."""
    collection = store.add_collection("things", lambda item: {})
    yield store.version, {}
    for name, action, value in steps:
        key = ("ns", name)
        if action == "put":
            collection.put(key, thing(value, name))
        elif collection.get(key) is not None:
            collection.remove(key)
        yield store.version, {stored.key: stored.body for stored in collection}


@given(writes)
def test_following_from_any_version_leads_to_the_listed_state(steps):
    store = Store()
    past = list(run(store, steps))
    final = past[-1][1]
    for version, state in past:
        followed = dict(state)
        for change in store["things"].changes_since(version):
            if change.type == "DELETED":
                del followed[change.stored.key]
            else:
                assert (change.stored.key in followed) == (change.type == "MODIFIED")
                followed[change.stored.key] = change.stored.body
        assert followed == final


@given(writes)
def test_any_remembered_moment_can_be_listed_again(steps):
    store = Store()
    for version, state in list(run(store, steps)):
        rewound = store["things"].rewound(version)
        assert {key: stored.body for key, stored in rewound.items()} == state
