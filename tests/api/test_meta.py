import gc

import msgspec
import pytest

from kscheduler.api import RESOURCES, core, meta, resource, scheduling, small_groups, storage
from kscheduler.api.core import Container, Pod, PodSpec
from kscheduler.api.meta import EMPTY, ApiStruct, ObjectMeta, OwnerReference

MODULES = (core, meta, resource, scheduling, small_groups, storage)
STRUCTS = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and issubclass(value, ApiStruct)
]


def test_a_namespaced_object_is_known_as_namespace_slash_name():
    assert Pod(metadata=ObjectMeta(name="p", namespace="ns")).key == "ns/p"


def test_a_cluster_scoped_object_is_known_by_its_name():
    assert core.Node(metadata=ObjectMeta(name="n")).key == "n"


def test_the_controller_is_the_owner_that_says_so():
    owners = (OwnerReference(name="a"), OwnerReference(name="b", controller=True))
    assert ObjectMeta(owner_references=owners).controller == owners[1]
    assert ObjectMeta(owner_references=owners[:1]).controller is None


def test_structs_cannot_be_changed():
    with pytest.raises(AttributeError):
        Pod().spec = PodSpec()


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_every_struct_is_frozen_and_invisible_to_the_collector(struct):
    config = struct.__struct_config__
    assert config.frozen
    assert config.omit_defaults
    assert config.gc is False


def test_empty_maps_and_lists_cost_nothing():
    first, second = Container(), Container()
    assert first.resources.requests is second.resources.requests is EMPTY
    assert first.ports == ()


def test_defaults_are_left_out_on_the_wire():
    assert msgspec.json.encode(Pod(metadata=ObjectMeta(name="p"))) == b'{"metadata":{"name":"p"}}'


def test_decoded_objects_are_not_tracked_by_the_collector():
    pod = msgspec.json.decode(b'{"spec":{"containers":[{"name":"c"}]}}', type=Pod)
    assert not gc.is_tracked(pod)
    assert not gc.is_tracked(pod.spec.containers[0])


def test_long_affinity_names_are_short_here():
    data = (
        b'{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
        b'{"nodeSelectorTerms":[{}]},"preferredDuringSchedulingIgnoredDuringExecution":'
        b'[{"weight":3}]},"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":'
        b'[{"topologyKey":"zone"}]}}}'
    )
    affinity = msgspec.json.decode(data, type=PodSpec).affinity
    assert len(affinity.node_affinity.required.node_selector_terms) == 1
    assert affinity.node_affinity.preferred[0].weight == 3
    assert affinity.pod_anti_affinity.required[0].topology_key == "zone"


def test_an_absent_and_an_empty_node_selector_differ():
    assert msgspec.json.decode(b"{}", type=PodSpec).node_selector is None
    assert msgspec.json.decode(b'{"nodeSelector":{}}', type=PodSpec).node_selector == {}


def test_quantities_may_be_numbers():
    data = b'{"resources":{"requests":{"cpu":2,"memory":"1Gi","x":0.5}}}'
    requests = msgspec.json.decode(data, type=Container).resources.requests
    assert requests == {"cpu": 2, "memory": "1Gi", "x": 0.5}


@pytest.mark.parametrize("item", RESOURCES, ids=lambda item: item.group_resource)
def test_every_resource_decodes_an_empty_object(item):
    assert msgspec.json.decode(b"{}", type=item.struct) == item.struct()
