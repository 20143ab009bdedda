import pytest

from kscheduler.queue.nominator import Nominator


@pytest.fixture
def queued():
    return {}


@pytest.fixture
def nominator(queued):
    return Nominator(queued.get, None)


def promised(nominator):
    """Names by node."""
    return {node: [p.name for p in nominator.pods_for_node(node)] for node in nominator.nodes}


def test_the_status_of_the_pod_decides_unless_a_node_is_given(nominator, make_pod):
    nominator.add(make_pod("by-status", nominated="n1"))
    nominator.add(make_pod("by-decision", nominated="n1"), "n2")
    nominator.add(make_pod("by-decision-alone"), "n2")
    nominator.add(make_pod("nowhere"))
    assert promised(nominator) == {"n1": ["by-status"], "n2": ["by-decision", "by-decision-alone"]}


def test_an_empty_node_ends_the_promise_and_leaves_nothing_behind(nominator, make_pod):
    pod = make_pod(nominated="n1")
    nominator.add(pod)
    nominator.add(pod, "")
    assert promised(nominator) == {}
    assert nominator.node_of("p") is None


def test_a_pod_is_promised_to_one_node_at_most(nominator, make_pod):
    pod = make_pod()
    nominator.add(pod, "n1")
    nominator.add(pod, "n2")
    assert promised(nominator) == {"n2": ["p"]}


@pytest.mark.parametrize(
    ("before", "after", "want"),
    [
        pytest.param("", "", "n1", id="neither status says anything: the promise stands"),
        pytest.param("", "n2", "n2", id="newly in the status"),
        pytest.param("n1", "n2", "n2", id="changed in the status"),
        pytest.param("n1", "", None, id="removed from the status"),
    ],
)
def test_what_an_update_does_to_a_promise_made_in_memory(nominator, make_pod, before, after, want):
    old = make_pod(nominated=before)
    nominator.add(old, "n1")
    nominator.update(old, make_pod(nominated=after))
    assert nominator.node_of("p") == want


@pytest.mark.parametrize(
    ("known", "want"),
    [
        pytest.param({}, {}, id="deleted"),
        pytest.param({"ns/p": {"node": "n9"}}, {}, id="bound"),
        pytest.param({"ns/p": {}}, {"n1": ["p"]}, id="pending"),
    ],
)
def test_only_a_pod_that_still_waits_is_promised(queued, make_pod, known, want):
    lister = {key: make_pod(**fields).pod for key, fields in known.items()}
    nominator = Nominator(queued.get, lister)
    nominator.add(make_pod(), "n1")
    assert promised(nominator) == want


def test_a_pod_found_in_no_queue_is_known_by_name_only(nominator, queued, make_pod):
    pod = make_pod(priority=7, requests={"cpu": "1"})
    nominator.add(pod, "n1")
    stub = nominator.pods_for_node("n1")[0]
    assert (stub.key, stub.uid, stub.priority, stub.requests) == ("ns/p", "p", 0, {})
    queued["ns/p"] = pod
    assert nominator.pods_for_node("n1") == [pod]
    assert nominator.pods_for_node("n2") == []
