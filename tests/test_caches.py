import tracemalloc
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.caches import (
    ENTRY_BYTES,
    LARGEST_SHARE,
    BoundedCache,
    ForShortTexts,
    SharedTexts,
    SharedValues,
    are_referred_to,
    size_of,
)

COST = 1000
keys = st.integers(0, 6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), keys, st.integers(0, 2 * COST)),
        st.tuples(st.just("get"), keys),
        st.tuples(st.just("age")),
        st.tuples(st.just("clear")),
    ),
    max_size=60,
)


@given(steps, st.integers(2 * COST, 20 * COST))
def test_whatever_happens_the_bytes_are_those_of_its_entries_and_within_the_limit(taken, limit):
    cache, newest, costs = BoundedCache("c", limit), {}, {}
    for number, (step, *args) in enumerate(taken):
        if step == "put":
            key, cost = args
            cache.put(key, number, cost)
            newest[key], costs[key] = number, cost + ENTRY_BYTES
            assert cache.get(key) == (number if costs[key] <= cache.largest else None)
        elif step == "get":
            assert cache.get(*args) in (None, newest.get(*args))
        else:
            getattr(cache, step)()
        kept = [key for key in newest if cache.get(key) is not None]
        assert cache.entries == len(kept)
        assert cache.bytes == sum(costs[key] for key in kept) <= limit


def test_what_was_used_last_stays():
    cache = BoundedCache("c", 20 * (COST + ENTRY_BYTES))
    for number in range(100):
        cache.put(number, str(number), COST)
        assert cache.get(0) == "0"
        assert all(cache.get(last) for last in range(max(0, number - 3), number))
    assert cache.get(50) is None
    assert cache.evictions == 100 - cache.entries


def test_what_is_too_large_pushes_nothing_out_and_replaces_what_was_there():
    cache = BoundedCache("c", 100 * COST)
    cache.put("a", 1, COST)
    cache.put("b", 1, COST)
    cache.put("a", 2, 100 * COST // LARGEST_SHARE)
    assert (cache.get("a"), cache.get("b"), cache.evictions) == (None, 1, 0)


def test_what_is_not_used_between_two_agings_goes():
    cache = BoundedCache("c", 100 * COST)
    cache.put("used", 1, COST)
    cache.put("unused", 1, COST)
    cache.age()
    assert cache.get("used") == 1
    cache.age()
    cache.age()
    assert (cache.get("used"), cache.entries, cache.bytes) == (None, 0, 0)
    assert cache.evictions == 0


def test_aging_forgets_shared_values_that_nobody_refers_to():
    shared = SharedValues("s", 100 * COST)
    held = (1, object())
    shared.put("held", held, COST)
    shared.put("dropped", (2, object()), COST)
    shared.get("held")
    for _ in range(3):
        shared.age()
        assert (shared.get("held"), shared.get("dropped")) == (held, None)
    del held
    shared.age()
    assert (shared.entries, shared.bytes) == (0, 0)


def test_own_references_are_told_from_those_of_others():
    lonely, wanted = object(), object()
    values = {0: lonely, 1: wanted}
    holder = [lonely, wanted, wanted]
    del lonely, wanted
    assert are_referred_to(values.values(), own=1) == [False, True]
    assert holder


def test_long_texts_are_not_remembered_and_short_ones_until_the_next_aging():
    asked, remember = [], ForShortTexts("texts", entries=2, longest=3)

    @remember
    def length(text):
        asked.append(text)
        return len(text)

    for text in ("abc", "abc", "abcd", "abcd"):
        assert length(text) == len(text)
    assert asked == ["abc", "abcd", "abcd"]
    length("x")
    length("y")
    assert (remember.entries, remember.evictions) == (2, 1)
    assert 0 < remember.bytes <= remember.max_bytes
    remember.age()
    assert (remember.entries, remember.evictions) == (0, 1)
    assert length("abc") == 3


def test_texts_are_shared_while_somebody_has_them():
    texts = SharedTexts("texts", entries=3, longest=20)

    def text(number):
        return f"a text {number}"

    held = texts.first(text(1))
    assert texts.first(text(1)) is held
    texts.first(text(2))
    assert texts.first("x" * 21) == "x" * 21
    assert texts.entries == 2
    texts.age()
    assert texts.first(text(1)) is held
    assert texts.entries == 1
    for number in range(10):
        texts.first(text(number))
        assert texts.entries <= 3
        assert texts.bytes <= texts.max_bytes
    assert texts.evictions > 0


class Struct(msgspec.Struct):
    text: str
    numbers: tuple[int, ...] = ()


@dataclass(slots=True)
class Slotted:
    struct: Struct
    more: dict[str, frozenset[str]]


def build(number):
    text = f"{number:x}" * 50
    return Slotted(
        Struct(text, (number + 10**6, number + 10**7)), {text + "k": frozenset({text + "v"})}
    )


def test_sizes_are_close_to_what_is_allocated():
    tracemalloc.start()
    values = [build(number) for number in range(1000, 2000)]
    allocated, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size_of(values, 10**9) == pytest.approx(allocated, rel=0.2)


def test_the_size_of_something_large_is_not_worked_out_to_the_end():
    values = ["x" * 100] * 100_000
    assert 10**6 < size_of(values, 10**6) < 1.1 * 10**6
