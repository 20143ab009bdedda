"""Device classes by the extended resources that stand for them."""

import pytest

from kscheduler.api.decode import convert
from kscheduler.api.resource import DeviceClass
from kscheduler.dra.device_classes import DeviceClasses, may_stand_for_class
from tests.plugins.volumes import Informers

GPU = "example.com/gpu"


def make_class(name, resource=None, created="2026-01-01T00:00:00Z", version="1"):
    about = {"name": name, "creationTimestamp": created, "resourceVersion": version}
    return convert({"metadata": about, "spec": {"extendedResourceName": resource}}, DeviceClass)


def class_for(resource, *classes, on=True):
    known = DeviceClasses(Informers(classes).lister(DeviceClass), by_extended_resource=on)
    found = known.of_extended_resource(resource)
    return found and found.name


def test_a_class_is_meant_by_the_resource_it_names():
    assert class_for(GPU, make_class("a", GPU), make_class("b", "example.com/fpga")) == "a"
    assert class_for("example.com/other", make_class("a", GPU)) is None


def test_every_class_is_meant_by_its_own_name():
    assert class_for("deviceclass.resource.kubernetes.io/a", make_class("a")) == "a"
    assert class_for("deviceclass.resource.kubernetes.io/b", make_class("a")) is None


def test_without_the_gate_no_class_is_meant():
    assert class_for(GPU, make_class("a", GPU), on=False) is None
    assert class_for("deviceclass.resource.kubernetes.io/a", make_class("a"), on=False) is None


def test_of_several_classes_the_newest_is_meant():
    old = make_class("a", GPU)
    new = make_class("z", GPU, "2026-02-01T00:00:00Z")
    assert class_for(GPU, old, new) == "z"
    assert class_for(GPU, new, old) == "z"


def test_of_equally_new_classes_the_first_by_name_is_meant():
    assert class_for(GPU, make_class("b", GPU), make_class("a", GPU)) == "a"


def test_a_class_that_is_not_meant_keeps_its_own_name():
    new = make_class("z", GPU, "2026-02-01T00:00:00Z")
    assert class_for("deviceclass.resource.kubernetes.io/a", make_class("a", GPU), new) == "a"


def test_a_class_that_changes_its_resource_is_meant_by_the_new_one():
    informers = Informers([make_class("a", GPU)])
    known = DeviceClasses(informers.lister(DeviceClass), by_extended_resource=True)
    changed = make_class("a", "example.com/fpga", version="2")
    informers.put(changed)
    assert known.of_extended_resource(GPU) is None
    assert known.of_extended_resource("example.com/fpga") is changed
    assert known.get("a") is changed


@pytest.mark.parametrize(
    ("resource", "may"),
    [
        (GPU, True),
        ("deviceclass.resource.kubernetes.io/a", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/foo", False),
    ],
)
def test_resources_that_may_stand_for_a_class(resource, may):
    assert may_stand_for_class(resource) is may
