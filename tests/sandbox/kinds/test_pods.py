"""Pods as the API server stores and refuses them."""

import pytest

from kscheduler.sandbox import ApiServer, StatusError
from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import PODS


@pytest.fixture
def objects():
    return ApiServer().objects


def container(**parts):
    return {"name": "c", "image": "example.com/app:1", **parts}


def created_spec(objects, **spec):
    return objects.create(pod_manifest("p", **spec))["spec"]


def test_a_bare_pod_is_filled_in(objects):
    bare = [{"name": "c", "image": "example.com/app:1"}]
    assert created_spec(objects, containers=bare) == {
        "containers": [
            {
                "name": "c",
                "image": "example.com/app:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        "priority": 0,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
        "tolerations": [bearing("not-ready"), bearing("unreachable")],
    }


def bearing(trouble):
    """What the server adds to every pod that says nothing else."""
    key = f"node.kubernetes.io/{trouble}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}


@pytest.mark.parametrize(
    ("given", "added"),
    [
        pytest.param(
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
            ["unreachable"],
            id="one of the troubles",
        ),
        pytest.param({"operator": "Exists"}, [], id="everything"),
        pytest.param(
            {"operator": "Exists", "effect": "NoSchedule"},
            ["not-ready", "unreachable"],
            id="another effect",
        ),
    ],
)
def test_trouble_of_nodes_is_borne_for_a_while_unless_the_pod_says_otherwise(objects, given, added):
    spec = created_spec(objects, tolerations=[given])
    assert spec["tolerations"] == [given, *map(bearing, added)]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1", "IfNotPresent"),
        ("host:5000/nginx", "Always"),
        ("nginx@sha256:abc", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(objects, image, policy):
    spec = created_spec(objects, containers=[container(image=image)])
    assert spec["containers"][0]["imagePullPolicy"] == policy


def test_requests_come_from_limits_in_canonical_spelling(objects):
    resources = {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": 0.1}}
    (first,) = created_spec(objects, containers=[container(resources=resources)])["containers"]
    assert first["resources"] == {
        "limits": {"cpu": "1", "memory": "1Gi"},
        "requests": {"cpu": "100m", "memory": "1Gi"},
    }


def test_amounts_below_a_thousandth_are_rounded_up(objects):
    resources = {"requests": {"cpu": "100u"}}
    (first,) = created_spec(objects, containers=[container(resources=resources)])["containers"]
    assert first["resources"]["requests"] == {"cpu": "1m"}


def test_ports_of_the_host_network_are_host_ports(objects):
    ports = [{"containerPort": 80}]
    spec = created_spec(objects, hostNetwork=True, containers=[container(ports=ports)])
    assert spec["containers"][0]["ports"] == [
        {"containerPort": 80, "hostPort": 80, "protocol": "TCP"}
    ]


def test_label_keys_become_expressions(objects):
    selector = {"matchLabels": {"app": "web"}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
        "matchLabelKeys": ["version", "absent"],
    }
    term = {"topologyKey": "zone", "labelSelector": selector, "mismatchLabelKeys": ["team"]}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = created_spec(
        objects,
        labels={"app": "web", "version": "2", "team": "a"},
        topologySpreadConstraints=[spread],
        affinity={"podAntiAffinity": rules},
    )
    (constraint,) = spec["topologySpreadConstraints"]
    assert constraint["labelSelector"]["matchExpressions"] == [
        {"key": "version", "operator": "In", "values": ["2"]}
    ]
    (rule,) = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["labelSelector"]["matchExpressions"] == [
        {"key": "team", "operator": "NotIn", "values": ["a"]}
    ]


def test_pod_level_limits_ask_for_what_the_containers_ask(objects):
    asks = container(resources={"requests": {"cpu": "300m"}})
    spec = created_spec(
        objects, containers=[asks], resources={"limits": {"cpu": "1", "memory": "1Gi"}}
    )
    assert spec["resources"]["requests"] == {"cpu": "300m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "want"),
    [
        pytest.param({}, "BestEffort", id="nothing asked"),
        pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="requests only"),
        pytest.param({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="limits for both"),
        pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="one limit only"),
        pytest.param(
            {"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}},
            "BestEffort",
            id="devices do not count",
        ),
    ],
)
def test_quality_of_service(objects, resources, want):
    pod = objects.create(pod_manifest("p", containers=[container(resources=resources)]))
    assert pod["status"]["qosClass"] == want


def test_a_gated_pod_says_that_it_is_gated(objects):
    pod = objects.create(pod_manifest("p", schedulingGates=[{"name": "example.com/wait"}]))
    (condition,) = pod["status"]["conditions"]
    assert {**condition, "lastTransitionTime": "T"} == {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": "T",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }


def priority_class(name, value, **parts):
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        **parts,
    }


def test_priority_comes_from_the_class(objects):
    objects.create(priority_class("high", 1000, preemptionPolicy="Never"))
    spec = created_spec(objects, priorityClassName="high")
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")


def test_system_classes_exist(objects):
    spec = created_spec(objects, priorityClassName="system-node-critical")
    assert spec["priority"] == 2_000_001_000


def test_the_default_class_is_used_where_none_is_named(objects):
    objects.create(priority_class("usual", 7, globalDefault=True))
    spec = created_spec(objects)
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 7)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"priorityClassName": "none"},
            'pods "p" is forbidden: no PriorityClass with name none was found',
            id="unknown class",
        ),
        pytest.param(
            {"priority": 5},
            'pods "p" is forbidden: the integer value of priority (5) must not be provided in pod '
            "spec; priority admission controller computed 0 from the given PriorityClass name",
            id="own number",
        ),
    ],
)
def test_a_priority_is_forbidden(objects, spec, message):
    with pytest.raises(StatusError) as refused:
        objects.create(pod_manifest("p", **spec))
    assert (refused.value.code, str(refused.value)) == (403, message)


def test_pods_bring_their_own_priority_when_admission_is_off():
    objects = ApiServer(disable_admission=["Priority"]).objects
    assert created_spec(objects, priority=5)["priority"] == 5


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def node_affinity(**rule):
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


RULE = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        pytest.param({"containers": []}, "spec.containers: Required value", id="no container"),
        pytest.param(
            {"containers": [{"name": "c"}]},
            "spec.containers[0].image: Required value",
            id="no image",
        ),
        pytest.param(
            {"containers": [container(), container()]},
            'spec.containers[1].name: Duplicate value: "c"',
            id="same name twice",
        ),
        pytest.param(
            {
                "containers": [
                    container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})
                ]
            },
            'spec.containers[0].resources.requests: Invalid value: "2": '
            "must be less than or equal to cpu limit of 1",
            id="request above limit",
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"memory": "-1"}})]},
            'spec.containers[0].resources.requests[memory]: Invalid value: "-1": '
            "must be greater than or equal to 0",
            id="negative request",
        ),
        pytest.param(
            {
                "containers": [
                    container(resources={"requests": {"gpus": "1"}, "limits": {"gpus": "1"}})
                ]
            },
            'spec.containers[0].resources.limits[gpus]: Invalid value: "gpus": '
            "must be a standard resource for containers",
            id="unknown resource",
        ),
        pytest.param(
            {"containers": [container(resources={"requests": {"example.com/gpu": "1"}})]},
            "spec.containers[0].resources.limits: Required value: "
            "Limit must be set for non overcommitable resources",
            id="device without limit",
        ),
        pytest.param(
            {"containers": [container(ports=[{"containerPort": 70000}])]},
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive",
            id="port out of range",
        ),
        pytest.param(
            {"containers": [container(volumeMounts=[{"name": "v", "mountPath": "/v"}])]},
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
            id="mount without volume",
        ),
        pytest.param(
            {"restartPolicy": "Sometimes"},
            'spec.restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "Never", "OnFailure"',
            id="restart policy",
        ),
        pytest.param(
            {"schedulingGates": [{"name": "g"}], "nodeName": "n"},
            "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            id="gated but assigned",
        ),
        pytest.param(
            {"tolerations": [{"operator": "Equal", "value": "x"}]},
            'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when '
            '`key` is empty, which means "match all values and all keys"',
            id="toleration without key",
        ),
        pytest.param(
            {"tolerations": [{"key": "k", "effect": "Never"}]},
            'spec.tolerations[0].effect: Unsupported value: "Never": '
            'supported values: "NoExecute", "NoSchedule", "PreferNoSchedule"',
            id="toleration effect",
        ),
        pytest.param(
            node_affinity(key="a", operator="In"),
            f"{RULE}.values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            id="node affinity without values",
        ),
        pytest.param(
            node_affinity(key="a", operator="Near", values=["b"]),
            f'{RULE}.operator: Invalid value: "Near": not a valid selector operator',
            id="node affinity operator",
        ),
        pytest.param(
            {"affinity": {"podAffinity": {REQUIRED: [{"labelSelector": {}, "topologyKey": ""}]}}},
            f"spec.affinity.podAffinity.{REQUIRED}[0].topologyKey: "
            "Required value: can not be empty",
            id="pod affinity without topology",
        ),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
                ]
            },
            "spec.topologySpreadConstraints[0].maxSkew: "
            "Invalid value: 0: must be greater than zero",
            id="no skew",
        ),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": 1,
                        "topologyKey": "z",
                        "whenUnsatisfiable": "ScheduleAnyway",
                        "minDomains": 2,
                    }
                ]
            },
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use "
            "minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            id="minDomains of a soft constraint",
        ),
    ],
)
def test_a_pod_is_invalid(objects, spec, wrong):
    with pytest.raises(StatusError) as refused:
        objects.create(pod_manifest("p", **spec))
    assert refused.value.code == 422
    path, _, message = wrong.partition(": ")
    causes = refused.value.details["causes"]
    assert (path, message) in [(cause["field"], cause["message"]) for cause in causes]


def test_all_mistakes_are_told_at_once(objects):
    with pytest.raises(StatusError) as refused:
        objects.create(pod_manifest("Bad Name", restartPolicy="x", dnsPolicy="y"))
    assert [cause["field"] for cause in refused.value.details["causes"]] == [
        "metadata.name",
        "spec.restartPolicy",
        "spec.dnsPolicy",
    ]
    assert str(refused.value).startswith('Pod "Bad Name" is invalid: [metadata.name: Invalid value')


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda spec: spec["containers"][0].update(image="other:2"), id="image"),
        pytest.param(lambda spec: spec.update(activeDeadlineSeconds=60), id="deadline"),
        pytest.param(
            lambda spec: spec.update(tolerations=[{"key": "k", "operator": "Exists"}]),
            id="toleration",
        ),
    ],
)
def test_little_of_a_pod_may_change(objects, change):
    objects.create(pod_manifest("p"))
    after = objects.update("pods", "p", lambda pod: change(pod["spec"]))
    assert after["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    ("change", "path", "text"),
    [
        pytest.param(
            lambda spec: spec.update(nodeName="n2"),
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`",
            id="node",
        ),
        pytest.param(
            lambda spec: spec.update(schedulerName="other"),
            "spec",
            "pod updates may not change fields other than",
            id="scheduler",
        ),
        pytest.param(
            lambda spec: spec.update(tolerations=[]),
            "spec.tolerations",
            "existing toleration can not be modified except its tolerationSeconds",
            id="toleration taken away",
        ),
        pytest.param(
            lambda spec: spec.update(schedulingGates=[{"name": "late"}]),
            "spec.schedulingGates[0].name",
            "only deletion is allowed, but found new scheduling gate 'late'",
            id="gate added",
        ),
        pytest.param(
            lambda spec: spec["containers"].append(container(name="d")),
            "spec.containers",
            "pod updates may not add or remove containers",
            id="container added",
        ),
    ],
)
def test_most_of_a_pod_is_fixed(objects, change, path, text):
    objects.create(pod_manifest("p", tolerations=[{"key": "k", "operator": "Exists"}]))
    with pytest.raises(StatusError) as refused:
        objects.update("pods", "p", lambda pod: change(pod["spec"]))
    (cause,) = refused.value.details["causes"]
    assert cause["field"] == path
    assert cause["message"].startswith(f"Forbidden: {text}")


def test_a_gated_pod_may_become_pickier_about_nodes(objects):
    objects.create(pod_manifest("p", schedulingGates=[{"name": "g"}], nodeSelector={"a": "1"}))

    def narrow(pod):
        pod["spec"]["nodeSelector"]["b"] = "2"
        pod["spec"] |= node_affinity(key="zone", operator="In", values=["z1"])

    objects.update("pods", "p", narrow)
    with pytest.raises(StatusError, match=r"only additions to spec\.nodeSelector are"):
        objects.update("pods", "p", lambda pod: pod["spec"].update(nodeSelector={}))
    opened = objects.update("pods", "p", lambda pod: pod["spec"].pop("schedulingGates"))
    assert "schedulingGates" not in opened["spec"]


async def test_resources_change_through_resize_only(rest, server):
    request = {"requests": {"cpu": "1"}}
    server.objects.create(pod_manifest("p", containers=[container(resources=request)]))
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
    assert (await rest.patch(f"{PODS}/p", larger))[0] == 422
    code, pod = await rest.patch(f"{PODS}/p/resize", larger)
    assert (code, pod["spec"]["containers"][0]["resources"]["requests"]) == (200, {"cpu": "2"})


async def test_a_bound_pod_is_not_nominated(rest, server):
    server.objects.create(pod_manifest("p", nodeName="n"))
    code, body = await rest.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "m"}})
    assert (code, body["details"]["causes"][0]["message"]) == (
        422,
        "Forbidden: may not be set on pods that are already bound to a node",
    )
