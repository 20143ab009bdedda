"""The guide for authors of plugins: its examples do what it says."""

import re
from pathlib import Path

from kscheduler.testing import Stage, make_node, make_pod

GUIDE = (Path(__file__).parents[2] / "docs/plugins/README.md").read_text()


def example(beginning):
    """The names that one example defines; it is known by its first line."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    (source,) = [block for block in blocks if block.startswith(beginning)]
    names = {"make_node": make_node, "make_pod": make_pod}
    exec(source, names)
    return names


def test_the_first_example_refuses_full_nodes():
    plugin = example("# spread_by_rack.py")["SpreadByRack"]
    stage = Stage(
        plugin,
        args={"limit": 1},
        nodes=[make_node("a"), make_node("b")],
        pods=[make_pod("there", node="a")],
    )
    assert list(stage.rejections(make_pod("p"))) == ["a"]


def test_the_example_on_columns_leaves_memory_free_and_finds_disks():
    nodes = [make_node("ssd", labels={"disk": "ssd"}), make_node("full"), make_node("plain")]
    running = [make_pod("there", node="full", requests={"memory": "14Gi"})]
    stage = Stage(example("# headroom.py")["Headroom"], nodes=nodes, pods=running)
    assert stage.rejections(make_pod("p", requests={"memory": "1Gi"})) == {
        "full": ["node(s) would have too little memory left"]
    }
    fast = make_pod("fast", labels={"disk": "ssd"})
    assert stage.rejections(fast) == {
        "full": ["node(s) had no SSD"],
        "plain": ["node(s) had no SSD"],
    }


def test_a_label_that_no_node_has_refuses_all_nodes():
    stage = Stage(example("# headroom.py")["Headroom"], nodes=[make_node("plain")])
    assert list(stage.rejections(make_pod("fast", labels={"disk": "ssd"}))) == ["plain"]


def test_the_pod_of_the_guide_has_what_its_manifest_would_say():
    spec = example("pinned = ")["pinned"].spec
    assert spec.tolerations[0].operator == "Exists"
    terms = spec.affinity.node_affinity.required
    assert terms.node_selector_terms[0].match_expressions[0].values == ("a",)
