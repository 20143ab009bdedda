from fractions import Fraction
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import (
    Container,
    ContainerStatus,
    NodeAllocatableMappedResources,
    NodeAllocatableOverheadResources,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from kscheduler.api.quantity import NANO, parse
from kscheduler.api.requests import (
    ACCOUNTED,
    NON_ZERO_DEFAULTS,
    Counting,
    in_units,
    is_resize_deferred,
    is_resize_infeasible,
    non_zero_requests,
    pod_limits,
    pod_requests,
)

MI = 1024 * 1024


def asking(name="c", sidecar=False, limits=None, **requests):
    """A container; `cpu="700m"` and the like are its requests."""
    return Container(
        name=name,
        resources=resources(limits=limits or {}, **requests),
        restart_policy="Always" if sidecar else None,
    )


def resources(limits=None, **requests):
    return ResourceRequirements(requests=requests, limits=limits or {})


def pod(*containers, init=(), status=None, **spec):
    return Pod(
        spec=PodSpec(containers=containers, init_containers=tuple(init), **spec),
        status=status or PodStatus(),
    )


def given_to(name="c", allocated=None, in_force=None):
    """A container's status: what the kubelet allocated to it and what is in force."""
    return ContainerStatus(
        name=name,
        allocated_resources=allocated,
        resources=None if in_force is None else ResourceRequirements(requests=in_force),
    )


def resizing(reason, *statuses, **fields):
    condition = PodCondition(type="PodResizePending", reason=reason)
    return PodStatus(conditions=(condition,), container_statuses=statuses, **fields)


# One resource, exact fractions, nothing shared with the code under test but the parser.
cpu_amounts = st.sampled_from(["0", "1m", "100.5m", "250m", "1", "3"])
plain = st.builds(lambda cpu: asking(cpu=cpu), cpu_amounts)
sidecars = st.builds(lambda cpu: asking(cpu=cpu, sidecar=True), cpu_amounts)


def exact(container):
    return Fraction(parse(container.resources.requests["cpu"]).nanos, NANO)


def naive_cpu(containers, init):
    running = sum(map(exact, containers)) + sum(exact(c) for c in init if c.restartable)
    starting = [
        exact(container) + sum(exact(c) for c in init[:position] if c.restartable)
        for position, container in enumerate(init)
    ]
    return max([running, *starting], default=Fraction(0))


@given(st.lists(plain, max_size=3), st.lists(plain | sidecars, max_size=4))
def test_a_pod_asks_for_its_worst_moment(containers, init):
    want = ceil(naive_cpu(containers, init) * 1000)
    units = in_units(pod_requests(pod(*containers, init=init)))
    assert units.get("cpu", 0) == want


@given(st.lists(plain, max_size=3), st.lists(plain | sidecars, max_size=4))
def test_without_reports_the_status_changes_nothing(containers, init):
    a_pod = pod(*containers, init=init)
    assert pod_requests(a_pod, ACCOUNTED) == pod_requests(a_pod)


@given(
    st.lists(st.tuples(cpu_amounts, st.none() | cpu_amounts, st.none() | cpu_amounts), max_size=3)
)
def test_the_greatest_of_asked_allocated_and_in_force_is_counted(containers):
    def total(amounts):
        return sum(parse(amount).nanos for amount in amounts)

    named = list(enumerate(containers))
    a_pod = pod(
        *(asking(f"c{i}", cpu=asked) for i, (asked, _, _) in named),
        status=PodStatus(
            container_statuses=tuple(
                given_to(
                    f"c{i}",
                    allocated=None if allocated is None else {"cpu": allocated},
                    in_force=None if actual is None else {"cpu": actual},
                )
                for i, (_, allocated, actual) in named
            )
        ),
    )
    want = max(
        total(asked for asked, _, _ in containers),
        total(allocated or asked for asked, allocated, _ in containers),
        total(actual or allocated or asked for asked, allocated, actual in containers),
    )
    assert pod_requests(a_pod, ACCOUNTED).get("cpu", 0) == want


@pytest.mark.parametrize(
    ("a_pod", "want"),
    [
        pytest.param(pod(), {}, id="no containers"),
        pytest.param(pod(asking()), {}, id="nothing asked"),
        pytest.param(pod(asking(cpu="0")), {"cpu": 0}, id="explicit zero"),
        pytest.param(
            pod(asking(cpu="100.5m"), asking(cpu="100.5m")), {"cpu": 201}, id="rounded once"
        ),
        pytest.param(pod(asking(memory="100.5")), {"memory": 101}, id="memory rounds up"),
        pytest.param(
            pod(
                asking(cpu="1"),
                init=[
                    asking(cpu="5"),
                    asking(cpu="1", sidecar=True),
                    asking(cpu="2", sidecar=True),
                    asking(cpu="5"),
                    asking(cpu="3", sidecar=True),
                ],
            ),
            {"cpu": 8000},
            id="sidecars between init containers",
        ),
        pytest.param(
            pod(asking(cpu="100m"), init=[asking(cpu="10m", sidecar=True), asking(cpu="200m")]),
            {"cpu": 210},
            id="a sidecar runs while an init container starts",
        ),
        pytest.param(
            pod(asking(cpu="1"), overhead={"cpu": "250m", "memory": "1Mi"}),
            {"cpu": 1250, "memory": MI},
            id="overhead",
        ),
        pytest.param(
            pod(asking(cpu="500m"), resources=resources(cpu="700m")),
            {"cpu": 700},
            id="pod-level replaces the sum",
        ),
        pytest.param(
            pod(asking(cpu="1"), resources=resources(cpu="700m"), overhead={"cpu": "50m"}),
            {"cpu": 750},
            id="overhead comes on top of pod-level",
        ),
        pytest.param(
            pod(
                asking(cpu="1"),
                resources=ResourceRequirements(
                    requests={"ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi"}
                ),
            ),
            {"cpu": 1000, "hugepages-2Mi": 4 * MI},
            id="only some resources can be pod-level",
        ),
        pytest.param(
            pod(asking(cpu="1"), resources=ResourceRequirements(limits={"cpu": "9"})),
            {"cpu": 1000},
            id="pod-level limits alone do nothing",
        ),
        pytest.param(
            pod(asking(cpu="2", foo="7"), asking(**{"nvidia.com/gpu": "1"})),
            {"cpu": 2000, "nvidia.com/gpu": 1},
            id="unknown names are dropped",
        ),
    ],
)
def test_requests_by_the_spec(a_pod, want):
    assert in_units(pod_requests(a_pod)) == want


RESIZED = (given_to(allocated={"cpu": "500m"}, in_force={"cpu": "500m"}),)


@pytest.mark.parametrize(
    ("a_pod", "want"),
    [
        pytest.param(
            pod(asking(cpu="700m"), status=resizing("Deferred", *RESIZED)), 700, id="deferred"
        ),
        pytest.param(
            pod(asking(cpu="700m"), status=resizing("Infeasible", *RESIZED)), 500, id="infeasible"
        ),
        pytest.param(
            pod(
                asking(cpu="500m"),
                init=[asking("i", cpu="700m")],
                status=PodStatus(container_statuses=RESIZED),
            ),
            700,
            id="a greater init container",
        ),
        pytest.param(
            pod(
                asking(cpu="500m"),
                init=[asking("i", cpu="700m"), asking("s", cpu="700m", sidecar=True)],
                status=PodStatus(container_statuses=RESIZED),
            ),
            1200,
            id="and a sidecar",
        ),
        pytest.param(
            pod(
                asking("c1", cpu="1"),
                asking("c2", cpu="2"),
                status=PodStatus(
                    container_statuses=(
                        given_to("c1", allocated={"cpu": "2"}),
                        given_to("c2", allocated={"cpu": "1"}),
                    )
                ),
            ),
            3000,
            id="the maximum of sums, not the sum of maxima",
        ),
        pytest.param(
            pod(
                asking(cpu="100m"),
                init=[asking("s", cpu="100m", sidecar=True)],
                status=PodStatus(
                    init_container_statuses=(given_to("s", allocated={"cpu": "300m"}),)
                ),
            ),
            400,
            id="only an init container has a status",
        ),
        pytest.param(
            pod(
                asking(cpu="100m"),
                status=PodStatus(
                    allocated_resources={"cpu": "300m"}, resources=resources(cpu="200m")
                ),
            ),
            300,
            id="pod-level status replaces the containers'",
        ),
        pytest.param(
            pod(
                asking(cpu="100m"),
                status=PodStatus(
                    allocated_resources={"cpu": "300m"}, resources=ResourceRequirements()
                ),
            ),
            100,
            id="but only when both maps are there",
        ),
        pytest.param(
            pod(
                asking(cpu="500m"),
                resources=resources(cpu="700m"),
                status=PodStatus(
                    allocated_resources={"cpu": "500m"}, resources=resources(cpu="500m")
                ),
            ),
            700,
            id="pod-level request above its status",
        ),
        pytest.param(
            pod(
                asking(cpu="500m"),
                resources=resources(cpu="700m"),
                status=resizing(
                    "Infeasible",
                    allocated_resources={"cpu": "600m"},
                    resources=resources(cpu="500m"),
                ),
            ),
            600,
            id="infeasible pod-level resize",
        ),
    ],
)
def test_requests_as_a_node_accounts_them(a_pod, want):
    assert in_units(pod_requests(a_pod, ACCOUNTED)) == {"cpu": want}


def test_the_status_is_not_looked_at_by_the_spec():
    a_pod = pod(asking(cpu="700m"), status=resizing("Infeasible", *RESIZED))
    assert in_units(pod_requests(a_pod)) == {"cpu": 700}


def test_gates_switch_parts_off():
    status = PodStatus(allocated_resources={"cpu": "3"}, resources=resources(cpu="3"))
    a_pod = pod(asking(cpu="1"), resources=resources(cpu="2"), status=status)
    assert in_units(pod_requests(a_pod, Counting(pod_level=False))) == {"cpu": 1000}
    assert in_units(pod_requests(a_pod, ACCOUNTED)) == {"cpu": 3000}
    without = Counting(status=True, pod_level_status=False)
    assert in_units(pod_requests(a_pod, without)) == {"cpu": 2000}


def test_the_first_resize_condition_decides_whatever_its_status():
    conditions = (
        PodCondition(type="Ready", reason="Deferred"),
        PodCondition(type="PodResizePending", status="False", reason="Infeasible"),
        PodCondition(type="PodResizePending", status="True", reason="Deferred"),
    )
    a_pod = Pod(status=PodStatus(conditions=conditions))
    assert is_resize_infeasible(a_pod)
    assert not is_resize_deferred(a_pod)
    assert not is_resize_infeasible(Pod())


@pytest.mark.parametrize(
    ("a_pod", "want"),
    [
        pytest.param(pod(), (0, 0), id="no containers"),
        pytest.param(pod(asking(), asking()), (200, 400 * MI), id="two request-less containers"),
        pytest.param(pod(asking(cpu="0", memory="0")), (0, 0), id="explicit zero stays"),
        pytest.param(pod(asking(cpu="1")), (1000, 200 * MI), id="only memory is missing"),
        pytest.param(
            pod(asking(cpu="3m", memory="1"), init=[asking()]),
            (100, 200 * MI),
            id="a request-less init container",
        ),
        pytest.param(
            pod(asking(cpu="3m"), asking(), init=[asking()]), (103, 400 * MI), id="and another one"
        ),
        pytest.param(
            pod(asking(), init=[asking("i")], resources=resources(memory="1Gi")),
            (100, 1024 * MI),
            id="pod-level memory: cpu gets its default",
        ),
        pytest.param(
            pod(asking(cpu="50m"), asking(), resources=resources(memory="1Gi")),
            (50, 1024 * MI),
            id="pod-level memory: cpu is known",
        ),
    ],
)
def test_requests_are_never_taken_for_zero(a_pod, want):
    assert non_zero_requests(a_pod) == want


def test_defaults_can_be_given_to_any_count():
    scored = pod_requests(
        pod(asking(cpu="1"), resources=resources(cpu="9")),
        Counting(pod_level=False),
        NON_ZERO_DEFAULTS,
    )
    assert in_units(scored) == {"cpu": 1000, "memory": 200 * MI}


def test_claims_add_what_their_devices_use():
    claim = NodeAllocatableResourceClaimStatus(
        containers=("a", "b"),
        mapping=(NodeAllocatableMappedResources(name="cpu", quantity="2"),),
        overhead=(
            NodeAllocatableOverheadResources(name="memory", per_pod="1Mi", per_container="2Mi"),
        ),
    )
    status = PodStatus(node_allocatable_resource_claim_statuses=(claim,))
    a_pod = pod(asking(cpu="1"), status=status)
    assert in_units(pod_requests(a_pod)) == {"cpu": 1000}
    counted = in_units(pod_requests(a_pod, Counting(status=True, claims=True)))
    assert counted == {"cpu": 3000, "memory": 5 * MI}


@pytest.mark.parametrize(
    ("a_pod", "want"),
    [
        pytest.param(pod(asking(cpu="1")), {}, id="no limits"),
        pytest.param(
            pod(asking(limits={"cpu": "1"}), asking(limits={"cpu": "2"})), {"cpu": 3000}, id="sum"
        ),
        pytest.param(
            pod(asking(limits={"cpu": "1"}), overhead={"cpu": "1", "memory": "1"}),
            {"cpu": 2000},
            id="overhead only on what is limited",
        ),
        pytest.param(
            pod(asking(limits={"cpu": "0"}), overhead={"cpu": "1"}), {"cpu": 0}, id="zero limit"
        ),
        pytest.param(
            pod(
                asking(limits={"cpu": "1"}),
                resources=ResourceRequirements(limits={"cpu": "5", "foo": "1"}),
            ),
            {"cpu": 5000},
            id="pod-level",
        ),
    ],
)
def test_limits(a_pod, want):
    assert in_units(pod_limits(a_pod)) == want
