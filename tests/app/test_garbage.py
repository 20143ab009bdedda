"""What the garbage collector goes through, and what it leaves alone."""

import gc
import weakref

import pytest

from kscheduler.app import garbage


@pytest.fixture(autouse=True)
def _as_before():
    thresholds = gc.get_threshold()
    yield
    garbage.look_again()
    gc.set_threshold(*thresholds)


class Thing:
    pass


def circle():
    """Two things that only the collector can free."""
    one, other = Thing(), Thing()
    one.other, other.one = other, one
    return one


def test_survivors_of_a_full_round_are_set_aside():
    garbage.set_aside()
    kept = [Thing() for _ in range(1000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_garbage_is_collected_before_anything_is_set_aside():
    gone = weakref.ref(circle())
    garbage.set_aside()
    assert gone() is None
    gone = weakref.ref(circle())
    gc.collect()
    assert gone() is None


def test_what_was_set_aside_goes_when_nothing_refers_to_it():
    thing = Thing()
    garbage.set_aside()
    gone = weakref.ref(thing)
    del thing
    assert gone() is None


def test_after_another_look_cycles_go_as_well():
    held = circle()
    gone = weakref.ref(held)
    garbage.set_aside()
    del held
    gc.collect()
    assert gone() is not None
    garbage.look_again()
    gc.collect()
    assert gone() is None


def test_when_twice_as_much_is_set_aside_cycles_among_it_go_as_well(monkeypatch):
    monkeypatch.setattr(garbage, "FEWEST", 0)
    monkeypatch.setattr(garbage, "COUNTED_EVERY", 1)
    garbage.set_aside()
    held = circle()
    gone = weakref.ref(held)
    gc.collect()
    del held
    gc.collect()
    assert gone() is not None
    kept = [Thing() for _ in range(2 * gc.get_freeze_count())]
    gc.collect()  # Sets these aside, and finds that there are too many.
    gc.collect()
    assert gone() is None
    assert gc.get_freeze_count() >= len(kept)


def test_rounds_come_often_enough_to_be_short():
    garbage.set_aside()
    youngest, middle, oldest = gc.get_threshold()
    assert youngest * (middle + 1) * (oldest + 1) <= 200_000
