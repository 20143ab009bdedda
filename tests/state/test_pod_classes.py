from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.labels import (
    EVERYTHING,
    Operator,
    Requirement,
    Selector,
    selector_from_labels,
)
from kscheduler.state import pod_classes
from kscheduler.state.pod_classes import PodClasses
from kscheduler.state.row_counts import RowCounts
from tests.kit.objects import make_pod_info


def make_pod(app, *, namespace="ns", deleted=None):
    return make_pod_info(namespace=namespace, labels={"app": app}, deleted=deleted)


def counted(classes, *conditions, terminating=True):
    """By row that has any, the pods that meet all conditions."""
    counts = RowCounts(100)
    classes.count(conditions, counts, terminating=terminating)
    return {row: count for row, count in enumerate(counts.view(100).tolist()) if count}


def test_pods_that_are_alike_share_a_class():
    classes = PodClasses()
    for row in (0, 0, 4):
        classes.add(make_pod("web"), row)
    assert len(classes) == 1
    assert counted(classes, (None, EVERYTHING)) == {0: 2, 4: 1}


def test_namespace_labels_and_deletion_tell_pods_apart():
    classes = PodClasses()
    for pod in (
        make_pod("web"),
        make_pod("db"),
        make_pod("web", namespace="x"),
        make_pod("web", deleted="now"),
    ):
        classes.add(pod, 0)
    assert len(classes) == 4


def test_a_class_without_pods_is_gone_and_its_number_is_reused():
    classes = PodClasses()
    for row, app in enumerate(("web", "db")):
        classes.add(make_pod(app), row)
    web = selector_from_labels({"app": "web"})
    assert counted(classes, (None, web)) == {0: 1}
    gone = classes.remove(make_pod("web"), 0)
    assert counted(classes, (None, web)) == {}
    assert counted(classes, (None, EVERYTHING)) == {1: 1}
    assert set(classes.label_columns.column("app").values) == {"db"}
    assert classes.add(make_pod("new"), 0).number == gone.number


def test_all_conditions_must_be_met():
    classes = PodClasses()
    for app in ("web", "db"):
        for namespace in ("x", "y"):
            classes.add(make_pod(app, namespace=namespace), 0)
    web, x = selector_from_labels({"app": "web"}), frozenset({"x"})
    assert counted(classes, (x, EVERYTHING)) == {0: 2}
    assert counted(classes, (x, EVERYTHING), (None, web)) == {0: 1}
    assert counted(classes, (x, web), (frozenset({"y"}), web)) == {}


def test_many_classes():
    classes = PodClasses()
    for number in range(100):
        classes.add(make_pod(f"a{number}"), number)
    assert counted(classes, (None, selector_from_labels({"app": "a77"}))) == {77: 1}
    assert counted(classes, (None, EVERYTHING)) == dict.fromkeys(range(100), 1)


apps = st.sampled_from([f"a{number}" for number in range(40)])
pods = st.tuples(apps, st.sampled_from("xy"), st.sampled_from([None, "now"]), st.integers(0, 9))
APPS = [f"a{number}" for number in range(40)]


@given(st.lists(pods, max_size=60), st.integers(0, 40), st.booleans(), st.integers(0, 3), st.data())
def test_few_classes_and_many_are_counted_alike(placed, wanted, terminating, few, data):
    """Those that are selected are gone through one by one if they are few, laid out otherwise."""
    classes = PodClasses()
    leaving = data.draw(st.lists(st.sampled_from(placed), max_size=3)) if placed else []
    conditions = [
        (frozenset("x"), Selector([Requirement("app", Operator.IN, frozenset(APPS[:wanted]))]))
    ]
    counts = RowCounts(10)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pod_classes, "FEW_CLASSES", few + 1)
        for app, namespace, deleted, row in [*placed, *leaving]:
            classes.add(make_pod(app, namespace=namespace, deleted=deleted), row)
        classes.count(conditions, RowCounts(10), terminating=True)
        for app, namespace, deleted, row in leaving:
            classes.remove(make_pod(app, namespace=namespace, deleted=deleted), row)
        classes.count(conditions, counts, terminating=terminating)
    want = Counter(
        row
        for app, namespace, deleted, row in placed
        if namespace == "x" and app in APPS[:wanted] and (terminating or not deleted)
    )
    assert counts.view(10).tolist() == [want[row] for row in range(10)]
