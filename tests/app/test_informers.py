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
from kscheduler.app.informers import UNFINISHED, Informers
from kscheduler.client.informers.informer import InformerFactory
from kscheduler.errors import ConfigError
from kscheduler.plugins import resources_read


@pytest.fixture
def factory():
    return InformerFactory(client=None)


def followed(factory):
    return sorted(resource.plural for resource, *_ in factory._informers)


def test_pods_and_nodes_are_always_followed(factory):
    Informers(factory, [])
    assert followed(factory) == ["nodes", "pods"]


def test_pods_that_came_to_their_end_are_not(factory):
    Informers(factory, [])
    [selector] = [key[2] for key in factory._informers if key[0].plural == "pods"]
    assert selector == UNFINISHED == "status.phase!=Succeeded,status.phase!=Failed"


def test_plugins_bring_what_they_read(factory):
    informers = Informers(factory, resources_read(["InterPodAffinity", "VolumeZone", "NodeName"]))
    assert followed(factory) == [
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "pods",
        "storageclasses",
    ]
    assert informers.lister(Namespace) is factory.informer(NAMESPACES)


def test_listers_are_the_informers_even_while_they_are_empty(factory):
    informers = Informers(factory, [NAMESPACES])
    assert informers.lister(Pod) is informers.pods
    assert informers.lister(Node) is informers.nodes
    assert informers.lister(Namespace) is factory.informer(NAMESPACES)


def test_what_nobody_reads_is_an_empty_list(factory):
    informers = Informers(factory, [])
    assert informers.lister(PersistentVolume).get("x") is None
    assert not list(informers.lister(PersistentVolume).items())


def test_events_are_followed_under_the_names_plugins_use(factory):
    informers = Informers(factory, [])
    assert informers.of_event("PersistentVolume") is factory.informer(PERSISTENT_VOLUMES)
    assert informers.lister(PersistentVolume) is factory.informer(PERSISTENT_VOLUMES)
    assert informers.of_event("storage.k8s.io/CSINode") is not None
    custom = informers.of_event("foos.v1.example.com")
    assert custom is informers.of_event("foos.v1.example.com")


class Rack(ApiObject):
    zone: str = ""


RACKS = Resource("example.com", "v1", "racks", "Rack", Rack, namespaced=False)


def test_plugins_from_outside_follow_what_they_like(factory):
    informers = Informers(factory, [NAMESPACES])
    one_map = informers.follow(CONFIG_MAPS, "kube-system", "metadata.name=loads", "")
    assert one_map is factory.informer(
        CONFIG_MAPS, namespace="kube-system", field_selector="metadata.name=loads"
    )
    assert informers.follow(RACKS, "", "", "") is factory.informer(RACKS)


def test_what_is_followed_anyway_is_shared(factory):
    informers = Informers(factory, [NAMESPACES])
    assert informers.follow(PODS, "", "", "") is informers.pods
    assert informers.follow(NAMESPACES, "", "", "") is factory.informer(NAMESPACES)


def test_what_has_no_struct_is_followed_whole_as_plain_mappings(factory):
    informers = Informers(factory, [])
    untyped = Resource("example.com", "v1", "racks", "Rack", ApiObject)
    assert informers.follow(untyped, "", "", "") is factory.dynamic("racks.v1.example.com")
    with pytest.raises(ConfigError, match="can only be followed whole"):
        informers.follow(untyped, "ns", "", "")
