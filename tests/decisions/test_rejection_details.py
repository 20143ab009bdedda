"""What reasons leave out: which taint, which port, how much is missing."""

import pytest

from kscheduler.api.explanation import Shortage
from tests.kit.objects import make_node, make_pod, make_pod_info

ZONE = "topology.kubernetes.io/zone"


def node(name, zone="a", **fields):
    labels = {"kubernetes.io/hostname": name, ZONE: zone, **fields.pop("labels", {})}
    return make_node(name, labels=labels, **fields)


def details(decision):
    """By reason, the texts with their counts."""
    return {
        one.reason: [(detail.text, detail.count) for detail in one.details]
        for one in decision.last.rejections
    }


def test_a_lack_of_a_resource_names_the_node_that_comes_closest(decider):
    nodes = [node(f"n{i}") for i in range(3)]
    there = [make_pod(f"p{i}", node=f"n{i}", requests={"cpu": f"{i + 1}"}) for i in range(3)]
    decision = decider(nodes, there).decide(make_pod("new", requests={"cpu": "3500m"}))
    (rejected,) = decision.last.rejections
    assert rejected.shortage == Shortage("cpu", "3500m", "3", "500m", "n0")
    assert decision.summary == (
        "None of 3 nodes can take it: 3 nodes: Insufficient cpu (asked 3500m; most is left on n0, "
        "3, short by 500m)."
    )


def test_a_sentence_names_a_reason_once_whether_or_not_preemption_might_help(decider):
    # What is asked is more than two of the nodes have at all.
    sizes = {"n0": "4", "n1": "2", "n2": "1"}
    nodes = [node(name, allocatable={"cpu": cpu, "pods": "9"}) for name, cpu in sizes.items()]
    there = [make_pod("p", node="n0", requests={"cpu": "3"})]
    decision = decider(nodes, there).decide(make_pod("new", requests={"cpu": "2500m"}))
    assert sorted(one.count for one in decision.last.rejections) == [1, 2]
    assert decision.summary == (
        "None of 3 nodes can take it: 3 nodes: Insufficient cpu (asked 2500m; most is left on n1, "
        "2, short by 500m)."
    )


def test_a_resource_that_no_node_has_is_missing_as_a_whole(decider):
    decision = decider([node("n0")]).decide(make_pod("new", requests={"example.com/gpu": "2"}))
    (rejected,) = decision.last.rejections
    assert rejected.shortage == Shortage("example.com/gpu", "2", "0", "2", "n0")


def test_room_that_is_kept_for_nominated_pods_is_no_shortage(decider):
    nominated = {"n0": [make_pod_info("first", priority=10, requests={"cpu": "3"})]}
    pods = [make_pod("there", node="n1", requests={"cpu": "3500m"})]
    core = decider([node("n0"), node("n1")], pods, nominated=nominated)
    decision = core.decide(make_pod("new", requests={"cpu": "2"}))
    (rejected,) = decision.last.rejections
    assert rejected.shortage == Shortage("cpu", "2", "500m", "1500m", "n1")
    assert details(decision) == {
        "Insufficient cpu": [("what is left is kept for pods nominated to the node", 1)]
    }


def test_taints_are_named_with_the_nodes_that_have_them(decider):
    gpu = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    old = {"key": "old", "effect": "NoExecute"}
    nodes = [
        node("n0", taints=[gpu]),
        node("n1", taints=[gpu]),
        node("n2", taints=[old, gpu]),
    ]
    assert details(decider(nodes).decide(make_pod("new"))) == {
        "node(s) had untolerated taint(s)": [
            ("untolerated taint dedicated=gpu:NoSchedule", 2),
            ("untolerated taint old:NoExecute", 1),
        ]
    }


def test_ports_in_use_are_named(decider):
    pods = [make_pod(f"p{i}", node=f"n{i}", host_port=8080) for i in range(2)]
    decision = decider([node("n0"), node("n1")], pods).decide(make_pod("new", host_port=8080))
    assert details(decision) == {
        "node(s) didn't have free ports for the requested pod ports": [
            ("host port 8080/TCP is in use", 2)
        ]
    }


def test_requirements_of_node_affinity_are_told_apart(decider):
    nodes = [node("n0", "a"), node("n1", "b", labels={"disk": "ssd"}), node("n2", "b")]
    terms = [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = make_pod("new", nodeSelector={ZONE: "a"}, affinity={"nodeAffinity": required})
    assert details(decider(nodes).decide(pod)) == {
        "node(s) didn't match Pod's node affinity/selector": [
            (f"node selector {ZONE}=a is not met", 2),
            ("node affinity disk=ssd is not met", 2),
        ]
    }


def test_nodes_that_pre_filter_leaves_out_are_told_with_its_reason(decider):
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod = make_pod("new", affinity={"nodeAffinity": required}, requests={"cpu": "5"})
    left_out, judged = decider([node(f"n{i}") for i in range(3)]).decide(pod).last.rejections
    assert (judged.reason, judged.nodes, judged.by_pre_filter) == (
        "Insufficient cpu",
        ("n0",),
        False,
    )
    assert (left_out.reason, left_out.nodes, left_out.by_pre_filter) == (
        "node(s) didn't satisfy plugin(s) [NodeAffinity]",
        ("n1", "n2"),
        True,
    )


def test_a_pod_with_one_node_to_go_to_is_not_said_to_have_found_enough(decider):
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    decision = decider([node(f"n{i}") for i in range(3)]).decide(
        make_pod("new", affinity={"nodeAffinity": required})
    )
    (left_out,) = decision.last.rejections
    assert (left_out.count, left_out.by_pre_filter) == (2, True)
    assert decision.last.nodes.not_evaluated == 0
    assert decision.summary.startswith(
        "It is on n0, the only node that was looked at (2 were left out: node(s) didn't"
    )


@pytest.mark.parametrize(
    ("kind", "reason", "text"),
    [
        (
            "podAffinity",
            "node(s) didn't match pod affinity rules",
            f"no pod that matches {{app=db}} in the same {ZONE}",
        ),
        (
            "podAntiAffinity",
            "node(s) didn't match pod anti-affinity rules",
            f"anti-affinity to pods that match {{app=web}} in the same {ZONE}",
        ),
    ],
)
def test_terms_of_pod_affinity_are_named(decider, kind, reason, text):
    app = "db" if kind == "podAffinity" else "web"
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    affinity = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = [make_pod("web", node="n0", labels={"app": "web"})]
    decision = decider([node("n0"), node("n1")], there).decide(make_pod("new", affinity=affinity))
    assert details(decision) == {reason: [(text, 2)]}


def test_anti_affinity_of_pods_there_is_told_by_topology(decider):
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    there = [make_pod("loner", node="n0", affinity=affinity)]
    decision = decider([node("n0")], there).decide(make_pod("new", labels={"app": "web"}))
    assert details(decision) == {
        "node(s) didn't satisfy existing pods anti-affinity rules": [
            (f"anti-affinity of pods there in the same {ZONE}", 1)
        ]
    }


def test_spread_constraints_are_told_with_their_counts(decider):
    constraint = {
        "maxSkew": 1,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    nodes = [node("n0", "a"), node("n1", "b", unschedulable=True), make_node("n2")]
    there = [make_pod(f"w{i}", node="n0", labels={"app": "web"}) for i in range(2)]
    pod = make_pod("new", labels={"app": "web"}, topologySpreadConstraints=[constraint])
    told = details(decider(nodes, there).decide(pod))
    assert told["node(s) didn't match pod topology spread constraints"] == [
        (f"spread over {ZONE}: 2 matching pods at least, 0 in the emptiest domain, maxSkew 1", 1)
    ]
    missing = "node(s) didn't match pod topology spread constraints (missing required label)"
    assert told[missing] == [(f"label {ZONE} is missing", 1)]
