"""Cases that are drawn for a comparison beside kube-scheduler."""

from collections import Counter

from tests.parity.devices_beside import differences, forget_choice
from tests.parity.random_devices import TRAITS, Drawer, draw


def test_a_seed_draws_the_same_case_again():
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_every_trait_is_drawn_often():
    drawn = Counter(trait for seed in range(100) for trait in Drawer(seed).traits)
    assert all(drawn[trait] > 15 for trait in TRAITS)


def test_objects_of_a_case_have_names_of_their_own():
    for seed in range(50):
        names = [(resource, body["metadata"]["name"]) for resource, _, body in draw(seed).objects]
        assert len(set(names)) == len(names)
        assert all(name.startswith(f"k{seed}-") for _, name in names)


def test_a_difference_is_told_with_its_place():
    told = differences({"pods": {"p": {"message": "a"}}}, {"pods": {"p": {"message": "b"}}})
    assert [one.splitlines()[0] for one in told] == ["/pods/p/message"]
    assert differences({"a": [1]}, {"a": [1]}) == []


def test_which_of_equal_nodes_the_last_pod_got_does_not_matter():
    case = draw(1)
    last = case.pods[-1][1]["metadata"]["name"]
    told = [
        {"pods": {last: {"nodeName": node}}, "claims": {f"{last}-0": {"on": node}}}
        for node in ("n1", "n2")
    ]
    for one in told:
        forget_choice(case, one)
    assert differences(*told) == []
