"""The garbage collector's rounds; a daemon's caches, all known, limited, shown and aged."""

import asyncio
import gc
import sys
import weakref

from kscheduler.app import memory
from kscheduler.app.memory_limit import MemoryUse
from kscheduler.caches import BoundedCache, ForShortTexts, SharedTexts
from kscheduler.dra.device_manager import device_manager_of
from kscheduler.metrics import Metrics
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until

# As docs/operating.md says.
MOST_BYTES = 240 << 20


KINDS = (BoundedCache, ForShortTexts, SharedTexts)


class Thing:
    pass


def circle():
    """Two things that only the collector can free."""
    one, other = Thing(), Thing()
    one.other, other.one = other, one
    return one


def test_survivors_of_a_full_round_are_set_aside():
    memory.freeze()
    kept = [Thing() for _ in range(1000)]
    before = gc.get_freeze_count()
    gc.collect()
    assert gc.get_freeze_count() >= before + len(kept)


def test_garbage_is_collected_before_anything_is_set_aside():
    gone = weakref.ref(circle())
    memory.freeze()
    assert gone() is None
    gone = weakref.ref(circle())
    gc.collect()
    assert gone() is None


def test_what_was_set_aside_goes_when_nothing_refers_to_it():
    thing = Thing()
    memory.freeze()
    gone = weakref.ref(thing)
    del thing
    assert gone() is None


def test_after_another_look_cycles_go_as_well():
    held = circle()
    gone = weakref.ref(held)
    memory.freeze()
    del held
    gc.collect()
    assert gone() is not None
    memory.unfreeze()
    gc.collect()
    assert gone() is None


def test_when_twice_as_much_is_set_aside_cycles_among_it_go_as_well(monkeypatch):
    monkeypatch.setattr(memory, "FEWEST", 0)
    monkeypatch.setattr(memory, "COUNTED_EVERY", 1)
    memory.freeze()
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
    memory.freeze()
    youngest, middle, oldest = gc.get_threshold()
    assert youngest * (middle + 1) * (oldest + 1) <= 200_000


def all_caches():
    gc.collect()
    return {id(item): item for item in gc.get_objects() if isinstance(item, KINDS)}


def caches_of_modules():
    """Those that all schedulers of a process share: in modules, and in classes.

    What the sandbox remembers is not a scheduler's.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("kscheduler") and not name.startswith("kscheduler.sandbox"):
            own = [*vars(module).values()]
            own += [item for one in own if isinstance(one, type) for item in vars(one).values()]
            yield from (item for item in own if isinstance(item, KINDS))


async def test_no_cache_of_a_scheduler_is_unknown(set_up):
    before = all_caches()
    async with set_up() as daemon:
        scheduler = daemon.scheduler
        for framework in scheduler.frameworks.values():
            assert device_manager_of(framework._handle).allocator.caches
        known = list(scheduler.caches())
        unknown = all_caches().keys() - before.keys() - set(map(id, known))
        assert not {all_caches()[one].name for one in unknown}
        assert set(map(id, caches_of_modules())) <= set(map(id, known))
        assert len(set(map(id, known))) == len(known)
        assert sum(cache.max_bytes for cache in known) < MOST_BYTES


async def test_metrics_tell_of_each_cache(running, api):
    async with running() as (daemon, _):
        await until(lambda: daemon.synced)
        api.objects.create(pod_manifest("p"))
        await until(lambda: api.objects.find("pods", "p", "default")["spec"].get("nodeName"))
        families = {one.name: one for one in daemon.cc.metrics.registry.collect()}
        names = {cache.name for cache in daemon.scheduler.caches()}
        for family in ("bytes", "entries", "evictions"):
            samples = families[f"kscheduler_cache_{family}"].samples
            assert {sample.labels["cache"] for sample in samples} == names | {"decisions"}
        used = {s.labels["cache"]: s.value for s in families["kscheduler_cache_bytes"].samples}
        assert used["pod_templates"] > 1000


def test_caches_of_one_name_are_told_as_one():
    metrics = Metrics()
    caches = [BoundedCache("a", 10_000), BoundedCache("a", 10_000), BoundedCache("b", 10_000)]
    metrics.watch_caches(lambda: caches)
    for cache in caches:
        cache.put(1, 1, 0)
    entries = metrics.kscheduler_cache_entries
    assert [entries.labels(name).samples().__next__()[2] for name in "ab"] == [2, 1]


async def test_caches_are_aged_for_as_long_as_the_scheduler_is_there(monkeypatch):
    monkeypatch.setattr(memory, "AGING_SECONDS", 0)
    cache = BoundedCache("c", 10_000)
    cache.put(1, 1, 0)
    aging = asyncio.create_task(memory.age_caches(lambda: [cache]))
    await until(lambda: not cache.entries)
    aging.cancel()


async def test_caches_are_dropped_when_memory_is_short_and_what_else_can_be():
    cache: BoundedCache[str, str] = BoundedCache("a", 10_000)
    cache.put("key", "value", 10)
    uses = iter([MemoryUse(80, 100), MemoryUse(91, 100)])
    shed = []
    aging = asyncio.create_task(
        memory.age_caches(
            lambda: [cache],
            lambda: shed.append(cache.entries),
            nearest_limit=lambda: next(uses, None),
            look_seconds=0.0,
        )
    )
    await until(lambda: shed)
    aging.cancel()
    assert shed == [0]


async def test_what_did_not_help_is_not_done_again_at_once():
    """A second look would come at once, and find memory as short as before."""
    shed = []
    aging = asyncio.create_task(
        memory.age_caches(
            list, lambda: shed.append(1), nearest_limit=lambda: MemoryUse(99, 100), look_seconds=0.0
        )
    )
    await until(lambda: shed)
    for _ in range(100):
        await asyncio.sleep(0)
    aging.cancel()
    assert shed == [1]


async def test_what_grows_beyond_that_is_given_back_before_caches_age_again():
    uses = iter([92, 92, 93, 95, 94])  # short, what is left, a bit more, much more, what is left
    shed = []
    aging = asyncio.create_task(
        memory.age_caches(
            list,
            lambda: shed.append(1),
            nearest_limit=lambda: MemoryUse(next(uses, 94), 100),
            look_seconds=0.0,
        )
    )
    await until(lambda: len(shed) == 2)
    for _ in range(100):
        await asyncio.sleep(0)
    aging.cancel()
    assert len(shed) == 2
