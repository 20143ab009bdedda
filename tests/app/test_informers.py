"""Which collections are followed, and for whom."""

import pytest

from kscheduler.api.core import Namespace, Node, PersistentVolume, Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    PODS,
    Resource,
)
from kscheduler.app.informers import UNFINISHED, Following
from kscheduler.client.informers.informer import InformerFactory
from kscheduler.errors import ConfigError
from kscheduler.plugins import resources_read


@pytest.fixture
def factory():
    return InformerFactory(client=None)


def followed(factory):
    return sorted(resource.plural for resource, *_ in factory._informers)


def test_pods_and_nodes_are_always_followed(factory):
    Following(factory, [])
    assert followed(factory) == ["nodes", "pods"]


def test_pods_that_came_to_their_end_are_not(factory):
    Following(factory, [])
    [selector] = [key[2] for key in factory._informers if key[0].plural == "pods"]
    assert selector == UNFINISHED == "status.phase!=Succeeded,status.phase!=Failed"


def test_plugins_bring_what_they_read(factory):
    following = Following(factory, resources_read(["InterPodAffinity", "VolumeZone", "NodeName"]))
    assert followed(factory) == [
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "storageclasses",
    ]
    assert following.lister(Namespace) is factory.informer(NAMESPACES)


def test_listers_are_the_informers_even_while_they_are_empty(factory):
    following = Following(factory, [NAMESPACES])
    assert following.lister(Pod) is following.pods
    assert following.lister(Node) is following.nodes
    assert following.lister(Namespace) is factory.informer(NAMESPACES)


def test_what_nobody_reads_is_an_empty_list(factory):
    following = Following(factory, [])
    assert following.lister(PersistentVolume).get("x") is None
    assert not list(following.lister(PersistentVolume).items())


def test_events_are_followed_under_the_names_plugins_use(factory):
    following = Following(factory, [])
    assert following.of_event("PersistentVolume") is factory.informer(PERSISTENT_VOLUMES)
    assert following.lister(PersistentVolume) is factory.informer(PERSISTENT_VOLUMES)
    assert following.of_event("storage.k8s.io/CSINode") is not None
    custom = following.of_event("foos.v1.example.com")
    assert custom is following.of_event("foos.v1.example.com")


class Rack(ApiObject):
    zone: str = ""


RACKS = Resource("example.com", "v1", "racks", "Rack", Rack, namespaced=False)


def test_plugins_from_outside_follow_what_they_like(factory):
    following = Following(factory, [NAMESPACES])
    one_map = following.follow(CONFIG_MAPS, "kube-system", "metadata.name=loads", "")
    assert one_map is factory.informer(
        CONFIG_MAPS, namespace="kube-system", field_selector="metadata.name=loads"
    )
    assert following.follow(RACKS, "", "", "") is factory.informer(RACKS)


def test_what_is_followed_anyway_is_shared(factory):
    following = Following(factory, [NAMESPACES])
    assert following.follow(PODS, "", "", "") is following.pods
    assert following.follow(NAMESPACES, "", "", "") is factory.informer(NAMESPACES)


def test_what_has_no_struct_is_followed_whole_as_plain_mappings(factory):
    following = Following(factory, [])
    untyped = Resource("example.com", "v1", "racks", "Rack", ApiObject)
    assert following.follow(untyped, "", "", "") is factory.dynamic("racks.v1.example.com")
    with pytest.raises(ConfigError, match="can only be followed whole"):
        following.follow(untyped, "ns", "", "")
