"""An attempt's memory and its copies."""

from dataclasses import dataclass, field

import pytest

from kscheduler.framework.cycle_state import CycleState


@dataclass
class Plain:
    items: list = field(default_factory=list)


@dataclass
class Clonable:
    items: list = field(default_factory=list)

    def clone(self):
        return Clonable(list(self.items))


def test_values_are_found_by_their_type():
    cycle = CycleState()
    cycle.put(Plain([1]))
    assert (cycle[Plain], cycle.get(Clonable)) == (Plain([1]), None)
    with pytest.raises(KeyError):
        cycle[Clonable]


def test_a_clone_copies_what_can_be_cloned_and_shares_the_rest():
    cycle = CycleState(sampled=True)
    cycle.put(Plain())
    cycle.put(Clonable())
    cycle.skip_filter.add("A")
    copy = cycle.clone()
    copy[Plain].items.append(1)
    copy[Clonable].items.append(1)
    copy.skip_filter.add("B")
    copy.skip_score.add("C")
    copy.pods_to_activate["ns/p"] = "pod"
    assert (cycle[Plain].items, cycle[Clonable].items) == ([1], [])
    assert (cycle.skip_filter, cycle.skip_score) == ({"A"}, set())
    assert cycle.pods_to_activate == {"ns/p": "pod"}
