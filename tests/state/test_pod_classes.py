from kscheduler.api.core import Pod
from kscheduler.api.labels import EVERYTHING, selector_from_labels
from kscheduler.api.meta import ObjectMeta
from kscheduler.state.pod_classes import PodClasses
from kscheduler.state.pod_info import PodInfo


def make_pod(app, *, namespace="ns", deleted=None):
    labels = {"app": app}
    metadata = ObjectMeta(namespace=namespace, labels=labels, deletion_timestamp=deleted)
    return PodInfo(Pod(metadata))


def selected(classes, *conditions):
    return [(found.labels["app"], found.pods) for found in classes.selected(conditions)]


def test_pods_that_are_alike_share_a_class():
    classes = PodClasses()
    for row in (0, 0, 4):
        classes.enter(make_pod("web"), row)
    assert len(classes) == 1
    assert selected(classes, (None, EVERYTHING)) == [("web", {0: 2, 4: 1})]


def test_namespace_labels_and_deletion_tell_pods_apart():
    classes = PodClasses()
    for pod in (
        make_pod("web"),
        make_pod("db"),
        make_pod("web", namespace="x"),
        make_pod("web", deleted="now"),
    ):
        classes.enter(pod, 0)
    assert len(classes) == 4


def test_a_class_without_pods_is_gone_and_its_number_is_reused():
    classes = PodClasses()
    for app in ("web", "db"):
        classes.enter(make_pod(app), 0)
    web = selector_from_labels({"app": "web"})
    assert selected(classes, (None, web)) == [("web", {0: 1})]
    gone = classes.leave(make_pod("web"), 0)
    assert selected(classes, (None, web)) == []
    assert selected(classes, (None, EVERYTHING)) == [("db", {0: 1})]
    assert set(classes._labels.column("app").values) == {"db"}
    assert classes.enter(make_pod("new"), 0).number == gone.number


def test_all_conditions_must_be_met():
    classes = PodClasses()
    for app in ("web", "db"):
        for namespace in ("x", "y"):
            classes.enter(make_pod(app, namespace=namespace), 0)
    web, x = selector_from_labels({"app": "web"}), frozenset({"x"})
    assert len(classes.selected([(x, EVERYTHING)])) == 2
    assert len(classes.selected([(x, EVERYTHING), (None, web)])) == 1
    assert len(classes.selected([(x, web), (frozenset({"y"}), web)])) == 0


def test_many_classes():
    classes = PodClasses()
    for number in range(100):
        classes.enter(make_pod(f"a{number}"), number)
    assert selected(classes, (None, selector_from_labels({"app": "a77"}))) == [("a77", {77: 1})]
    assert len(classes.selected([(None, EVERYTHING)])) == 100
