"""Device totals: devices of a class by node, and how many of them are in use."""

import pytest

from tests.kit.devices import DRIVER, device
from tests.plugins.dynamic_resources.stage import Totals, make_class, make_slice

BIG = {"attributes": {"model": {"string": "big"}}}
IS_BIG = f'device.attributes["{DRIVER}"].model == "big"'


def test_devices_count_where_their_slice_is():
    assert Totals(make_slice("n1", devices=3), make_slice("n2", devices=1)).totals == ["3/0", "1/0"]


def test_devices_of_all_nodes_count_everywhere():
    shared = make_slice("shared", devices=2, allNodes=True)
    assert Totals(shared, make_slice("n2", devices=1)).totals == ["2/0", "3/0"]


def test_devices_may_choose_their_nodes_one_by_one():
    devices = [device("a", nodeName="n1"), device("b", allNodes=True), device("c", nodeName="n9")]
    spec = {"perDeviceNodeSelection": True, "nodeSelector": None}
    assert Totals(make_slice("any", devices=devices, **spec)).totals == ["2/0", "1/0"]


def test_only_devices_that_the_class_selects_count():
    of = make_class("big", selectors=[{"cel": {"expression": IS_BIG}}])
    small = {"attributes": {"model": {"string": "small"}}}
    slices = [make_slice("n1", devices=[device("a", **BIG), device("b", **small)])]
    assert Totals(*slices, of=of).totals == ["1/0", "0/0"]


def test_a_node_with_a_device_that_selectors_fail_on_has_none():
    of = make_class("big", selectors=[{"cel": {"expression": IS_BIG}}])
    slices = [make_slice("n1", devices=[device("a", **BIG), device("b")])]
    assert Totals(*slices, make_slice("n2", devices=[device("a", **BIG)]), of=of).totals == [
        "0/0",
        "1/0",
    ]


def test_devices_are_in_use_until_they_are_given_back():
    on = Totals(make_slice("n1", devices=3), make_slice("n2", devices=1))
    assert on.totals == ["3/0", "1/0"]
    on.take("a", "gpu-0", "gpu-2")
    on.take("b", "gpu-0", pool="n2")
    on.take("c", "gpu-0", pool="elsewhere")
    assert on.totals == ["3/2", "1/1"]
    on.manager.allocated.remove("a")
    assert on.totals == ["3/0", "1/1"]


@pytest.mark.parametrize("devices", [0, 1, 5])
def test_totals_follow_slices(devices):
    on = Totals(make_slice("n1", devices=3))
    on.take("a", "gpu-0")
    assert on.totals == ["3/1", "0/0"]
    on.informers.put(make_slice("n1", devices=devices, version="2"))
    assert on.totals == [f"{devices}/{min(devices, 1)}", "0/0"]
    on.informers.remove(make_slice("n1", devices=devices, version="2"))
    assert on.totals == ["0/0", "0/0"]


def test_totals_follow_nodes():
    on = Totals(make_slice("n1"), make_slice("n3", devices=2))
    assert on.totals == ["1/0", "0/0"]
    on.add_node("n3")
    assert on.totals == ["1/0", "0/0", "2/0"]


def test_a_class_that_is_gone_leaves_nothing():
    on = Totals(make_slice("n1"))
    assert on.totals == ["1/0", "0/0"]
    on.informers.remove(on.of)
    assert not on.manager.totals._by_class
