"""A checker that finds nothing must be known to find something."""

import json

import pytest

from tests.integration.cluster import pod
from tests.integration.workload import DEDICATED, HOST, ZONE
from tests.kit.checker import Sent, binding_violations, quantity, violations
from tests.kit.manifests import node_manifest

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
A = node_manifest("a", cpu="1", pods="3", labels={ZONE: "z1", "size": "5"})
B = node_manifest("b", cpu="1", labels={ZONE: "z2"}, taints=[DEDICATED])
C = node_manifest("c", cpu="1", labels={ZONE: "z2"}, unschedulable=True)
NODES = [A, B, C]
WEB = {"matchLabels": {"app": "web"}}


def on(where, name="p", **fields):
    made = pod(name, nodeName=where, **fields)
    made["metadata"]["uid"] = f"uid-{name}"
    made["spec"].setdefault("schedulerName", "s")
    return made


def wanting(*expressions):
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


def related(kind, key):
    term = {"labelSelector": WEB, "topologyKey": key}
    return {"labels": {"app": "web"}, "affinity": {kind: {REQUIRED: [term]}}}


def spread(key, **more):
    constraint = {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        **more,
    }
    return {"labels": {"app": "web"}, "topologySpreadConstraints": [constraint]}


def on_device(resource):
    """A pod that runs where no node has its resource, but a device."""
    made = on("a", cpu="100m")
    made["spec"]["containers"][0]["resources"]["requests"][resource] = "1"
    mapping = {"containerName": "c", "resourceName": resource, "requestName": "r"}
    made["status"] = {"extendedResourceClaimStatus": {"requestMappings": [mapping]}}
    return made


TOLERANT = {"tolerations": [{"operator": "Exists"}]}
PORT = {"ports": [{"containerPort": 1, "hostPort": 80}]}

FINE = [
    pytest.param([on("a")], id="plain"),
    pytest.param([on("a", cpu="400m"), on("a", "q", cpu="600m")], id="exactly full"),
    pytest.param([on_device("example.com/gpu")], id="an extended resource that is a device"),
    pytest.param([on("b", **TOLERANT), on("c", "q", **TOLERANT)], id="tolerated"),
    pytest.param(
        [on("a", **wanting({"key": "size", "operator": "Gt", "values": ["4"]}))], id="selected"
    ),
    pytest.param([on("a", **PORT), on("b", "q", **PORT, **TOLERANT)], id="ports on two nodes"),
    pytest.param([on("a", **related("podAffinity", ZONE))], id="first of its kind"),
    pytest.param(
        [
            on("b", **related("podAffinity", ZONE), **TOLERANT),
            on("c", "q", **related("podAffinity", ZONE), **TOLERANT),
        ],
        id="together in a zone",
    ),
    pytest.param(
        [
            on("b", **related("podAntiAffinity", HOST), **TOLERANT),
            on("c", "q", **related("podAntiAffinity", HOST), **TOLERANT),
        ],
        id="apart on two hosts",
    ),
    pytest.param(
        [on("a", **spread(ZONE)), on("b", "q", **spread(ZONE), **TOLERANT)], id="evenly spread"
    ),
]
BAD = [
    pytest.param([on("nowhere")], "does not exist", id="no such node"),
    pytest.param([on("a", cpu="600m"), on("a", "q", cpu="600m")], "1.2 of cpu", id="overcommitted"),
    pytest.param([on("a", str(n)) for n in range(4)], "4.0 of pods", id="too many pods"),
    pytest.param([on("b")], "does not tolerate", id="tainted"),
    pytest.param([on("c")], "does not tolerate", id="cordoned"),
    pytest.param([on("a", nodeSelector={"disk": "ssd"})], "did not select", id="node selector"),
    pytest.param(
        [on("a", **wanting({"key": "size", "operator": "Lt", "values": ["5"]}))],
        "did not select",
        id="node affinity",
    ),
    pytest.param([on("a", **PORT), on("a", "q", **PORT)], "both use port", id="host port"),
    pytest.param(
        [on("a", **related("podAffinity", ZONE)), on("b", "q", labels={"app": "web"}, **TOLERANT)],
        "far from",
        id="affinity",
    ),
    pytest.param(
        [
            on("b", **related("podAntiAffinity", ZONE), **TOLERANT),
            on("c", "q", labels={"app": "web"}, **TOLERANT),
        ],
        "too near to default/q",
        id="anti-affinity",
    ),
    pytest.param(
        [on("a", labels={"app": "web"}), on("a", "q", **spread(ZONE))], "skew 2", id="spread"
    ),
    pytest.param(
        [on("a", labels={"app": "web"}), on("a", "q", **spread("kubernetes.io/hostname"))],
        "skew 2",
        id="spread over hosts",
    ),
    pytest.param([on("a", **spread("rack"))], "no domain", id="spread without a domain"),
]


@pytest.mark.parametrize("pods", FINE)
def test_lawful_state_is_left_alone(pods):
    assert violations(NODES, pods) == []


@pytest.mark.parametrize(("pods", "told"), BAD)
def test_every_broken_rule_is_found(pods, told):
    assert [found for found in violations(NODES, pods) if told in found]


def binding(name, where, status=201):
    body = {"metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"}}
    body["target"] = {"kind": "Node", "name": where}
    path = f"/api/v1/namespaces/default/pods/{name}/binding"
    return Sent("POST", path, json.dumps(body).encode(), status)


@pytest.mark.parametrize(
    ("sent", "pods", "problems"),
    [
        pytest.param([binding("p", "a", 500), binding("p", "a")], [on("a")], 0, id="once"),
        pytest.param([], [on(None)], 0, id="never, and pending"),
        pytest.param([], [on("a", schedulerName="other")], 0, id="somebody else's"),
        pytest.param([binding("p", "a"), binding("p", "a")], [on("a")], 1, id="twice"),
        pytest.param([], [on("a")], 1, id="never, and placed"),
        pytest.param([binding("p", "b")], [on("a")], 1, id="elsewhere"),
        pytest.param([binding("p", "a")], [on("a", schedulerName="other")], 1, id="not ours"),
        pytest.param([binding("q", "a")], [], 1, id="unknown"),
    ],
)
def test_bindings_are_counted(sent, pods, problems):
    assert len(binding_violations(sent, pods, ["s"])) == problems


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ("1500m", 1.5), ("2Ki", 2048), ("1e3", 1000), ("1.5G", 1.5e9)]
)
def test_quantities(text, value):
    assert quantity(text) == value
