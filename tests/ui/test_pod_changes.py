"""Changes of a pod: every rule by itself, requests of every container, and nothing else touched."""

import copy

import pytest

from kscheduler.ui.pod_changes import (
    PREFERRED,
    REQUIRED,
    changed_pod,
    decoded,
    requests_of,
    rules_of,
)
from kscheduler.ui.source import Declined

SSD = {"key": "disk", "operator": "In", "values": ["ssd"]}
ZONES = {"key": "zone", "operator": "NotIn", "values": ["a", "b"]}
WEB = {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "web"}}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {
        "nodeSelector": {"example.com/pool": "x", "arch": "arm64"},
        "affinity": {
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [SSD, ZONES]}]},
                PREFERRED: [{"weight": 5, "preference": {"matchExpressions": [SSD]}}],
            },
            "podAffinity": {REQUIRED: [WEB]},
            "podAntiAffinity": {PREFERRED: [{"weight": 9, "podAffinityTerm": WEB}]},
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "tolerations": [
            {"operator": "Exists"},
            {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"},
            {
                "key": "gone",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            },
        ],
        "schedulingGates": [{"name": "example.com/quota"}],
        "volumes": [
            {"name": "config", "configMap": {"name": "c"}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
        ],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}],
        "initContainers": [
            {"name": "unpack", "resources": {"requests": {"memory": "2Gi"}}},
            {"name": "proxy", "restartPolicy": "Always"},
        ],
        "containers": [
            {
                "name": "web",
                "ports": [{"containerPort": 80}, {"containerPort": 443, "hostPort": 8443}],
                "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "1Gi"}},
            },
            {"name": "log"},
        ],
    },
}


def without(*pointers):
    return changed_pod(POD, pointers, {}, {})["spec"]


def test_every_rule_is_told_by_its_place_its_kind_and_in_words():
    assert [tuple(rule) for rule in rules_of(decoded(POD))] == [
        ("/nodeSelector/example.com~1pool", "node selector", "example.com/pool=x"),
        ("/nodeSelector/arch", "node selector", "arch=arm64"),
        (
            f"/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/0/matchExpressions/0",
            "node affinity",
            "disk In ssd",
        ),
        (
            f"/affinity/nodeAffinity/{REQUIRED}/nodeSelectorTerms/0/matchExpressions/1",
            "node affinity",
            "zone NotIn a, b",
        ),
        (
            f"/affinity/nodeAffinity/{PREFERRED}/0",
            "node affinity",
            "disk In ssd, preferred by 5",
        ),
        (f"/affinity/podAffinity/{REQUIRED}/0", "pod affinity", "app=web by host"),
        (
            f"/affinity/podAntiAffinity/{PREFERRED}/0",
            "pod anti-affinity",
            "app=web by host, preferred by 9",
        ),
        ("/topologySpreadConstraints/0", "topology spread", "zone, maxSkew 1, DoNotSchedule"),
        ("/tolerations/0", "toleration", "every taint"),
        ("/tolerations/1", "toleration", "dedicated=gpu:NoSchedule"),
        ("/tolerations/2", "toleration", "gone:NoExecute for 300s"),
        ("/containers/0/ports/1", "host port", "8443/TCP of web"),
        ("/volumes/1", "volume", "data (claim data-0)"),
        ("/resourceClaims/0", "resource claim", "gpu (one-gpu)"),
        ("/schedulingGates/0", "scheduling gate", "example.com/quota"),
    ]


@pytest.mark.parametrize("rule", rules_of(decoded(POD)), ids=lambda rule: rule.pointer)
def test_a_rule_is_left_out_and_all_others_stay(rule):
    before = copy.deepcopy(POD)
    changed = changed_pod(POD, (rule.pointer,), {}, {})
    texts = [one.text for one in rules_of(decoded(POD)) if one.pointer != rule.pointer]
    assert [one.text for one in rules_of(decoded(changed))] == texts
    assert before == POD


def test_what_is_empty_without_a_rule_goes_with_it():
    assert "nodeSelector" not in without("/nodeSelector")
    assert "affinity" not in without("/affinity")
    assert "podAffinity" not in without(f"/affinity/podAffinity/{REQUIRED}/0")["affinity"]
    assert [
        one.get("key") for one in without("/tolerations/0", "/tolerations/2")["tolerations"]
    ] == ["dedicated"]


def test_an_alternative_without_requirements_lets_all_nodes_pass():
    pod = copy.deepcopy(POD)
    required = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    required["nodeSelectorTerms"] = [
        {"matchExpressions": [SSD]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
    ]
    rules = [one for one in rules_of(decoded(pod)) if REQUIRED in one.pointer]
    assert [one.text for one in rules[:2]] == [
        "alternative 1: disk In ssd",
        "alternative 2: metadata.name In n1",
    ]
    for pointers in ((rules[1].pointer,), (rules[0].pointer, rules[1].pointer)):
        affinity = changed_pod(pod, pointers, {}, {})["spec"]["affinity"]["nodeAffinity"]
        assert REQUIRED not in affinity


def test_ports_of_the_hosts_network_are_host_ports():
    pod = {"spec": {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}}
    (rule,) = rules_of(decoded(pod))
    assert rule.text == "80/TCP of "
    assert changed_pod(pod, (rule.pointer,), {}, {})["spec"]["containers"] == [{}]


def test_all_containers_are_told_with_what_they_ask_for():
    assert [tuple(one) for one in requests_of(decoded(POD))] == [
        ("unpack", "init container", {"cpu": "", "memory": "2Gi"}),
        ("proxy", "sidecar", {"cpu": "", "memory": ""}),
        ("web", "container", {"cpu": "2", "memory": "1Gi"}),
        ("log", "container", {"cpu": "", "memory": ""}),
    ]


def resources(spec, *names):
    every = {one["name"]: one for one in (*spec["initContainers"], *spec["containers"])}
    return [every[name].get("resources") for name in names]


def test_requests_of_any_container_are_changed_and_limits_below_them_go():
    spec = changed_pod(POD, (), {}, {("unpack", "memory"): "1Gi", ("web", "cpu"): "6"})["spec"]
    assert resources(spec, "unpack", "web", "log") == [
        {"requests": {"memory": "1Gi"}},
        {"requests": {"cpu": "6"}, "limits": {"memory": "1Gi"}},
        None,
    ]


def test_a_request_for_each_is_for_each_container_that_runs():
    spec = changed_pod(POD, (), {"cpu": "1"}, {("log", "cpu"): "3"})["spec"]
    assert resources(spec, "unpack", "web", "log") == [
        {"requests": {"memory": "2Gi"}},
        {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        {"requests": {"cpu": "3"}},
    ]


def test_requests_of_the_whole_pod_count_instead_of_those_of_containers():
    pod = {"spec": {"resources": {"requests": {"cpu": "8"}}, "containers": [{"name": "a"}]}}
    assert requests_of(decoded(pod))[0] == ("", "whole pod", {"cpu": "8", "memory": ""})
    for change in (({"cpu": "1"}, {}), ({}, {("", "cpu"): "1"})):
        spec = changed_pod(pod, (), *change)["spec"]
        assert spec["resources"]["requests"] == {"cpu": "1"}
        assert spec["containers"] == [{"name": "a"}]


@pytest.mark.parametrize(
    ("spec", "place"),
    [
        ({"tolerations": "all"}, "$.spec.tolerations"),
        ({"containers": {"a": 1}}, "$.spec.containers"),
        ({"affinity": {"podAffinity": [1]}}, "$.spec.affinity.podAffinity"),
        (1, "$.spec"),
    ],
)
def test_what_is_no_pod_is_declined_with_the_place(spec, place):
    with pytest.raises(Declined, match=f"at `{place.replace('$', '[$]')}`"):
        changed_pod({"kind": "Pod", "spec": spec}, (), {}, {})


def test_a_container_that_is_not_there_is_named():
    with pytest.raises(Declined, match="The pod has no container 'none'"):
        changed_pod(POD, (), {}, {("none", "cpu"): "1"})


def test_what_the_manifest_leaves_empty_is_no_rule():
    pod = {"spec": {"tolerations": [None, {"operator": "Exists"}], "nodeSelector": None}}
    (rule,) = rules_of(decoded(pod))
    assert "tolerations" not in changed_pod(pod, (rule.pointer,), {}, {})["spec"]
