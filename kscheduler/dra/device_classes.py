"""Device classes, by name and by the extended resource that stands for them.

A pod may ask for `example.com/gpu: 1` instead of writing a claim. A class is meant by the name in
its `spec.extendedResourceName`, and always by `deviceclass.resource.kubernetes.io/<class>`.

Mirrors deviceclass/extendedresourcecache of k8s.io/dynamic-resource-allocation. Differs: where
several classes give one name, upstream's answer, and whether the others can still be meant by their
own names, depends on the order in which they arrived; here the newest class is meant, the first by
name among equally new ones, and each by its own name.
"""

from __future__ import annotations

from collections.abc import Iterator

from kscheduler.api.resource import DeviceClass
from kscheduler.api.resource_names import is_extended
from kscheduler.framework.listers import FollowedLister

CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"

_BY_EXTENDED_RESOURCE = "extended resource"


def may_stand_for_class(resource: str) -> bool:
    """Whether a resource of this name may be backed by devices."""
    # Asked of every pod's cpu and memory, several times: those have no slash.
    return "/" in resource and (is_extended(resource) or resource.startswith(CLASS_PREFIX))


class DeviceClasses:
    """Device classes as the lister has them; `by_extended_resource` is off without its gate."""

    def __init__(self, lister: FollowedLister[DeviceClass], *, by_extended_resource: bool) -> None:
        self._lister = lister
        self._by_extended_resource = by_extended_resource
        lister.add_index(_BY_EXTENDED_RESOURCE, _extended_resources)

    def get(self, name: str) -> DeviceClass | None:
        return self._lister.get(name)

    def of_extended_resource(self, resource: str) -> DeviceClass | None:
        """The class whose devices serve requests of this resource."""
        if not self._by_extended_resource:
            return None
        if resource.startswith(CLASS_PREFIX):
            return self._lister.get(resource.removeprefix(CLASS_PREFIX))
        classes = self._lister.by_index(_BY_EXTENDED_RESOURCE, resource)
        newest = max((_created(one) for one in classes), default="")
        return min(
            (one for one in classes if _created(one) == newest),
            key=lambda one: one.name,
            default=None,
        )


def _created(device_class: DeviceClass) -> str:
    return device_class.metadata.creation_timestamp or ""


def _extended_resources(device_class: DeviceClass) -> Iterator[str]:
    if device_class.spec.extended_resource_name is not None:
        yield device_class.spec.extended_resource_name
