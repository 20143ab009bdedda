"""Objects as they are assumed to be: until the server tells otherwise, or the change is undone."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kscheduler.api.core import PersistentVolumeClaim
from kscheduler.errors import MissingError
from kscheduler.plugins.volume_binding.assume_cache import AssumeCache, OutOfSyncError
from tests.plugins.volumes import Informers, in_version, make_claim

KEY = "default/c"
KNOWN = make_claim(version="3")
CHANGED = in_version(KNOWN, 3, annotations={"changed": "yes"})


@pytest.fixture
def informers():
    return Informers([KNOWN])


@pytest.fixture
def cache(informers):
    return AssumeCache(
        informers.lister(PersistentVolumeClaim), "persistentvolumeclaims", "pvc-cache"
    )


def test_what_is_assumed_is_seen(cache):
    cache.assume(CHANGED)
    assert cache.get(KEY) is CHANGED
    assert cache.require_api_obj(KEY) is KNOWN


def test_what_is_found_by_an_index_is_as_assumed(informers, cache):
    informers.lister(PersistentVolumeClaim).add_index("name", lambda claim: [claim.name])
    assert cache.by_index("name", "c") == [KNOWN]
    cache.assume(CHANGED)
    assert cache.by_index("name", "c") == [CHANGED]


def test_an_undone_change_is_gone(cache):
    cache.assume(CHANGED)
    cache.restore(CHANGED)
    assert cache.get(KEY) is KNOWN
    cache.restore(CHANGED)


def test_news_end_an_assumption(informers, cache):
    cache.assume(CHANGED)
    newer = in_version(KNOWN, 4)
    informers.put(newer)
    assert cache.get(KEY) is newer
    assert len(cache) == 0


def test_the_same_version_told_again_is_no_news(informers, cache):
    cache.assume(CHANGED)
    informers.put(KNOWN)
    cache.on_update(KNOWN, KNOWN)
    assert cache.get(KEY) is CHANGED


def test_stale_news_do_not_end_an_assumption(informers, cache):
    cache.assume(CHANGED)
    informers.put(in_version(KNOWN, 2))
    assert cache.get(KEY) is CHANGED
    informers.put(KNOWN)
    assert cache.get(KEY) is CHANGED


def test_a_deletion_ends_an_assumption(informers, cache):
    cache.assume(CHANGED)
    informers.remove(KNOWN)
    assert cache.get(KEY) is None
    informers.put(KNOWN)
    assert cache.get(KEY) is KNOWN


def test_undoing_an_older_change_leaves_a_newer_one(informers, cache):
    cache.assume(CHANGED)
    informers.put(in_version(KNOWN, 4))
    newer = in_version(KNOWN, 4, annotations={"changed": "again"})
    cache.assume(newer)
    cache.restore(CHANGED)
    assert cache.get(KEY) is newer


def test_a_change_of_another_version_is_refused(cache):
    with pytest.raises(OutOfSyncError) as caught:
        cache.assume(in_version(KNOWN, 2))
    assert str(caught.value) == '"default/c" is out of sync (stored: 3, assume: 2)'


def test_nothing_can_be_assumed_of_what_is_gone(informers, cache):
    informers.remove(KNOWN)
    with pytest.raises(MissingError) as caught:
        cache.assume(CHANGED)
    assert str(caught.value) == 'persistentvolumeclaims "default/c" not found'


NAMES = st.sampled_from(["a", "b"])
VERSIONS = st.integers(1, 4)


class Interleavings(RuleBasedStateMachine):
    """Any events, late ones and repeated ones among them, beside any assumptions: what the cache
    shows is the last change, as long as no newer version than it was made from has been told.
    """

    def __init__(self):
        super().__init__()
        self.informers = Informers()
        self.cache = AssumeCache(self.informers.lister(PersistentVolumeClaim), "claims", "")
        self.versions = {}
        self.changes = {}
        self.made = 0

    @rule(name=NAMES, version=VERSIONS)
    def told(self, name, version):
        self.informers.put(make_claim(name, version=str(version)))
        if name in self.changes and self._version_of_change(name) < version:
            del self.changes[name]
        self.versions[name] = version

    @rule(name=NAMES)
    def deleted(self, name):
        if name in self.versions:
            self.informers.remove(make_claim(name))
            del self.versions[name]
            self.changes.pop(name, None)

    @rule(name=NAMES, version=VERSIONS)
    def assumed(self, name, version):
        self.made += 1
        changed = make_claim(name, version=str(version), annotations={"n": str(self.made)})
        if self.versions.get(name) == version:
            self.cache.assume(changed)
            self.changes[name] = changed
        else:
            with pytest.raises((OutOfSyncError, MissingError)):
                self.cache.assume(changed)

    @rule(name=NAMES, version=VERSIONS)
    def undone(self, name, version):
        self.cache.restore(make_claim(name, version=str(version)))
        if name in self.changes and self._version_of_change(name) == version:
            del self.changes[name]

    def _version_of_change(self, name):
        return int(self.changes[name].metadata.resource_version)

    @invariant()
    def shows_the_last_change_that_nothing_newer_has_overtaken(self):
        for name in ("a", "b"):
            known = self.versions.get(name)
            expected = self.changes.get(name)
            if expected is None and known is not None:
                expected = make_claim(name, version=str(known))
            assert self.cache.get(f"default/{name}") == expected
        assert len(self.cache) == len(self.changes)


Interleavings.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
TestInterleavings = Interleavings.TestCase
