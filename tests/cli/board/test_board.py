"""Keys of the board, and what they do: on a scheduler that stands still and a real API server."""

import asyncio
import contextlib
import os

import pytest

from kscheduler.cli.board.board import Board
from kscheduler.cli.board.frame import Panel, Story
from kscheduler.cli.scenarios.stage import Stage
from kscheduler.errors import KschedulerError
from kscheduler.sandbox import ApiServer, Kubelets
from tests.cli.board.scenes import decide, make_cluster, make_node, waiting_pod
from tests.kit.polling import until

KUBELET = "sandbox.kscheduler.dev/kubelet"


class Screen:
    """A terminal that keeps what is drawn."""

    def __init__(self):
        self.size = os.terminal_size((80, 24))
        self.drawn = []
        self.on_key = self.on_change = None

    def check_size(self):
        pass

    def draw(self, lines):
        self.drawn.append([line.plain.rstrip() for line in lines])

    def shows(self, text):
        return bool(self.drawn) and text in "\n".join(self.drawn[-1])


async def explain(namespace, name):
    if name == "lost":
        raise KschedulerError("nobody knows it")
    return [f"{namespace}/{name}: it waits.", "", "\x1b[1mWhat would help:\x1b[0m\n  patience"]


@pytest.fixture
def stopped():
    return []


@pytest.fixture
def board(stopped):
    """A board of three nodes, as the scheduler and the API server have them."""
    server = ApiServer()
    Kubelets(server.registry).add_nodes(3)
    cluster = make_cluster([make_node(f"node-{number}", zone="a") for number in range(3)])
    made = Board(
        cluster,
        Stage(server.objects, lambda title, text: None),
        Screen(),
        Story("A story", "that goes on"),
        explain=explain,
        addresses=lambda: {"kubectl": "kubectl get pods"},
        stop=lambda: stopped.append(True),
    )
    made.server, made.cluster, made.screen = server, cluster, made._terminal
    return made


@contextlib.asynccontextmanager
async def running(board):
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(board.run())
        yield
        task.cancel()


def press(board, *keys):
    for key in keys:
        board.press(key)
    return "\n".join(line.plain.rstrip() for line in board.lines())


def node(board, name):
    return board.server.objects.get("nodes", name)


def test_arrows_select_nodes_within_the_list(board):
    assert (press(board), board.look.node)[1] == "node-0"
    press(board, "down")
    assert board.look.node == "node-1"
    press(board, "page-down", "down")
    assert board.look.node == "node-2"
    press(board, "home", "up")
    assert board.look.node == "node-0"
    press(board, "end")
    assert board.look.node == "node-2"


def test_panels_are_gone_through_in_both_directions(board):
    assert board.look.panel is Panel.NODES
    seen = []
    for key in ("right", "tab", "right", "left", "back-tab"):
        press(board, key)
        seen.append(board.look.panel.value)
    assert seen == ["DECISIONS", "WAITING", "NODES", "WAITING", "DECISIONS"]


def test_lists_take_the_whole_height_until_escape(board):
    for key, heading in (("n", "NODES"), ("d", "DECISIONS"), ("p", "WAITING")):
        text = press(board, key)
        headings = [one.value for one in Panel if f" {one.value}" in text]
        assert headings == [heading]
    text = press(board, "escape")
    assert all(f" {one.value}" in text for one in Panel)


def test_a_selected_decision_stays_selected_while_others_come(board):
    for number in range(3):
        decide(board.cluster, f"pod-{number}", node="n1")
    press(board, "d", "down", "down")
    assert board.look.decision.pod == "pod-1"
    decide(board.cluster, "pod-3", node="n1")
    press(board)
    assert board.look.decision.pod == "pod-1"
    # The overview shows the latest again.
    press(board, "escape")
    assert board.look.decision is None


def test_c_cordons_and_uncordons_the_selected_node(board):
    assert "node-1 is cordoned" in press(board, "down", "c")
    assert node(board, "node-1")["spec"]["unschedulable"] is True
    assert "node-1 is uncordoned" in press(board, "c")
    assert "unschedulable" not in node(board, "node-1")["spec"]


def test_k_stops_and_starts_the_kubelet_of_the_selected_node(board):
    assert "the kubelet of node-0 is stopped" in press(board, "k")
    assert node(board, "node-0")["metadata"]["annotations"][KUBELET] == "stopped"
    assert "the kubelet of node-0 runs again" in press(board, "k")
    assert KUBELET not in (node(board, "node-0")["metadata"].get("annotations") or {})


def test_plus_and_minus_make_and_take_away_pods(board):
    def replicas():
        found = board.server.objects.find("deployments.apps", "burst")
        return None if found is None else found["spec"]["replicas"]

    assert "burst is to have 10 pods now" in press(board, "+")
    press(board, "=")
    assert replicas() == 20
    press(board, "-")
    assert replicas() == 10
    assert "burst is to have 0 pods now" in press(board, "-", "-")
    assert replicas() is None


def test_space_holds_the_scenario(board):
    assert "the scenario is held" in press(board, " ")
    assert board._stage.is_paused
    assert "the scenario goes on" in press(board, " ")


def test_without_a_scenario_there_is_nothing_to_hold(board):
    board._story.title = ""
    assert "there is no scenario to hold" in press(board, " ")
    assert not board._stage.is_paused


def test_what_the_server_refuses_is_told(board):
    press(board)
    board.server.objects.delete("nodes", "node-0")
    assert 'the API server refuses it: nodes "node-0" not found' in press(board, "c")


def test_without_nodes_there_is_none_to_kill():
    server = ApiServer()
    board = Board(
        make_cluster(),
        Stage(server.objects, lambda title, text: None),
        Screen(),
        Story(),
        explain=explain,
        addresses=dict,
        stop=lambda: None,
    )
    assert "there is no node to kill" in press(board, "down", "enter", "k")
    assert "there is no node to cordon" in press(board, "c")


def test_q_quits(board, stopped):
    press(board, "q")
    assert stopped == [True]


def test_enter_shows_the_selected_node_as_it_is_now(board):
    text = press(board, "down", "enter")
    assert " node node-1" in text
    assert "Ready" in text
    board.cluster.scheduler.cache.update_node(make_node("node-1", unschedulable=True))
    assert "cordoned" in press(board)
    board.cluster.scheduler.cache.remove_node(make_node("node-1"))
    assert "node-1 is not there any more" in press(board)
    assert "NODES" in press(board, "escape")


def test_help_has_every_key_and_the_addresses(board):
    text = press(board, "?")
    assert "kubectl get pods" in "\n".join(line.plain for line in board.look.page.lines)
    assert "cordon the selected node" in text
    assert "Keys" not in press(board, "escape")


async def test_enter_explains_the_selected_pod(board):
    board.cluster.on_add(waiting_pod("first"), is_initial=False)
    board.cluster.on_add(waiting_pod("second"), is_initial=False)
    async with running(board):
        for key in ("p", "down", "down", "enter"):
            board.screen.on_key(key)
        await until(lambda: board.screen.shows("default/first: it waits."), "the explanation")
        assert board.screen.shows(" explain first")
        assert board.screen.shows("What would help:")


async def test_a_pod_that_nobody_knows_is_told(board):
    decide(board.cluster, "lost", node="n1")
    async with running(board):
        for key in ("d", "enter"):
            board.screen.on_key(key)
        await until(lambda: board.screen.shows("nobody knows it"), "the refusal")


async def test_nothing_is_drawn_while_nothing_changes(board, monkeypatch):
    monkeypatch.setattr("kscheduler.cli.board.board.REFRESH_SECONDS", 0.001)
    looks = 0
    version = type(board.cluster).version

    def counted(self):
        nonlocal looks
        looks += 1
        return version.fget(self)

    monkeypatch.setattr(type(board.cluster), "version", property(counted))
    async with running(board):
        await until(lambda: looks > 20, "some looks at the cluster")
        assert len(board.screen.drawn) == 1
        decide(board.cluster, "new", node="n1")
        await until(lambda: board.screen.shows("new → n1"), "the decision")
        assert len(board.screen.drawn) == 2


async def test_a_message_goes_after_a_while(board, monkeypatch):
    monkeypatch.setattr("kscheduler.cli.board.board.MESSAGE_SECONDS", 0.2)
    async with running(board):
        board.screen.on_key("c")
        await until(lambda: len(board.screen.drawn) > 2, "pictures with and without the message")
        await until(lambda: board.screen.shows("Enter explain"), "the keys")


async def test_keys_that_come_together_are_drawn_together(board):
    async with running(board):
        await until(lambda: board.screen.drawn, "the first picture")
        for _ in range(100):
            board.screen.on_key("down")
        await until(lambda: len(board.screen.drawn) > 1, "the next picture")
        assert board.look.node == "node-2"
        assert len(board.screen.drawn) == 2
