from kscheduler.api.core import Node, NodeSpec, Taint
from kscheduler.api.meta import ObjectMeta
from kscheduler.state import nodes as nodes_module
from kscheduler.state.nodes import NodeTable, TaintSets


def test_no_taints_are_number_zero():
    assert TaintSets().number_of(()) == 0


def test_equal_lists_share_a_number_whenever_they_were_added():
    sets = TaintSets()
    number = sets.number_of([Taint("k", "v", "NoSchedule", "2026-01-01T00:00:00Z")])
    assert sets.number_of([Taint("k", "v", "NoSchedule")]) == number
    assert sets.lists[number] == (Taint("k", "v", "NoSchedule"),)


def test_lists_differ_by_order_value_and_effect():
    sets = TaintSets()
    one, other = Taint("a", "", "NoSchedule"), Taint("b", "", "NoSchedule")
    lists = [(one, other), (other, one), (one,), (Taint("a", "x", "NoSchedule"),), ()]
    assert len({sets.number_of(taints) for taints in lists}) == len(lists)


def test_lists_nobody_has_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(nodes_module, "SPARE_TAINT_LISTS", 3)
    table = NodeTable()
    stays = Taint("stays", "", "NoSchedule")
    table.put(Node(ObjectMeta(name="other"), NodeSpec(taints=(stays,))))
    for time in range(50):
        taint = Taint("deleting", str(time), "NoSchedule")
        table.put(Node(ObjectMeta(name="n"), NodeSpec(taints=(taint,))))
        assert table.taint_generation == table.generation
        numbers = table.taint_set.view
        assert [table.taints.lists[number] for number in numbers] == [(stays,), (taint,)]
        assert len(table.taints.lists) <= 7


def test_taints_have_a_generation_of_their_own():
    table = NodeTable()
    table.put(Node(ObjectMeta(name="n"), NodeSpec(taints=(Taint("k", "", "NoSchedule"),))))
    before = table.taint_generation
    table.put(Node(ObjectMeta(name="n", labels={"a": "b"}), table.nodes[0].spec))
    assert table.taint_generation == before
    table.put(Node(ObjectMeta(name="n")))
    assert table.taint_generation > before
