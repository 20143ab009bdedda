"""The index as such; that its counts are right under any history is tested with the cluster."""

from types import SimpleNamespace

import pytest

from kscheduler.api.core import (
    Affinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    WeightedPodAffinityTerm,
)
from kscheduler.api.labels import (
    EVERYTHING,
    NOTHING,
    Operator,
    Requirement,
    Selector,
    selector_from_labels,
)
from kscheduler.api.meta import LabelSelector, ObjectMeta
from kscheduler.state import carried_terms, pod_index
from kscheduler.state.affinity_term import AffinityTerm, TermKind
from kscheduler.state.namespace_sets import bytes_of_namespaces
from kscheduler.state.pod_index import LivePodIndex
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.selector_lookup import bytes_of_selector

NS = frozenset({"ns"})
NODES = SimpleNamespace(label_keys={"zone"}, label_generation=1)


def make_pod(app="web", *, namespace="ns", deleted=None, away_from=None):
    affinity = None
    if away_from:
        term = PodAffinityTerm(LabelSelector({"app": away_from}), topology_key="zone")
        affinity = Affinity(pod_anti_affinity=PodAffinity((term,)))
    metadata = ObjectMeta(
        name="p", namespace=namespace, uid="u", labels={"app": app}, deletion_timestamp=deleted
    )
    return PodInfo(Pod(metadata, PodSpec(affinity=affinity)))


def app(name):
    return selector_from_labels({"app": name})


@pytest.fixture
def index():
    index = LivePodIndex()
    index.resize(3)
    return index


def matching(index, selector, namespaces=NS, *, terminating=True):
    return index.matching(namespaces, selector, terminating=terminating).tolist()


def test_counts_exist_before_and_follow_after(index):
    index.add(make_pod(), 0)
    assert matching(index, app("web")) == [1, 0, 0]
    index.add(make_pod(), 0)
    index.add(make_pod("db"), 1)
    assert matching(index, app("web")) == [2, 0, 0]
    index.remove(make_pod(), 0)
    assert matching(index, app("web")) == [1, 0, 0]


@pytest.mark.parametrize(
    ("terminating", "want"),
    [pytest.param(True, [2, 0, 0], id="counted"), pytest.param(False, [1, 0, 0], id="left out")],
)
def test_pods_being_deleted(index, terminating, want):
    index.add(make_pod(), 0)
    index.add(make_pod(deleted="now"), 0)
    assert matching(index, app("web"), terminating=terminating) == want


@pytest.mark.parametrize(
    ("namespaces", "want"),
    [
        pytest.param(NS, [1, 0, 0], id="one"),
        pytest.param(frozenset({"ns", "other"}), [1, 1, 0], id="two"),
        pytest.param(None, [1, 1, 1], id="any"),
        pytest.param(frozenset(), [0, 0, 0], id="none"),
    ],
)
def test_namespaces(index, namespaces, want):
    for row, namespace in enumerate(["ns", "other", "third"]):
        index.add(make_pod(namespace=namespace), row)
    assert matching(index, EVERYTHING, namespaces) == want


def test_rows_that_come_are_counted_on(index):
    matching(index, app("web"))
    index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES)
    index.resize(40)
    index.add(make_pod(away_from="web"), 39)
    assert matching(index, app("web")) == [0] * 39 + [1]
    (carried,) = index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES)
    assert carried.counts.tolist() == [0] * 39 + [1]
    index.resize(100)
    assert len(matching(index, app("web"))) == 100
    (carried,) = index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES)
    assert carried.counts[39] == carried.counts.sum() == 1


def test_all_terms_must_mean_the_same_pod(index):
    index.add(make_pod("web"), 0)
    index.add(make_pod("db"), 1)
    web, anything = (AffinityTerm(NS, None, sel, "zone") for sel in (app("web"), EVERYTHING))
    db = AffinityTerm((), EVERYTHING, app("db"), "zone")
    assert index.matching_all([web, anything]).tolist() == [1, 0, 0]
    assert index.matching_all([web, db]).tolist() == [0, 0, 0]
    index.add(make_pod("web"), 2)
    assert index.matching_all([web, anything]).tolist() == [1, 0, 1]


def test_no_terms_mean_no_pod(index):
    index.add(make_pod(), 0)
    assert index.matching_all([]).tolist() == matching(index, NOTHING) == [0, 0, 0]


def test_a_term_carried_by_many_is_told_once(index):
    for row in (0, 0, 2):
        index.add(make_pod(away_from="web"), row)
    index.add(make_pod(away_from="db"), 1)
    (carried,) = index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod("web"), {}, NODES)
    assert (carried.topology_key, carried.weight) == ("zone", 1)
    assert carried.counts.tolist() == [2, 0, 1]
    assert index.carried(TermKind.REQUIRED_AFFINITY, make_pod("web"), {}, NODES) == []


def test_a_term_nobody_carries_is_forgotten(index):
    pod = make_pod(away_from="web")
    index.add(pod, 0)
    assert index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES)
    index.remove(pod, 0)
    assert index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES) == []


def test_counts_of_a_term_follow_its_carriers(index):
    pods = [make_pod(away_from="web") for _ in range(3)]
    index.add(pods[0], 0)
    (carried,) = index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES)
    index.add(pods[1], 0)
    index.add(pods[2], 1)
    assert carried.counts.tolist() == [2, 1, 0]
    index.remove(pods[0], 0)
    assert carried.counts.tolist() == [1, 1, 0]


def test_labels_of_the_namespace_are_told_apart(index):
    by_team = PodAffinityTerm(
        LabelSelector(), topology_key="zone", namespace_selector=LabelSelector({"team": "a"})
    )
    affinity = Affinity(pod_anti_affinity=PodAffinity((by_team,)))
    index.add(PodInfo(Pod(ObjectMeta(name="p", namespace="x"), PodSpec(affinity=affinity))), 0)
    found = [
        len(index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), labels, NODES))
        for labels in ({"team": "a"}, {"team": "b"}, {}, {"team": "a"})
    ]
    assert found == [1, 0, 0, 1]


def test_a_pod_touches_only_the_counts_it_is_in(index):
    for number in range(50):
        matching(index, app(f"a{number}"))
    pod = make_pod("a7")
    index.add(pod, 0)
    assert len(index._watchers(index._classes.add(pod, 0))) == 1


def make_room_for(monkeypatch, index, number):
    """Room for the counts of so many selectors of one requirement."""
    one = 4 * index._capacity + bytes_of_selector(app("web")) + bytes_of_namespaces(NS)
    monkeypatch.setattr(pod_index, "MAX_COUNT_BYTES", number * one)


def test_idle_selectors_make_room_and_come_back_right(index, monkeypatch):
    make_room_for(monkeypatch, index, 4)
    for number in range(20):
        index.add(make_pod(f"a{number % 5}"), number % 3)
        for other in range(number + 1):
            wanted = [0, 0, 0]
            for known in range(number + 1):
                wanted[known % 3] += known % 5 == other % 5
            assert matching(index, app(f"a{other % 5}")) == wanted
        assert len(index._watches) <= 4


def test_a_large_selector_takes_the_room_of_many(index, monkeypatch):
    make_room_for(monkeypatch, index, 30)
    for number in range(20):
        matching(index, app(f"a{number}"))
    large = Selector([Requirement("app", Operator.IN, frozenset(map(str, range(100))))])
    matching(index, large)
    assert len(index._watches) < 20
    assert ((NS, large),) in {conditions for conditions, _ in index._watches}


def test_selectors_nobody_asks_for_any_more_are_forgotten_when_aged(index):
    for name in ("often", "once"):
        index.add(make_pod(name), 0)
        assert matching(index, app(name)) == [1, 0, 0]
    index.age()
    assert matching(index, app("often")) == [1, 0, 0]
    index.age()
    assert {conditions for conditions, _ in index._watches} == {((NS, app("often")),)}
    assert index.entries == 1
    for name in ("often", "once"):
        index.add(make_pod(name), 1)
        assert matching(index, app(name)) == [1, 1, 0]


def test_every_cache_tells_how_full_it_is(index):
    index.add(make_pod(away_from="web"), 0)
    matching(index, app("web"))
    index.carried(TermKind.REQUIRED_ANTI_AFFINITY, make_pod(), {}, NODES)
    used = {cache.name: (cache.entries, cache.bytes > 0) for cache in index.caches if cache.entries}
    assert used == {
        "selector_counts": (1, True),
        "pod_label_columns": (1, True),
        "carried_affinity_terms": (1, True),
        "carried_affinity_counts": (1, True),
    }
    assert all(cache.bytes <= cache.max_bytes for cache in index.caches)


def test_a_forgotten_selector_keeps_no_memory_but_what_was_shown(index, monkeypatch):
    make_room_for(monkeypatch, index, 4)
    index.add(make_pod("a0"), 0)
    shown = index.matching(NS, app("a0"), terminating=True)
    (watcher,) = index._watchers(index._classes.add(make_pod("a0"), 1))
    for number in range(1, 6):
        matching(index, app(f"a{number}"))
    assert len(watcher.cells) == 0
    assert shown.tolist() == [1, 0, 0]


def test_carriers_make_room_and_come_back_right(index, monkeypatch):
    terms = index._carried[TermKind.REQUIRED_ANTI_AFFINITY]
    terms._counts.max_bytes = 10_000
    for number in range(40):
        index.add(make_pod(away_from=f"a{number}"), number % 3)
    for _ in range(2):
        for number in range(40):
            found = index.carried(
                TermKind.REQUIRED_ANTI_AFFINITY, make_pod(f"a{number}"), {}, NODES
            )
            assert [each.counts.tolist()[number % 3] for each in found] == [1]
            assert 0 < terms._counts.entries < 20


def test_terms_over_other_keys_are_not_looked_at(index):
    index.add(make_pod(away_from="web"), 0)
    kind = TermKind.REQUIRED_ANTI_AFFINITY
    assert (
        index.carried(
            kind, make_pod(), {}, SimpleNamespace(label_keys={"rack"}, label_generation=2)
        )
        == []
    )
    assert index.carried(kind, make_pod(), {}, NODES)
    assert (
        index.carried(
            kind, make_pod(), {}, SimpleNamespace(label_keys={"rack"}, label_generation=3)
        )
        == []
    )
    assert index.number_carried(kind, "zone") == 1
    assert index.number_carried(kind, "rack") == 0


def make_carrier(*selectors, weight):
    terms = [
        WeightedPodAffinityTerm(weight, PodAffinityTerm(selector, topology_key="zone"))
        for selector in selectors
    ]
    affinity = Affinity(pod_affinity=PodAffinity(preferred=tuple(terms)))
    return PodInfo(Pod(ObjectMeta(namespace="ns", uid="c"), PodSpec(affinity=affinity)))


@pytest.mark.parametrize("few", [pytest.param(0, id="arrays"), pytest.param(64, id="row by row")])
def test_several_terms_over_one_key_add_up(index, monkeypatch, few):
    monkeypatch.setattr(carried_terms, "FEW_ROWS", few)
    web, every = LabelSelector({"app": "web"}), LabelSelector()
    one, other = make_carrier(web, every, weight=5), make_carrier(web, weight=7)
    kind = TermKind.PREFERRED_AFFINITY
    for row, pod in ((0, one), (1, one), (1, other)):
        index.add(pod, row)
    (carried,) = index.carried(kind, make_pod(), {}, NODES)
    assert (carried.counts * carried.weight).tolist() == [10, 17, 0]
    index.remove(one, 1)
    (carried,) = index.carried(kind, make_pod(), {}, NODES)
    assert (carried.counts * carried.weight).tolist() == [10, 7, 0]
    index.resize(4)
    index.add(other, 3)
    (carried,) = index.carried(kind, make_pod(), {}, NODES)
    assert (carried.counts * carried.weight).tolist() == [10, 7, 0, 7]


def test_pods_with_equal_labels_share_one_label_set(index):
    one, other = make_pod(), make_pod()
    index.add(one, 0)
    index.add(other, 1)
    assert one.label_set is other.label_set
