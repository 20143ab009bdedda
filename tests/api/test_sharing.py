import gc
import tracemalloc

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kscheduler.api.core import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    ContainerStatus,
    Namespace,
    Node,
    NodeCondition,
    NodeStatus,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    PodStatus,
    ResourceClaimReference,
    ResourceRequirements,
    Toleration,
    Volume,
)
from kscheduler.api.meta import (
    EMPTY,
    LabelSelector,
    LabelSelectorRequirement,
    ObjectMeta,
    OwnerReference,
)
from kscheduler.api.sharing import CACHES, share_node, share_pod, sharing_of
from kscheduler.state import pod_info
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.pod_template import PodTemplate

texts = st.sampled_from(["", "a", "b"])
label_sets = st.dictionaries(texts, texts, max_size=2)
quantity_maps = st.dictionaries(st.sampled_from(["cpu", "memory"]), texts, max_size=2)
resources = st.builds(
    ResourceRequirements,
    requests=quantity_maps,
    limits=quantity_maps,
    claims=st.lists(st.builds(ResourceClaimReference, texts, texts), max_size=1).map(tuple),
)
containers = st.builds(
    Container,
    name=texts,
    image=texts,
    ports=st.lists(st.builds(ContainerPort, st.integers(1, 2)), max_size=2).map(tuple),
    resources=resources,
    restart_policy=st.none() | texts,
)
volumes = st.builds(
    Volume,
    name=texts,
    persistent_volume_claim=st.builds(PersistentVolumeClaimSource, claim_name=texts),
)
selectors = st.builds(
    LabelSelector,
    match_labels=label_sets,
    match_expressions=st.lists(
        st.builds(LabelSelectorRequirement, key=texts, values=st.tuples(texts)), max_size=1
    ).map(tuple),
)
affinities = st.builds(
    Affinity,
    pod_affinity=st.none()
    | st.builds(
        PodAffinity,
        required=st.tuples(
            st.builds(PodAffinityTerm, label_selector=st.none() | selectors, topology_key=texts)
        ),
    ),
)
statuses = st.builds(
    PodStatus,
    phase=texts,
    conditions=st.lists(st.builds(PodCondition, type=texts, status=texts), max_size=2).map(tuple),
    container_statuses=st.lists(
        st.builds(
            ContainerStatus,
            name=texts,
            allocated_resources=st.none() | quantity_maps,
            resources=st.none() | resources,
        ),
        max_size=2,
    ).map(tuple),
)
pods = st.builds(
    Pod,
    metadata=st.builds(
        ObjectMeta,
        name=texts,
        labels=label_sets,
        annotations=label_sets,
        owner_references=st.lists(st.builds(OwnerReference, kind=texts), max_size=1).map(tuple),
    ),
    spec=st.builds(
        PodSpec,
        node_name=texts,
        containers=st.lists(containers, max_size=2).map(tuple),
        init_containers=st.lists(containers, max_size=2).map(tuple),
        tolerations=st.lists(st.builds(Toleration, key=texts), max_size=2).map(tuple),
        volumes=st.lists(volumes, max_size=2).map(tuple),
        node_selector=st.none() | label_sets,
        affinity=st.none() | affinities,
        overhead=quantity_maps,
        priority=st.none() | st.integers(-(2**31), 2**31 - 1),
    ),
    status=statuses,
)


@given(pods)
def test_a_shared_pod_is_the_same_pod(pod):
    assert share_pod(pod) == pod
    assert msgspec.json.encode(share_pod(pod)) == msgspec.json.encode(share_pod(share_pod(pod)))


def decoded_pod(name, app=b"web"):
    data = (
        b'{"metadata":{"name":"%s","labels":{"app":"%s"},"ownerReferences":[{"name":"rs"}]},'
        b'"spec":{"containers":[{"name":"c","image":"web:1","resources":'
        b'{"requests":{"cpu":"1"}}}],"tolerations":[{"key":"k"}]}}'
    )
    return msgspec.json.decode(data % (name, app), type=Pod)


def test_pods_of_one_workload_hold_one_copy():
    first, second = share_pod(decoded_pod(b"p1")), share_pod(decoded_pod(b"p2"))
    assert (first.name, second.name) == ("p1", "p2")
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec is second.spec


def test_pods_of_one_workload_that_are_placed_differ_in_their_node_only():
    def placed(name, node):
        pod = decoded_pod(name)
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        return share_pod(msgspec.structs.replace(pod, spec=spec))

    first, second, pending = placed(b"p1", "n1"), placed(b"p2", "n2"), share_pod(decoded_pod(b"p3"))
    assert (first.spec.node_name, second.spec.node_name) == ("n1", "n2")
    for field in msgspec.structs.fields(PodSpec):
        if field.name != "node_name":
            parts = [getattr(pod.spec, field.name) for pod in (first, second, pending)]
            assert parts[0] is parts[1] is parts[2], field.name


def test_the_volume_of_a_token_does_not_tell_pods_apart():
    def pod(token):
        claim = PersistentVolumeClaimSource(claim_name="data")
        volumes = (Volume("data", persistent_volume_claim=claim), Volume(token))
        return share_pod(Pod(spec=PodSpec(volumes=volumes)))

    first, second = pod("kube-api-access-x7x7x"), pod("kube-api-access-y8y8y")
    assert first.spec is second.spec
    assert [volume.name for volume in first.spec.volumes] == ["data"]


def test_running_pods_hold_one_copy_of_what_their_containers_were_given():
    def running(time):
        allocated = ContainerStatus("c", allocated_resources={"cpu": "1"})
        condition = PodCondition("Ready", "True", last_transition_time=time)
        return share_pod(
            Pod(status=PodStatus("Running", (condition,), container_statuses=(allocated,)))
        )

    first, second = running("2026-01-01T00:00:00Z"), running("2026-01-01T00:00:01Z")
    assert first.status.container_statuses is second.status.container_statuses
    assert first.status.conditions != second.status.conditions


def test_only_kinds_that_repeat_themselves_are_shared():
    assert sharing_of(Pod) is share_pod
    assert sharing_of(Node) is share_node
    assert sharing_of(Namespace) is None


def test_what_is_absent_stays_absent():
    pod = share_pod(Pod(spec=PodSpec(containers=(Container(),))))
    assert pod.spec.containers[0].resources.requests is EMPTY
    assert pod.metadata.labels is EMPTY


def test_every_part_of_a_request_tells_it_apart():
    base = ResourceRequirements(requests={"cpu": "1"}, limits={"cpu": "2"})
    others = [
        msgspec.structs.replace(base, **{name: value})
        for name, value in (
            ("requests", {"cpu": "3"}),
            ("limits", {"cpu": "3"}),
            ("claims", (ResourceClaimReference("c"),)),
        )
    ]
    assert len(others) == len(msgspec.structs.fields(ResourceRequirements))
    for resource in (base, *others):
        pod = Pod(spec=PodSpec(containers=(Container(resources=resource),)))
        assert share_pod(pod).spec.containers[0].resources == resource


def test_nodes_hold_one_copy_of_an_image():
    def node(name):
        image = ContainerImage(names=("web", "1"), size_bytes=10**6)
        status = NodeStatus(images=(image,), conditions=(NodeCondition("Ready", "True"),))
        return Node(metadata=ObjectMeta(name=name), status=status)

    first, second = share_node(node("n1")), share_node(node("n2"))
    assert first == node("n1")
    assert first.status.images[0] is second.status.images[0]
    assert first.status.conditions is second.status.conditions


def everything_aged():
    for cache in CACHES:
        cache.age()
    return {cache.name: (cache.entries, cache.bytes) for cache in CACHES}


def test_what_no_object_has_any_more_is_forgotten():
    # Garbage of other tests holds parts, too, for as long as nobody has collected it; and what
    # they have left behind may hold the labels of any usual pod.
    gc.collect()
    before = everything_aged()
    waiting = share_pod(decoded_pod(b"p1", app=b"forgotten"))
    on_node = replace(waiting.spec, node_name=f"node-{len(before)}")
    placed = share_pod(replace(waiting, spec=on_node))
    node = share_node(Node(status=NodeStatus(images=(ContainerImage(("some/image:9",), 7),))))
    held = everything_aged()
    assert all(held[name] > before[name] for name in ("shared_specs", "shared_labels"))
    del waiting
    assert everything_aged() == held, "pods that are placed hold the parts"
    assert share_pod(decoded_pod(b"p2")).spec.containers is placed.spec.containers
    del placed, node, on_node
    assert everything_aged() == before


def large_pods(number):
    """Annotations of 250 KB, and tolerations of about 800 KB."""
    yield Pod(ObjectMeta(name="a", annotations={f"note-{number}": "x" * 250_000}))
    tolerations = tuple([Toleration(f"{number}-{one}", "Exists") for one in range(8_000)])
    yield Pod(ObjectMeta(name="b"), PodSpec(tolerations=tolerations))
    labels = {f"{number}-{one}": "v" * 60 for one in range(5_000)}
    yield Pod(ObjectMeta(name="c", labels=labels))
    owners = tuple([OwnerReference(name=f"{number}-{one}") for one in range(5_000)])
    yield Pod(ObjectMeta(name="d", owner_references=owners))


def test_large_objects_that_come_and_go_leave_nothing_behind():
    def come_and_go(rounds):
        for number in rounds:
            for pod in large_pods(number):
                PodInfo(share_pod(pod))
        for _ in range(2):
            for cache in (*PodTemplate.CACHES, *pod_info.CACHES, *CACHES):
                cache.age()

    come_and_go(range(2))
    tracemalloc.start()
    come_and_go(range(2, 12))
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 300_000
    assert peak < sum(cache.max_bytes for cache in CACHES)
