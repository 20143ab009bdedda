"""Objects that are large, deep or many where a scheduler hardly looks: metadata, owners, claims."""

from tests.adversary.inputs.placement import spread
from tests.adversary.inputs.table import (
    NAMESPACES,
    Ask,
    Json,
    Scene,
    deep,
    expression,
    matching,
    named,
    pod,
    row,
)
from tests.bench.workloads import IMAGE, ZONE

RESOURCE_API = "resource.k8s.io/v1"


@row(
    "nested-opaque-parameters",
    "readers: a ResourceClaim with arrays in arrays, deeper than an interpreter's stack",
    size=4500,
    # Twice beyond what parsers descend into.
    small=2200,
)
def nested(ask: Ask) -> Scene:
    opaque = {"driver": "example.com", "parameters": {"deep": deep(ask.size)}}
    request = {"name": "r", "exactly": {"deviceClassName": ask.tag}}
    devices = {"requests": [request], "config": [{"requests": ["r"], "opaque": opaque}]}
    return Scene([named("ResourceClaim", ask.tag, api=RESOURCE_API, spec={"devices": devices})])


@row(
    "claims-with-expressions",
    "readers: ResourceClaims with as many requests and selectors as are allowed",
    size=20,
    small=10,
)
def expressive_claims(ask: Ask) -> Scene:
    cel = {"expression": f"device.driver == '{ask.tag}'" + " || true" * 100}
    requests = [
        {
            "name": f"r{i}",
            "exactly": {"deviceClassName": ask.tag, "selectors": [{"cel": cel}] * 8},
        }
        for i in range(16)
    ]
    return Scene(
        [
            named("ResourceClaim", name, api=RESOURCE_API, spec={"devices": {"requests": requests}})
            for name in ask.names()
        ]
    )


@row(
    "resource-claims-of-a-pod",
    "DynamicResources: a pod with thousands of claims that do not exist",
    size=3000,
    small=300,
    held_back=True,
)
def pod_claims(ask: Ask) -> Scene:
    claims = [{"name": name, "resourceClaimName": name} for name in ask.names()]
    return Scene(pods=[pod(ask.tag, resourceClaims=claims)])


@row(
    "annotations",
    "caches of shared parts: pods with as many bytes of annotations as are allowed",
    size=20,
    small=8,
)
def annotations(ask: Ask) -> Scene:
    """Of 250 kB each, all distinct; the size is their number."""
    return Scene(
        pods=[
            pod(name, metadata={"annotations": {f"{name}.example.com/a": (name + "x" * 89) * 2500}})
            for name in ask.names()
        ]
    )


@row(
    "annotation-keys",
    "caches of shared parts: one pod with thousands of annotations",
    size=5000,
    small=500,
)
def annotation_keys(ask: Ask) -> Scene:
    return Scene(
        pods=[pod(ask.tag, metadata={"annotations": dict.fromkeys(ask.label_keys(), "x")})]
    )


@row(
    "labels",
    "label sets and signatures: a pod with tens of thousands of labels",
    size=20000,
    small=500,
)
def labels(ask: Ask) -> Scene:
    return Scene(pods=[pod(ask.tag, metadata={"labels": dict.fromkeys(ask.label_keys(), "x")})])


@row(
    "running-labels",
    "the index of pods: a running pod with tens of thousands of labels",
    size=20000,
    small=500,
)
def running_labels(ask: Ask) -> Scene:
    metadata = {"labels": dict.fromkeys(ask.label_keys(), "x")}
    return Scene([pod(ask.tag, on=ask.nodes[0], metadata=metadata)])


@row(
    "label-sets",
    "the index of pods: many running pods with a set of labels each, and a pod that spreads",
    size=1000,
    small=30,
)
def label_sets(ask: Ask) -> Scene:
    running = [
        pod(name, on=ask.nodes[i % len(ask.nodes)], metadata={"labels": {"pod": name}})
        for i, name in enumerate(ask.names())
    ]
    constraint = spread(ZONE, "ScheduleAnyway", matching(expression("pod", "Exists")))
    return Scene(running, [pod(ask.tag, topologySpreadConstraints=[constraint])])


@row(
    "owner-references",
    "readers: a pod with thousands of owners",
    size=8000,
    small=500,
)
def owners(ask: Ask) -> Scene:
    listed = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": f"uid-{name}"}
        for name in ask.names()
    ]
    return Scene(pods=[pod(ask.tag, metadata={"ownerReferences": listed})])


@row(
    "finalizers",
    "readers: a pod with thousands of finalizers",
    size=8000,
    small=500,
)
def finalizers(ask: Ask) -> Scene:
    return Scene(pods=[pod(ask.tag, metadata={"finalizers": ask.label_keys()})])


@row(
    "environment",
    "readers: a container with tens of thousands of variables, which no scheduler looks at",
    size=20000,
    small=1000,
)
def environment(ask: Ask) -> Scene:
    variables = [{"name": f"V{i}", "value": ask.tag} for i in range(ask.size)]
    return Scene(pods=[pod(ask.tag, container={"env": variables})])


@row(
    "readiness-gates",
    "readers: thousands of gates, aliases and secrets, which no scheduler looks at",
    size=3000,
    small=300,
)
def readiness_gates(ask: Ask) -> Scene:
    more = {
        "readinessGates": [{"conditionType": key} for key in ask.label_keys()],
        "imagePullSecrets": [{"name": name} for name in ask.names()],
        "hostAliases": [
            {"ip": f"10.0.{i >> 8 & 255}.{i & 255}", "hostnames": [name]}
            for i, name in enumerate(ask.names())
        ],
    }
    return Scene(pods=[pod(ask.tag, **more)])


@row(
    "scheduling-gates",
    "SchedulingGates: a pod that is held back for thousands of reasons",
    size=10000,
    small=500,
    held_back=True,
)
def gates(ask: Ask) -> Scene:
    return Scene(pods=[pod(ask.tag, schedulingGates=[{"name": key} for key in ask.label_keys()])])


def service(name: str, namespace: str, selector: dict[str, str]) -> Json:
    spec = {"clusterIP": "None", "selector": selector, "ports": [{"port": 80}]}
    return named("Service", name, namespace=namespace, spec=spec)


@row(
    "services-elsewhere",
    "default spreading: thousands of Services in other namespaces than the pod's",
    size=2000,
    small=100,
    by=NAMESPACES,
)
def services_elsewhere(ask: Ask) -> Scene:
    other = f"{ask.tag}-other"
    before = [named("Namespace", other, namespace="")]
    before += [service(name, other, {"app": "plain"}) for name in ask.names()]
    return Scene(before, [pod(ask.tag, metadata={"labels": {"app": "plain"}})])


@row(
    "services-of-the-pod",
    "default spreading: hundreds of Services that all select the pod",
    size=500,
    small=120,
)
def services(ask: Ask) -> Scene:
    before = [
        service(name, "adversary", {key: "x"})
        for name, key in zip(ask.names(), ask.label_keys(), strict=True)
    ]
    metadata = {"labels": dict.fromkeys(ask.label_keys(), "x")}
    return Scene(before, [pod(ask.tag, metadata=metadata)])


def owned_by(kind: str, ask: Ask, **metadata: object) -> Json:
    owner = {
        "apiVersion": "apps/v1" if kind != "ReplicationController" else "v1",
        "kind": kind,
        "name": ask.tag,
        "uid": f"uid-{ask.tag}",
        "controller": True,
    }
    return pod(f"{ask.tag}-0", metadata={"ownerReferences": [owner], **metadata})


def template(labels: dict[str, str]) -> Json:
    spec = {"containers": [{"name": "main", "image": IMAGE}]}
    return {"metadata": {"labels": labels}, "spec": spec}


@row(
    "stateful-set-selector",
    "default spreading: the pod's StatefulSet has a selector of thousands of requirements",
    size=8000,
    small=400,
)
def stateful_set(ask: Ask) -> Scene:
    labels = {"app": ask.tag}
    selector = matching(expression("app", "Exists"), *map(expression, ask.label_keys()))
    spec = {"serviceName": "", "selector": selector, "template": template(labels)}
    owner = named("StatefulSet", ask.tag, api="apps/v1", spec=spec)
    return Scene([owner], [owned_by("StatefulSet", ask, labels=labels)])


@row(
    "replication-controller-selector",
    "default spreading: the pod's ReplicationController selects by thousands of labels",
    size=6000,
    small=400,
)
def replication_controller(ask: Ask) -> Scene:
    labels = dict.fromkeys(ask.label_keys(), "x")
    spec = {"selector": labels, "template": template(labels)}
    owner = named("ReplicationController", ask.tag, spec=spec)
    return Scene([owner], [owned_by("ReplicationController", ask, labels=labels)])


@row(
    "distinct-specs",
    "memories by template: many pods none of which is like another",
    size=300,
    small=15,
)
def distinct(ask: Ask) -> Scene:
    return Scene(
        pods=[
            pod(name, nodeSelector={"kubernetes.io/os": "linux"}, container={"image": f"{name}:1"})
            for name in ask.names()
        ]
    )


@row(
    "waiting-pods",
    "queueing hints: many pods that wait, each for something else, and are asked at every event",
    size=300,
    small=15,
)
def waiting(ask: Ask) -> Scene:
    return Scene(
        pods=[
            pod(name, nodeSelector={key: "x"})
            for name, key in zip(ask.names(), ask.label_keys(), strict=True)
        ]
    )
