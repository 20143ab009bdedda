"""Answers kept by row are always those that would be given anew."""

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kscheduler.api.core import (
    Container,
    Node,
    NodeSpec,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.plugins.helper.row_memo import MAX_BYTES, MAX_ONE_BY_ONE, RowMemo
from kscheduler.state.cache import Cache
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.what_if import WhatIf


def node(number, **allocatable):
    status = NodeStatus(allocatable={"cpu": "4", "pods": "10", **allocatable})
    return Node(ObjectMeta(name=f"n{number}"), NodeSpec(), status)


def pod(name, on, **requests):
    container = Container(resources=ResourceRequirements(requests=requests))
    metadata = ObjectMeta(name=name, namespace="ns", uid=name)
    return PodInfo(Pod(metadata, PodSpec(node_name=on, containers=(container,))))


def make_cache(nodes):
    cache = Cache()
    for number in range(nodes):
        cache.add_node(node(number))
    return cache


class Free:
    """How much is left of a resource; remembers what it was asked about."""

    def __init__(self):
        self.nodes = []
        self.rows = []

    def of_nodes(self, resource, nodes):
        self.nodes.append(len(nodes))
        column = nodes.resources.get(resource)
        if column is None:
            return np.zeros(len(nodes), np.int64)
        return nodes.allocatable[:, column] - nodes.requested[:, column]

    def of_row(self, resource, nodes, row):
        self.rows.append(row)
        column = nodes.resources.get(resource)
        if column is None:
            return None
        return nodes.allocatable.item(row, column) - nodes.requested.item(row, column)


@pytest.fixture
def free():
    return Free()


@pytest.fixture
def memo(free):
    return RowMemo(free.of_nodes, free.of_row, "free")


def test_a_question_that_is_repeated_is_answered_for_all_rows_once(free, memo):
    cache = make_cache(5)
    for _ in range(4):
        assert memo("cpu", cache.snapshot().take([1, 3])).tolist() == [4000, 4000]
    assert (free.nodes, free.rows) == ([2, 5], [])


def test_only_rows_that_changed_are_asked_about_again(free, memo):
    cache = make_cache(8)
    memo("cpu", cache.snapshot())
    memo("cpu", cache.snapshot())
    cache.add_pod(pod("p1", "n1", cpu="1"))
    cache.add_pod(pod("p2", "n1", cpu="1"))
    cache.update_node(node(3, cpu="8"))
    assert memo("cpu", cache.snapshot().take([0, 1, 3])).tolist() == [4000, 2000, 8000]
    assert (free.nodes, sorted(free.rows)) == ([8, 8], [1, 3])


def test_when_many_rows_changed_all_are_asked_about_at_once(free, memo):
    cache = make_cache(2 * MAX_ONE_BY_ONE)
    memo("cpu", cache.snapshot())
    memo("cpu", cache.snapshot())
    for number in range(MAX_ONE_BY_ONE + 1):
        cache.add_pod(pod(f"p{number}", f"n{number}", cpu="1"))
    answers = memo("cpu", cache.snapshot()).tolist()
    assert answers == [3000] * (MAX_ONE_BY_ONE + 1) + [4000] * (MAX_ONE_BY_ONE - 1)
    assert (len(free.nodes), free.rows) == (3, [])


def test_a_row_that_is_too_unusual_is_left_to_the_array(free):
    memo, cache = RowMemo(free.of_nodes, lambda *_: None, "free"), make_cache(3)
    memo("cpu", cache.snapshot())
    memo("cpu", cache.snapshot())
    cache.add_pod(pod("p", "n1", cpu="1"))
    assert memo("cpu", cache.snapshot()).tolist() == [4000, 3000, 4000]
    assert free.nodes == [3, 3, 3]


def test_the_answers_given_out_stay_as_they_were(memo):
    cache = make_cache(3)
    memo("cpu", cache.snapshot())
    before = memo("cpu", cache.snapshot())
    cache.add_pod(pod("p", "n1", cpu="1"))
    assert memo("cpu", cache.snapshot()).tolist() == [4000, 3000, 4000]
    assert before.tolist() == [4000] * 3


def test_a_what_if_is_answered_on_its_own_and_leaves_no_trace(memo):
    cache = make_cache(3)
    memo("cpu", cache.snapshot())
    memo("cpu", cache.snapshot())
    overlay = WhatIf(cache.snapshot())
    overlay.add_pod(pod("p", "n2", cpu="1"), 2)
    assert memo("cpu", overlay.nodes).tolist() == [4000, 4000, 3000]
    assert memo("cpu", cache.snapshot()).tolist() == [4000] * 3


def test_answers_are_bounded_in_bytes(free, memo):
    cache = make_cache(3)
    memo("first", cache.snapshot())
    for number in range(MAX_BYTES // 10_000):
        question = str(number) * 10_000
        memo(question, cache.snapshot())
        memo(question, cache.snapshot())
        assert memo.cache.bytes <= MAX_BYTES
    free.nodes.clear()
    memo("first", cache.snapshot().take([0]))
    assert free.nodes == [1]


def test_answers_count_with_their_questions(memo):
    nodes = make_cache(1000).snapshot()
    memo("cpu", nodes)
    asked_once = memo.cache.bytes
    memo("cpu", nodes)
    assert memo.cache.bytes == asked_once + 8 * 1000
    memo("cpu", nodes)
    assert memo.cache.bytes == asked_once + 8 * 1000


resources = st.sampled_from(["cpu", "x.io/gpu"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.integers(0, 4), resources),
        st.tuples(st.just("gone"), st.integers(0, 9)),
        st.tuples(st.just("node"), st.integers(0, 5), st.sampled_from(["4", "8"])),
        st.tuples(st.just("drop"), st.integers(0, 5)),
        st.tuples(st.just("ask"), resources),
        st.tuples(st.just("ask"), resources),
    ),
    max_size=40,
)


@settings(deadline=None)
@given(steps)
def test_after_whatever_happened_the_answers_are_the_right_ones(steps):
    free = Free()
    memo, cache, pods, serial = (
        RowMemo(free.of_nodes, free.of_row, "free"),
        make_cache(4),
        {},
        count(),
    )
    for step in steps:
        match step:
            case "pod", number, resource:
                new = pod(f"p{next(serial)}", f"n{number}", **{resource: "1"})
                cache.add_pod(new)
                pods[new.uid] = new
            case "gone", number:
                gone = pods.pop(f"p{number}", None)
                if gone is not None:
                    cache.remove_pod(gone)
            case "node", number, amount:
                cache.add_node(node(number, **{"x.io/gpu": amount}))
            case "drop", number:
                if cache.snapshot().row_of(f"n{number}") is not None:
                    cache.remove_node(node(number))
            case "ask", resource:
                nodes = cache.snapshot()
                expected = Free().of_nodes(resource, nodes).tolist()
                assert memo(resource, nodes).tolist() == expected
