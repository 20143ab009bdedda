from kscheduler.config.model import Plugins
from kscheduler.extension_points import (
    EXTENSION_POINTS,
    JUDGING_POINTS,
    METHODS,
    REJECTING_POINTS,
    Point,
    points_of,
)


def test_every_point_has_a_place_in_the_file():
    assert {point.attr for point in Point} | {"multi_point"} == set(Plugins.model_fields)
    aliases = {info.alias for info in Plugins.model_fields.values()}
    assert {point.value for point in Point} | {"multiPoint"} == aliases


def test_points_are_named_after_their_interface():
    assert Point.POD_GROUP_POST_FILTER.interface == "PodGroupPostFilterPlugin"
    assert Point.BIND.interface == "BindPlugin"


def test_methods_are_told_under_the_name_of_their_point():
    for point, extension in EXTENSION_POINTS.items():
        assert extension.method.label == point.label


def test_no_method_belongs_to_two_points():
    names = [one.name for point in EXTENSION_POINTS.values() for one in point.methods]
    assert len(names) == len(set(names))
    assert set(names) < METHODS.keys()


def test_a_plugin_extends_the_points_whose_methods_it_has():
    class Plugin:
        def filter_node(self, cycle, pod, node): ...

        def pre_bind_pre_flight(self, cycle, pod, node): ...

        def score(self, cycle, pod, nodes): ...

    assert points_of(Plugin) == points_of(Plugin()) == {Point.FILTER, Point.SCORE}


def test_what_upstream_does_at_which_points():
    assert {point.value for point in REJECTING_POINTS} == {
        "preEnqueue",
        "preFilter",
        "filter",
        "reserve",
        "permit",
    }
    assert [point.label for point in JUDGING_POINTS] == ["PreFilter", "Filter", "PreScore", "Score"]
    waiting = {one.name for one in METHODS.values() if one.may_wait}
    assert waiting == {"permit", "pre_bind", "bind", "post_bind"}
