import msgspec
import pytest

from kscheduler.api.core import (
    Container,
    ContainerStatus,
    Pod,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.requests import ACCOUNTED, FROM_SPEC
from kscheduler.api.sharing import share_pod
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.pod_template import PodTemplate


def asking(**requests):
    return Container("c", resources=ResourceRequirements(requests=requests))


def allocated(**requests):
    return (ContainerStatus("c", allocated_resources=requests),)


def pod(name="p", namespace="ns", status=None, **spec):
    spec.setdefault("containers", (asking(cpu="1", memory="1Mi"),))
    metadata = ObjectMeta(name=name, namespace=namespace, uid=name)
    return share_pod(Pod(metadata, PodSpec(**spec), status or PodStatus()))


def test_pods_of_one_workload_have_one_template_wherever_they_are():
    pending, placed = PodInfo(pod("p1")), PodInfo(pod("p2", node_name="n1"))
    assert pending.template is placed.template
    assert pending.assigned_to("n2").template is pending.template
    assert pending.requests is placed.requests


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(pod(namespace="elsewhere"), id="another namespace"),
        pytest.param(pod(containers=(asking(cpu="2", memory="1Mi"),)), id="other requests"),
        pytest.param(pod(tolerations=(Toleration("k"),)), id="other tolerations"),
        pytest.param(pod(priority=1000), id="another priority"),
        pytest.param(pod(node_selector={}), id="an empty selector instead of none"),
    ],
)
def test_what_tells_templates_apart(other):
    assert PodInfo(other).template is not PodInfo(pod()).template


def test_pods_that_are_counted_in_another_way_have_another_template():
    one = pod()
    assert PodInfo(one, ACCOUNTED).template is not PodInfo(one, FROM_SPEC).template


def test_parts_that_are_equal_but_not_shared_make_no_difference_to_what_is_found_out():
    shared = pod()
    spec = msgspec.json.decode(msgspec.json.encode(shared.spec), type=PodSpec)
    alike = PodInfo(msgspec.structs.replace(shared, spec=spec))
    assert alike.template is not PodInfo(shared).template
    assert (alike.requests, alike.nonzero_cpu) == ({"cpu": 1000, "memory": 1 << 20}, 1000)


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param(PodStatus(), 1000, id="nothing reported"),
        pytest.param(PodStatus(container_statuses=allocated(cpu="1")), 1000, id="as asked for"),
        pytest.param(PodStatus(container_statuses=allocated(cpu="3")), 3000, id="more"),
        pytest.param(
            PodStatus(
                container_statuses=allocated(cpu="500m"),
                conditions=(PodCondition("PodResizePending", "True", reason="Infeasible"),),
            ),
            500,
            id="less, and a resize that is not possible",
        ),
    ],
)
def test_reports_count_for_the_pods_that_have_them_only(status, cpu):
    for _ in range(2):
        assert PodInfo(pod("reported", status=status)).requests["cpu"] == cpu
        assert PodInfo(pod("other")).requests["cpu"] == 1000
        assert PodInfo(pod("reported", status=status)).spec_requests["cpu"] == 1000


def test_templates_are_bounded_in_bytes():
    first = PodInfo(pod()).template
    for number in range(10_000):
        PodTemplate.of(f"ns-{number}", PodSpec(), ACCOUNTED)
        assert PodTemplate._known.bytes <= PodTemplate._known.max_bytes
    assert all(cache.bytes <= cache.max_bytes for cache in PodTemplate.CACHES)
    assert PodInfo(pod()).template is not first


def test_a_huge_spec_has_a_template_of_its_own():
    tolerations = tuple([Toleration(key=f"key-{number}") for number in range(20_000)])
    huge = pod(tolerations=tolerations)
    before = [cache.entries for cache in PodTemplate.CACHES]
    assert PodInfo(huge).template is not PodInfo(huge).template
    assert [cache.entries for cache in PodTemplate.CACHES] == before
