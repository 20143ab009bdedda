"""Pictures of fixed states."""

import os

import pytest
from rich.cells import cell_len
from rich.text import Text

from kscheduler.cli.board.cluster import Eviction, NodeFacts, Usage
from kscheduler.cli.board.frame import (
    LEAST_COLUMNS,
    LEAST_LINES,
    Look,
    Page,
    Panel,
    Story,
    Widths,
    first_shown,
    frame,
    node_line,
)
from tests.cli.board.scenes import decide, make_cluster, make_node, picture, waiting_pod
from tests.kit.objects import make_pod_info

WIDTHS = Widths(name=8, bar=4, devices=0, rest=30)
STORY = Story("A burst", "many pods at once")


def some_cluster(nodes=3):
    made = [make_node(f"node-{n}", zone=f"zone-{'ab'[n % 2]}") for n in range(nodes)]
    pods = [
        make_pod_info("web-1", node="node-0", labels={"app": "web"}, requests={"cpu": "2"}),
        make_pod_info("web-2", node="node-0", labels={"app": "web"}, requests={"cpu": "1800m"}),
    ]
    return make_cluster(made, pods if nodes else (), queue={**QUEUE, "unschedulable": 1})


QUEUE = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


def test_the_overview():
    cluster = some_cluster()
    decide(cluster, "web-2", node="n1", names=("n1",))
    cluster.on_add(waiting_pod("big"), is_initial=False)
    assert picture(cluster, Look(node="node-0"), STORY, columns=80, lines=22) == [
        " kscheduler sandbox   3 nodes   2 pods placed   1 waiting        ? help  q quit",
        " A burst: many pods at once",
        "",
        " QUEUE   being tried 0   active 0   backing off 0   unschedulable 1   gated 0",
        " NODES           CPU           MEMORY        PODS",
        " zone-a          ████░░░░  48% ░░░░░░░░   0%    2  2 nodes",
        "  node-0         ████████  95% ░░░░░░░░   0%    2  web×2",  # noqa: RUF001
        "  node-2         ░░░░░░░░   0% ░░░░░░░░   0%    0",
        " zone-b          ░░░░░░░░   0% ░░░░░░░░   0%    0  1 node",
        "  node-1         ░░░░░░░░   0% ░░░░░░░░   0%    0",
        " DECISIONS  the latest first",
        "  web-2 → n1: the only node that fits, of 1",
        *[""] * 6,
        " WAITING  1",
        "  big being tried: not tried yet",
        "",
        " ? help  q quit  Enter explain  ↑↓ select  ←→ panel  n nodes  p pending  k kill",
    ]


@pytest.mark.parametrize("columns", [60, 61, 75, 80, 100, 132, 250])
@pytest.mark.parametrize("lines", [18, 19, 24, 40, 100])
@pytest.mark.parametrize("nodes", [0, 1, 7, 300])
def test_a_picture_fills_the_window_and_never_more(columns, lines, nodes):
    cluster = some_cluster(nodes)
    for number in range(30):
        decide(cluster, f"pod-{number}", node="n1")
        cluster.on_add(waiting_pod(f"waits-{number}"), is_initial=False)
    for look in (Look(), *(Look(panel=panel, is_alone=True) for panel in Panel)):
        made = frame(cluster, look, STORY, os.terminal_size((columns, lines)))
        assert len(made) == lines
        assert max(cell_len(line.plain) for line in made) <= columns


@pytest.mark.parametrize(("columns", "lines"), [(59, 30), (100, 17), (20, 5), (1, 1)])
def test_a_window_that_is_too_small_says_so(columns, lines):
    shown = picture(some_cluster(), columns=columns, lines=lines)
    assert len(shown) == lines
    if columns >= 20:
        text = " ".join(" ".join(shown).split())
        assert f"{LEAST_COLUMNS}×{LEAST_LINES}" in text  # noqa: RUF001
        assert text.startswith(f"This window has {columns}×{lines} cells")  # noqa: RUF001


def test_long_and_wide_names_are_cut_by_the_cells_they_take():
    cluster = make_cluster([make_node("n" * 60), make_node("m")])
    decide(cluster, "世界" * 40, node="n1", names=("n1",))
    made = frame(cluster, Look(), Story(), os.terminal_size((60, 18)))
    assert max(cell_len(line.plain) for line in made) <= 60
    (decided,) = [line.plain for line in made if "世界" in line.plain]
    assert decided.endswith("…")


def test_many_nodes_are_zones_and_those_around_the_selected_one():
    cluster = some_cluster(1000)
    shown = picture(cluster, Look(node="node-500"), columns=100, lines=24)
    text = "\n".join(shown)
    assert "7 of 1,000 in sight" in text
    assert "500 nodes" in text
    assert "  node-500 " in text
    assert "node-0 " not in text
    # All nodes of a zone in some cells, one after the other.
    (strip,) = [line for line in shown if line.startswith(" zone-b")]
    assert set(strip.split("500 nodes ")[1]) == {"▁"}


def test_all_nodes_can_be_scrolled_through():
    cluster = some_cluster(100)
    look = Look(panel=Panel.NODES, is_alone=True, node="node-99")
    shown = picture(cluster, look, lines=24)
    assert shown[-2].startswith("  node-99 ")
    look.node = "node-0"
    assert picture(cluster, look, lines=24)[4].startswith("  node-0 ")


def test_the_selected_line_stands_out_to_the_edge():
    cluster = some_cluster()
    made = frame(cluster, Look(node="node-1"), Story(), os.terminal_size((80, 24)))
    reversed_lines = [
        line.plain for line in made if any(str(one.style) == "reverse" for one in line.spans)
    ]
    (selected,) = [line for line in reversed_lines if "node-1" in line]
    assert len(selected) == 80


def test_a_paused_scenario_is_told_in_the_title():
    story = Story("A burst", "many pods at once", is_paused=True)
    assert picture(some_cluster(), story=story)[0].endswith("scenario PAUSED, space goes on")


def test_a_page_is_scrolled_within_its_bounds():
    page = Page("help", [Text(str(number)) for number in range(50)], first=1000)
    shown = picture(some_cluster(), Look(page=page), lines=24)
    assert page.first == 28
    assert shown[0].startswith(" help")
    assert shown[1:23] == [str(number) for number in range(28, 50)]


@pytest.mark.parametrize(
    ("node", "want"),
    [
        pytest.param(
            NodeFacts("n1", Usage(0.5, 0.25), 3, workloads=(("db", 1), ("web", 2))),
            "  n1       ██░░  50% █░░░  25%    3  db web×2",  # noqa: RUF001
            id="workloads",
        ),
        pytest.param(
            NodeFacts("n1", Usage(0, 0), 0, state="NotReady, cordoned"),
            "  n1       ░░░░   0% ░░░░   0%    0  NotReady, cordoned",
            id="trouble",
        ),
        pytest.param(
            NodeFacts("n1", Usage(12, 1), 0),
            "  n1       ████ 999% ████ 100%    0",
            id="more than there is",
        ),
        pytest.param(
            NodeFacts("n1", Usage(0, 0), 0, eviction=Eviction(("a-1", "web-5d-xyz"), "vip", 0)),
            "  n1       ░░░░   0% ░░░░   0%    0  a-1 web-xyz → vip",
            id="victims",
        ),
        pytest.param(
            NodeFacts(
                "n1",
                Usage(0, 0),
                0,
                eviction=Eviction(tuple(f"web-5d-{n:05}" for n in range(9)), "vip", 0),
            ),
            "  n1       ░░░░   0% ░░░░   0%    0  web-00000 8 more → vip",
            id="more victims than there is room for",
        ),
    ],
)
def test_a_node_in_a_line(node, want):
    assert node_line(node, WIDTHS).plain.rstrip() == want


@pytest.mark.parametrize(
    ("count", "height", "selected", "want"),
    [(5, 10, 4, 0), (100, 10, None, 0), (100, 10, 0, 0), (100, 10, 50, 45), (100, 10, 99, 90)],
)
def test_what_is_selected_is_in_sight(count, height, selected, want):
    assert first_shown(count, height, selected) == want


def test_a_picture_of_many_nodes_reads_only_those_in_sight(monkeypatch):
    cluster = some_cluster(1000)
    read = []
    facts = cluster.facts
    monkeypatch.setattr(cluster, "facts", lambda row: read.append(row) or facts(row))
    picture(cluster, columns=100, lines=30)
    assert 0 < len(read) < 30
