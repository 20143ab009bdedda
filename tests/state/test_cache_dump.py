from kscheduler.api.core import (
    Node,
    NodeStatus,
)
from kscheduler.api.meta import ObjectMeta
from kscheduler.state.cache import Cache
from kscheduler.state.cache_dump import dump, mismatch
from tests.kit.objects import make_pod_info


def make_pod(name, node, nominated=""):
    requests = {"cpu": "100m", "memory": "1Ki", "x.io/gpu": "1"}
    fields = {"node": node, "nominated": nominated, "requests": requests}
    return make_pod_info(name, namespace="ns", status={"phase": "Running"}, **fields)


def test_nodes_and_ghosts_are_told():
    cache = Cache()
    cache.add_node(
        Node(
            ObjectMeta(name="n1"),
            status=NodeStatus(allocatable={"cpu": "4", "memory": "1Mi", "pods": "110"}),
        )
    )
    cache.add_pod(make_pod("a", "n1"))
    cache.add_pod(make_pod("b", "gone"))
    nominated = {"n1": [make_pod("c", "", "n1")]}
    assert "".join(node.text(nominated.get(node.name, [])) for node in dump(cache)) == (
        "Node name: n1\n"
        "Deleted: false\n"
        "Requested Resources: &{MilliCPU:100 Memory:1024 EphemeralStorage:0 AllowedPodNumber:0 "
        "ScalarResources:map[x.io/gpu:1]}\n"
        "Allocatable Resources:&{MilliCPU:4000 Memory:1048576 EphemeralStorage:0 "
        "AllowedPodNumber:110 ScalarResources:map[]}\n"
        "Scheduled Pods(number: 1):\n"
        "name: a, namespace: ns, uid: uid-a, phase: Running, nominated node: \n"
        "Nominated Pods(number: 1):\n"
        "name: c, namespace: ns, uid: uid-c, phase: Running, nominated node: n1\n"
        "Node name: gone\n"
        "Deleted: true\n"
        "Requested Resources: &{MilliCPU:100 Memory:1024 EphemeralStorage:0 AllowedPodNumber:0 "
        "ScalarResources:map[x.io/gpu:1]}\n"
        "Allocatable Resources:&{MilliCPU:0 Memory:0 EphemeralStorage:0 AllowedPodNumber:0 "
        "ScalarResources:map[]}\n"
        "Scheduled Pods(number: 1):\n"
        "name: b, namespace: ns, uid: uid-b, phase: Running, nominated node: \n"
    )


def test_what_is_missed_and_what_is_too_much():
    assert mismatch(["c", "a", "b"], ["b", "d", "b"]) == (["a", "c"], ["b", "d"])
