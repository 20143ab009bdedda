import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.api.core import (
    Container,
    ContainerImage,
    ContainerPort,
    Node,
    NodeCondition,
    NodeStatus,
    Pod,
    PodSpec,
    ResourceClaimReference,
    ResourceRequirements,
    Toleration,
)
from kscheduler.api.meta import EMPTY, ObjectMeta, OwnerReference
from kscheduler.api.sharing import share_node, share_pod

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
    ),
)


@given(pods)
def test_a_shared_pod_is_the_same_pod(pod):
    assert share_pod(pod) == pod
    assert msgspec.json.encode(share_pod(pod)) == msgspec.json.encode(share_pod(share_pod(pod)))


def decoded_pod(name):
    data = (
        b'{"metadata":{"name":"%s","labels":{"app":"web"},"ownerReferences":[{"name":"rs"}]},'
        b'"spec":{"containers":[{"name":"c","image":"web:1","resources":'
        b'{"requests":{"cpu":"1"}}}],"tolerations":[{"key":"k"}]}}'
    )
    return msgspec.json.decode(data % name, type=Pod)


def test_pods_of_one_workload_hold_one_copy():
    first, second = share_pod(decoded_pod(b"p1")), share_pod(decoded_pod(b"p2"))
    assert (first.name, second.name) == ("p1", "p2")
    assert first.metadata.labels is second.metadata.labels
    assert first.metadata.owner_references is second.metadata.owner_references
    assert first.spec.tolerations is second.spec.tolerations
    assert first.spec.containers[0].resources is second.spec.containers[0].resources
    assert first.spec.containers[0].image is second.spec.containers[0].image


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
