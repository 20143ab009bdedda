import pytest

from kscheduler.api.core import (
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    NodeAffinity,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    Present,
    ResourceRequirements,
    Volume,
    WeightedPodAffinityTerm,
)
from kscheduler.api.labels import EVERYTHING, NOTHING, selector_from_labels
from kscheduler.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta
from kscheduler.state.affinity_term import AffinityTerm, TermKind
from kscheduler.state.host_ports import HostPort
from kscheduler.state.pod_info import PodInfo

MIB = 1024 * 1024


def asking(name="c", restart_policy=None, **requests):
    return Container(
        name,
        resources=ResourceRequirements(requests=requests),
        restart_policy=restart_policy,
    )


def info(*containers, status=None, metadata=None, **spec):
    metadata = metadata or ObjectMeta(name="p", namespace="ns", uid="u")
    return PodInfo(Pod(metadata, PodSpec(containers=containers, **spec), status or PodStatus()))


def allocated(name="c", **resources):
    return ContainerStatus(
        name,
        allocated_resources=resources,
        resources=ResourceRequirements(requests=resources),
    )


def resizing(reason):
    return (PodCondition("PodResizePending", "True", reason=reason),)


def test_what_identifies_a_pod():
    pod = info(
        metadata=ObjectMeta(
            name="p", namespace="ns", uid="u", labels={"b": "2", "a": "1"}, deletion_timestamp="t"
        ),
        node_name="n1",
        priority=7,
    )
    assert (pod.uid, pod.key, pod.namespace, pod.name) == ("u", "ns/p", "ns", "p")
    assert (pod.node_name, pod.priority, pod.terminating) == ("n1", 7, True)
    assert pod.label_set == ("a", "1", "b", "2")


def test_a_pod_without_priority_has_priority_zero():
    assert (info().priority, info().terminating) == (0, False)


@pytest.mark.parametrize(
    ("pod", "requests", "nonzero"),
    [
        pytest.param(info(), {}, (0, 0), id="no containers"),
        pytest.param(info(asking()), {}, (100, 200 * MIB), id="a container that asks for nothing"),
        pytest.param(
            info(asking(cpu="0", memory="0")),
            {"cpu": 0, "memory": 0},
            (0, 0),
            id="an explicit zero",
        ),
        pytest.param(
            info(asking(cpu="100.5m"), asking("d", cpu="100.5m")),
            {"cpu": 201},
            (201, 400 * MIB),
            id="rounded once",
        ),
        pytest.param(
            info(asking(cpu="1", memory="1Mi", unknown="3", pods="4", **{"x.io/gpu": "2"})),
            {"cpu": 1000, "memory": MIB, "x.io/gpu": 2},
            (1000, MIB),
            id="only what is counted",
        ),
        pytest.param(
            info(asking(cpu="500m"), init_containers=(asking("i", cpu="700m"),)),
            {"cpu": 700},
            (700, 200 * MIB),
            id="an init container that asks for more",
        ),
        pytest.param(
            info(asking(cpu="100m", memory="1Mi"), overhead={"cpu": "10m"}),
            {"cpu": 110, "memory": MIB},
            (110, MIB),
            id="with overhead",
        ),
        pytest.param(
            info(
                asking(cpu="500m"),
                resources=ResourceRequirements(requests={"cpu": "700m"}),
            ),
            {"cpu": 700},
            (700, 200 * MIB),
            id="pod-level requests replace the sum",
        ),
    ],
)
def test_requests(pod, requests, nonzero):
    assert pod.requests == requests
    assert (pod.nonzero_cpu, pod.nonzero_memory) == nonzero
    assert pod.error == ""


@pytest.mark.parametrize(
    ("status", "spec_cpu", "cpu"),
    [
        pytest.param(PodStatus(), 700, 700, id="no status"),
        pytest.param(
            PodStatus(container_statuses=(allocated(cpu="500m"),)), 700, 700, id="growing"
        ),
        pytest.param(
            PodStatus(conditions=resizing("Deferred"), container_statuses=(allocated(cpu="500m"),)),
            700,
            700,
            id="growth deferred",
        ),
        pytest.param(
            PodStatus(
                conditions=resizing("Infeasible"), container_statuses=(allocated(cpu="500m"),)
            ),
            700,
            500,
            id="growth that is not possible",
        ),
        pytest.param(
            PodStatus(container_statuses=(allocated(cpu="900m"),)), 700, 900, id="shrinking"
        ),
        pytest.param(
            PodStatus(conditions=resizing("Infeasible")), 700, None, id="nothing was allocated"
        ),
    ],
)
def test_a_resize_counts_on_the_node_but_not_in_the_spec(status, spec_cpu, cpu):
    pod = info(asking(cpu="700m", memory="1Mi"), status=status)
    assert pod.spec_requests["cpu"] == spec_cpu
    assert pod.requests.get("cpu") == cpu


def test_a_default_fills_what_the_kubelet_did_not_report():
    status = PodStatus(container_statuses=(allocated(memory="1Mi"),))
    pod = info(asking(cpu="10m", memory="1Mi"), status=status)
    assert (pod.requests["cpu"], pod.nonzero_cpu) == (10, 100)


@pytest.mark.parametrize("broken", ["requests", "overhead"])
def test_a_quantity_that_is_none_spoils_only_its_pod(broken):
    if broken == "requests":
        pod = info(asking(cpu="lots", memory="1Mi"))
    else:
        pod = info(asking(cpu="1", memory="1Mi"), overhead={"cpu": "lots"})
    assert pod.error.startswith("quantities must match the regular expression")
    assert (pod.requests, pod.spec_requests, pod.nonzero_cpu, pod.nonzero_memory) == ({}, {}, 0, 0)


def test_host_ports_of_containers_that_keep_running():
    ports = (
        ContainerPort(1, 80),
        ContainerPort(2, 81, "10.0.0.1", "UDP"),
        ContainerPort(3),
    )
    plain = Container("plain", ports=(ContainerPort(4, 90),))
    sidecar = Container("sidecar", ports=(ContainerPort(5, 91),), restart_policy="Always")
    pod = info(Container("c", ports=ports), init_containers=(plain, sidecar))
    assert pod.host_ports == (
        HostPort("0.0.0.0", "TCP", 80),
        HostPort("10.0.0.1", "UDP", 81),
        HostPort("0.0.0.0", "TCP", 91),
    )


def test_claims_are_listed_as_often_as_they_are_named():
    pod = info(
        volumes=(
            Volume("a", persistent_volume_claim=PersistentVolumeClaimSource("c")),
            Volume("b", persistent_volume_claim=PersistentVolumeClaimSource("c")),
            Volume("d", ephemeral=Present()),
        )
    )
    assert pod.claims == ("ns/c", "ns/c")


WEB = LabelSelector({"app": "web"})


def with_terms(*, towards=None, away=None):
    return info(affinity=Affinity(pod_affinity=towards, pod_anti_affinity=away))


def test_terms_of_all_four_lists():
    term = PodAffinityTerm(WEB, topology_key="zone")
    weighted = WeightedPodAffinityTerm(3, PodAffinityTerm(WEB, ("a", "b"), "host"))
    pod = with_terms(
        towards=PodAffinity((term, term), (weighted,)), away=PodAffinity((term,), (weighted,))
    )
    own = AffinityTerm({"ns"}, None, selector_from_labels({"app": "web"}), "zone")
    other = AffinityTerm({"a", "b"}, None, selector_from_labels({"app": "web"}), "host")
    assert pod.has_affinity
    assert pod.required_affinity == (own, own)
    assert pod.required_anti_affinity == (own,)
    assert pod.preferred_affinity == pod.preferred_anti_affinity == ((3, other),)
    assert pod.carried_terms == (
        (TermKind.REQUIRED_AFFINITY, own, 1),
        (TermKind.REQUIRED_AFFINITY, own, 1),
        (TermKind.REQUIRED_ANTI_AFFINITY, own, 1),
        (TermKind.PREFERRED_AFFINITY, other, 3),
        (TermKind.PREFERRED_ANTI_AFFINITY, other, 3),
    )


@pytest.mark.parametrize(
    ("affinity", "has_affinity"),
    [
        pytest.param(None, False, id="none"),
        pytest.param(Affinity(node_affinity=NodeAffinity()), False, id="only to nodes"),
        pytest.param(Affinity(pod_affinity=PodAffinity()), True, id="an empty one"),
        pytest.param(Affinity(pod_anti_affinity=PodAffinity()), True, id="an empty opposite"),
    ],
)
def test_a_pod_has_affinity_even_if_it_is_empty(affinity, has_affinity):
    pod = info(affinity=affinity)
    assert (pod.has_affinity, pod.carried_terms) == (has_affinity, ())


@pytest.mark.parametrize(
    ("term", "namespaces", "by_labels", "selector"),
    [
        pytest.param(PodAffinityTerm(), {"ns"}, None, NOTHING, id="own namespace by default"),
        pytest.param(
            PodAffinityTerm(namespace_selector=LabelSelector()),
            set(),
            EVERYTHING,
            NOTHING,
            id="not with a namespace selector",
        ),
        pytest.param(
            PodAffinityTerm(LabelSelector(), ("x",), "", LabelSelector({"team": "t"})),
            {"x"},
            selector_from_labels({"team": "t"}),
            EVERYTHING,
            id="list and selector together",
        ),
    ],
)
def test_where_a_term_looks(term, namespaces, by_labels, selector):
    (parsed,) = with_terms(towards=PodAffinity((term,))).required_affinity
    assert parsed is AffinityTerm(namespaces, by_labels, selector, "")


@pytest.mark.parametrize(
    ("namespace", "labels", "matches"),
    [
        pytest.param("x", {"app": "web"}, True, id="listed namespace"),
        pytest.param("blue", {"app": "web"}, True, id="selected namespace"),
        pytest.param("red", {"app": "web"}, False, id="neither"),
        pytest.param("x", {"app": "db"}, False, id="other labels"),
    ],
)
def test_whom_a_term_means(namespace, labels, matches):
    web, blue = selector_from_labels({"app": "web"}), selector_from_labels({"team": "blue"})
    term = AffinityTerm({"x"}, blue, web, "zone")
    assert term.matches(namespace, labels, {"team": namespace}) is matches


def test_a_list_with_a_broken_term_is_empty_and_the_others_are_not():
    broken = LabelSelector({}, (LabelSelectorRequirement("app", "Near", ("x",)),))
    good, bad = PodAffinityTerm(WEB, topology_key="z"), PodAffinityTerm(broken, topology_key="z")
    pod = with_terms(
        towards=PodAffinity((good, bad), (WeightedPodAffinityTerm(1, bad),)),
        away=PodAffinity((good,)),
    )
    assert pod.required_affinity == pod.preferred_affinity == ()
    assert len(pod.required_anti_affinity) == len(pod.carried_terms) == 1
    complaint = '"Near" is not a valid label selector operator'
    assert pod.affinity_error == (
        f"[requiredAffinityTerms: {complaint}, preferredAffinityTerms: {complaint}]"
    )


def test_an_assigned_pod_is_the_same_but_for_its_node():
    pod = info(asking(cpu="1"), node_selector={"disk": "ssd"})
    there = pod.assigned_to("n1")
    assert (there.node_name, there.pod.spec.node_name) == ("n1", "n1")
    assert (pod.node_name, pod.pod.spec.node_name) == ("", "")
    assert there.requests is pod.requests
    assert there.required_node_affinity.labels is selector_from_labels({"disk": "ssd"})
    assert PodInfo(there.pod).requests == there.requests


def test_a_pod_has_no_other_attributes():
    with pytest.raises(AttributeError):
        info().colour  # noqa: B018
