from types import SimpleNamespace

from kscheduler.config.catalog import Catalog
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.extension_points import JUDGING_POINTS, Point
from kscheduler.plugins import catalog, declarations

IN_TREE = catalog().in_tree


def test_arguments_are_of_the_kind_that_is_named_after_the_plugin():
    kinds = {f"{name}Args": one.args for name, one in IN_TREE.items() if one.args is not None}
    assert kinds == catalog().kinds
    assert all(kind.__name__ == name for name, kind in kinds.items())


def test_only_one_default_plugin_cannot_sign_where_that_matters():
    judging = frozenset(JUDGING_POINTS)
    unsignable = {
        one.name
        for one in declarations()
        if one.name in catalog().unsignable and one.by_default and one.points & judging
    }
    assert unsignable == {"DeferredPodScheduling"}


def test_the_gates_that_add_plugins_exist():
    gates = FeatureGates.defaults()
    states = {one.gate: gates.enabled(one.gate) for one in declarations() if one.gate}
    assert {gate for gate, on in states.items() if on} == {
        "DynamicResourceAllocation",
        "NodeDeclaredFeatures",
    }


def declared(name, **facts):
    plain = {"points": frozenset(), "signs": True, "args": None, "by_default": True, "gate": ""}
    return SimpleNamespace(name=name, weight=0, **{**plain, **facts})


def test_default_plugins_have_the_order_of_their_declarations_and_their_gates_open():
    known = Catalog.of(
        [
            declared("B", gate="GenericWorkload"),
            declared("Z"),
            declared("A", gate="DynamicResourceAllocation"),
            declared("ByName", by_default=False),
        ]
    )
    names = [plugin.name for plugin in known.default_plugins(FeatureGates.defaults())]
    assert names == ["Z", "A"]


def test_plugins_of_others_are_known_but_never_default():
    mine = SimpleNamespace(name="Mine", points=frozenset((Point.FILTER,)), signs=False)
    known = catalog().including([mine])
    assert known.points_of["Mine"] == {Point.FILTER}
    assert known.unsignable == catalog().unsignable | {"Mine"}
    gates = FeatureGates.defaults()
    assert known.default_plugins(gates) == catalog().default_plugins(gates)
    assert known.args_of("Mine") is None
