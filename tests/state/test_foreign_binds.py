"""Pods that others put on nodes: which nodes, since when, and what is left there."""

import pytest

from kscheduler.state.cache import Cache
from kscheduler.state.foreign_binds import ForeignBinds
from tests.kit.objects import make_node, make_pod_info


class TestNumbers:
    def test_a_node_is_touched_since_the_number_before(self):
        binds = ForeignBinds()
        before = binds.latest
        binds.add("n1")
        assert binds.any_since(before, "n1")
        assert not binds.any_since(before, "n2")
        assert not binds.any_since(binds.latest, "n1")

    def test_binds_elsewhere_do_not_touch_a_node(self):
        binds = ForeignBinds()
        binds.add("n1")
        before = binds.latest
        binds.add("n2")
        assert not binds.any_since(before, "n1")

    def test_a_node_that_is_gone_is_forgotten(self):
        cache = Cache()
        cache.add_node(make_node("n1"))
        cache.foreign_binds.add("n1")
        cache.remove_node(make_node("n1"))
        assert cache.foreign_binds._latest_on == {}


class TestAssumptions:
    @pytest.fixture
    def cache(self):
        cache = Cache()
        cache.add_node(make_node("n1"))
        cache.add_node(make_node("n2"))
        return cache

    def test_a_bind_of_ours_was_assumed(self, cache):
        cache.assume(make_pod_info("p", node="n1"))
        assert cache.confirmed_node(make_pod_info("p")) == ""
        assert cache.add_pod(make_pod_info("p", node="n1")) is True
        assert cache.confirmed_node(make_pod_info("p")) == "n1"

    def test_a_bind_to_another_node_was_not(self, cache):
        cache.assume(make_pod_info("p", node="n1"))
        assert cache.add_pod(make_pod_info("p", node="n2")) is False
        assert cache.confirmed_node(make_pod_info("p", node="n1")) == "n2"

    def test_a_pod_that_nobody_assumed_was_not(self, cache):
        assert cache.add_pod(make_pod_info("p", node="n1")) is False


class TestShortages:
    @pytest.mark.parametrize(
        ("own", "other", "want"),
        [
            pytest.param({"cpu": "2"}, {"cpu": "2"}, [], id="just enough"),
            pytest.param({"cpu": "2"}, {"cpu": "2001m"}, ["cpu"], id="a little too much"),
            pytest.param({"memory": "1Gi"}, {"cpu": "9"}, [], id="of what the pod does not want"),
            pytest.param(
                {"cpu": "3", "memory": "5Gi"},
                {"cpu": "3", "memory": "5Gi"},
                ["cpu", "memory"],
                id="two resources",
            ),
            pytest.param({"a.io/x": "1"}, {"a.io/x": "1"}, [], id="a resource of no node"),
            pytest.param({"b.io/y": "1"}, {"b.io/y": "1"}, [], id="a resource of another node"),
        ],
    )
    def test_resources(self, own, other, want):
        cache = Cache()
        cache.add_node(make_node("n1", allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"}))
        cache.add_node(make_node("n2", allocatable={"b.io/y": "1", "pods": "10"}))
        pod = make_pod_info("own", node="n1", requests=own)
        cache.assume(pod)
        cache.add_pod(make_pod_info("other", node="n1", requests=other))
        assert list(cache.shortages(pod)) == want

    def test_places_for_pods(self):
        cache = Cache()
        cache.add_node(make_node("n1", allocatable={"pods": "1"}))
        pod = make_pod_info("own", node="n1")
        cache.assume(pod)
        assert list(cache.shortages(pod)) == []
        cache.add_pod(make_pod_info("other", node="n1"))
        assert list(cache.shortages(pod)) == ["pods"]

    def test_host_ports_of_others(self):
        cache = Cache()
        cache.add_node(make_node("n1"))
        pod = make_pod_info("own", node="n1", host_port=80)
        cache.assume(pod)
        cache.add_pod(make_pod_info("harmless", node="n1", host_port=81))
        assert not cache.has_port_conflict(pod)
        cache.add_pod(make_pod_info("other", node="n1", host_port=80))
        assert cache.has_port_conflict(pod)
        assert not cache.has_port_conflict(make_pod_info("elsewhere", node="n2", host_port=80))

    def test_a_node_that_is_gone_lacks_nothing(self):
        cache = Cache()
        pod = make_pod_info("own", node="n1", requests={"cpu": "1"})
        cache.assume(pod)
        assert list(cache.shortages(pod)) == []
