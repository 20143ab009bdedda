"""Constraints of pods that have none: where they come from, and whom they spread."""

import pytest

from kscheduler.api.core import ReplicationController, Service
from kscheduler.api.decode import convert
from kscheduler.api.small_groups import ReplicaSet, StatefulSet
from kscheduler.framework.listers import FixedLister
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs
from kscheduler.plugins.pod_topology_spread.constraints import DefaultSelector
from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from tests.plugins.topologies import (
    HOST,
    ZONE,
    make_cluster,
    make_handle,
    make_node,
    make_pod,
    rejections,
    scores,
)

SKEWED = ("Unschedulable", "node(s) didn't match pod topology spread constraints")


def owned(kind, selector, *, name="owner", namespace="default"):
    metadata = {"name": name, "namespace": namespace}
    return convert({"metadata": metadata, "spec": {"selector": selector}}, kind)


def service(selector, **where):
    return owned(Service, selector, **where)


def owner(kind, *, version="apps/v1", name="owner"):
    return {"apiVersion": version, "kind": kind, "name": name, "uid": "u"}


WEB = {"app": "web"}
LABELS = {"app": "web", "tier": "front"}
EXPRESSION = {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["front", "back"]}]}
BROKEN = {"matchExpressions": [{"key": "tier", "operator": "Near"}]}


@pytest.mark.parametrize(
    ("pod", "objects", "want"),
    [
        pytest.param(make_pod(labels=LABELS), [], "", id="nothing is known"),
        pytest.param(make_pod(labels=LABELS), [service(WEB)], "app=web", id="a service"),
        pytest.param(
            make_pod(labels=LABELS),
            [service(WEB), service({"tier": "front"}, name="other")],
            "app=web,tier=front",
            id="two services add up",
        ),
        pytest.param(
            make_pod(labels=LABELS), [service({"app": "db"})], "", id="a service for others"
        ),
        pytest.param(
            make_pod(labels=LABELS),
            [service(WEB, namespace="elsewhere")],
            "",
            id="a service in another namespace",
        ),
        pytest.param(
            make_pod(labels=LABELS), [service({})], "", id="a service that selects all adds nothing"
        ),
        pytest.param(
            make_pod(labels=LABELS), [service(None)], "", id="a service without a selector"
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("ReplicaSet")),
            [owned(ReplicaSet, EXPRESSION)],
            "tier in (back,front)",
            id="a replica set with an expression",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("StatefulSet")),
            [owned(StatefulSet, {"matchLabels": WEB}), service({"tier": "front"})],
            "app=web,tier=front",
            id="a stateful set and a service",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("ReplicationController", version="v1")),
            [owned(ReplicationController, {"app": "cache"}), service(WEB)],
            "app=cache",
            id="a replication controller has the last word",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("ReplicaSet", name="gone")),
            [owned(ReplicaSet, EXPRESSION), service(WEB)],
            "app=web",
            id="an owner that is gone adds nothing",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("ReplicaSet")),
            [owned(ReplicaSet, BROKEN), service(WEB)],
            "app=web",
            id="an owner that cannot be understood adds nothing",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("ReplicaSet")),
            [owned(ReplicaSet, None), service(WEB)],
            "app=web",
            id="an owner without a selector adds nothing",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("ReplicaSet", version="apps/v1beta1")),
            [owned(ReplicaSet, EXPRESSION)],
            "",
            id="an owner of another version is unknown",
        ),
        pytest.param(
            make_pod(labels=LABELS, owner=owner("DaemonSet")),
            [owned(ReplicaSet, EXPRESSION)],
            "",
            id="an owner of another kind is unknown",
        ),
    ],
)
def test_deduced_selector(pod, objects, want):
    selector = DefaultSelector(make_handle(objects).listers).of(pod)
    assert (str(selector), selector.matches_nothing) == (want, False)


class ChangingListers:
    """Listers over dicts that tests may change."""

    def __init__(self):
        self.objects = {}

    def lister(self, kind):
        return FixedLister(self.objects.setdefault(kind, {}))


def test_deduced_selectors_follow_every_change():
    listers = ChangingListers()
    default = DefaultSelector(listers)
    services, replica_sets = listers.objects[Service], listers.objects[ReplicaSet]
    pod = make_pod(labels=LABELS, owner=owner("ReplicaSet"))
    seen = []

    def look():
        seen.append(str(default.of(pod)))

    look()
    services["default/a"] = service(WEB)
    look()
    services["default/a"] = service({"tier": "front"})
    look()
    replica_sets["default/owner"] = owned(ReplicaSet, {"matchLabels": WEB})
    look()
    services.clear()
    look()
    replica_sets["default/owner"] = owned(ReplicaSet, EXPRESSION)
    look()
    assert seen == [
        "",
        "app=web",
        "tier=front",
        "app=web,tier=front",
        "app=web",
        "tier in (back,front)",
    ]


def web_pods(*counts):
    return [
        make_pod(f"web-{i}-{j}", WEB, nodeName=f"n{i}")
        for i, count in enumerate(counts)
        for j in range(count)
    ]


def plugin(objects=(), **args):
    return PodTopologySpread(PodTopologySpreadArgs.model_validate(args), make_handle(objects))


def default(key, when="DoNotSchedule", **more):
    return {"topologyKey": key, "whenUnsatisfiable": when, "maxSkew": 1, **more}


HOSTS = [make_node(f"n{i}", {HOST: f"n{i}"}) for i in range(4)]


class TestSystemDefaults:
    def test_they_spread_over_hosts_even_without_zones(self):
        cluster = make_cluster(HOSTS, web_pods(4, 3, 2, 1))
        found = scores(plugin([service(WEB)]), make_pod(labels=WEB), cluster)
        assert found == ([9, 7, 6, 4], [44, 66, 77, 100])

    def test_nodes_without_a_zone_are_one_more_zone(self):
        nodes = [
            make_node("n0", {HOST: "n0", ZONE: "a"}),
            make_node("n1", {HOST: "n1", ZONE: "b"}),
            make_node("n2", {HOST: "n2"}),
        ]
        cluster = make_cluster(nodes, web_pods(0, 1, 1))
        # Three hosts and three zones: weight ln 5 each, on top of skews 3 and 5.
        found = scores(plugin([service(WEB)]), make_pod(labels=WEB), cluster)
        assert found == ([6, 9, 4], [77, 44, 100])

    def test_an_empty_zone_is_the_same_as_none(self):
        nodes = [
            make_node("n0", {HOST: "n0", ZONE: "a"}),
            make_node("n1", {HOST: "n1", ZONE: ""}),
            make_node("n2", {HOST: "n2"}),
        ]
        cluster = make_cluster(nodes, web_pods(0, 0, 2))
        # Two zones: weight ln 4; the empty one has the pods of the node without.
        found = scores(plugin([service(WEB)]), make_pod(labels=WEB), cluster)
        assert found == ([6, 9, 5], [88, 55, 100])

    def test_nodes_without_a_host_name_are_scored_by_zone_only(self):
        nodes = [make_node("n0", {ZONE: "a"}), make_node("n1", {HOST: "n1", ZONE: "b"})]
        cluster = make_cluster(nodes, web_pods(3, 1))
        found = scores(plugin([service(WEB)]), make_pod(labels=WEB), cluster)
        assert found == ([8, 9], [100, 88])

    def test_they_forbid_nothing(self):
        cluster = make_cluster(HOSTS, web_pods(9))
        assert rejections(plugin([service(WEB)]), make_pod(labels=WEB), cluster) == "Skip"

    def test_a_pod_nobody_knows_is_not_scored(self):
        cluster = make_cluster(HOSTS, web_pods(4, 3, 2, 1))
        assert scores(plugin(), make_pod(labels=WEB), cluster) == "Skip"

    def test_any_constraint_of_its_own_frees_a_pod_from_them(self):
        own = {**default(HOST), "labelSelector": {"matchLabels": WEB}}
        pod = make_pod(labels=WEB, topologySpreadConstraints=[own])
        cluster = make_cluster(HOSTS, web_pods(4, 3, 2, 1))
        assert scores(plugin([service(WEB)]), pod, cluster) == "Skip"


class TestListedDefaults:
    def test_hard_ones_forbid(self):
        listed = plugin([service(WEB)], defaultingType="List", defaultConstraints=[default(HOST)])
        cluster = make_cluster(HOSTS, web_pods(1, 0, 0, 2))
        found = rejections(listed, make_pod(labels=WEB), cluster)
        assert found == {"n0": SKEWED, "n3": SKEWED}

    def test_soft_ones_leave_out_nodes_without_the_label(self):
        soft = default(ZONE, "ScheduleAnyway")
        listed = plugin([service(WEB)], defaultingType="List", defaultConstraints=[soft])
        nodes = [make_node("n0", {ZONE: "a"}), make_node("n1", {ZONE: "b"}), make_node("n2")]
        cluster = make_cluster(nodes, web_pods(2, 0, 0))
        assert scores(listed, make_pod(labels=WEB), cluster) == ([3, 0, 0], [0, 100, 0])

    def test_their_policies_and_min_domains_count(self):
        listed = plugin(
            [service(WEB)],
            defaultingType="List",
            defaultConstraints=[default(HOST, minDomains=5, nodeAffinityPolicy="Ignore")],
        )
        cluster = make_cluster(HOSTS, web_pods(1, 1, 1, 1))
        found = rejections(listed, make_pod(labels=WEB), cluster)
        assert found == {f"n{i}": SKEWED for i in range(4)}

    def test_without_any_there_is_nothing_to_do(self):
        listed = plugin([service(WEB)], defaultingType="List")
        cluster = make_cluster(HOSTS, web_pods(1, 0, 0, 2))
        pod = make_pod(labels=WEB)
        assert (rejections(listed, pod, cluster), scores(listed, pod, cluster)) == ("Skip", "Skip")
