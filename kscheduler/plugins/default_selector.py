"""Which pods belong together when a pod does not say: those its Services and its owner select.

Mirrors pkg/scheduler/framework/plugins/helper/spread.go. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from kscheduler.api.apps import ReplicaSet, StatefulSet
from kscheduler.api.core import ReplicationController, Service
from kscheduler.api.labels import (
    EVERYTHING,
    Selector,
    SelectorError,
    compile_selector,
    selector_from_labels,
)
from kscheduler.api.meta import LabelSelector, OwnerReference
from kscheduler.framework.listers import Listers
from kscheduler.plugins.listed_objects import AnswersFrom
from kscheduler.state.pod_info import PodInfo

_Labels = tuple[tuple[str, str], ...]


class DefaultSelector:
    def __init__(self, listers: Listers) -> None:
        services = listers.lister(Service)
        self._by_services: AnswersFrom[Service, tuple[str, tuple[str, ...]], _Labels] = AnswersFrom(
            services
        )
        self._replication_controllers = listers.lister(ReplicationController)
        self._replica_sets = listers.lister(ReplicaSet)
        self._stateful_sets = listers.lister(StatefulSet)

    def of(self, pod: PodInfo) -> Selector:
        """Selects everything if nothing is known about the pod."""
        labels = self._labels_of_services(pod)
        owners = pod.pod.metadata.owner_references
        owner = pod.pod.metadata.controller if owners else None
        if owner is None:
            return _selector(labels) if labels else EVERYTHING
        return self._with_owner(labels, owner, pod.namespace)

    def _labels_of_services(self, pod: PodInfo) -> _Labels:
        """What all Services together that select the pod ask for; they cannot contradict."""
        question = (pod.namespace, pod.label_set)
        known = self._by_services.get(question)
        if known is not None:
            return known
        asked: dict[str, str] = {}
        for service in self._by_services.objects:
            wanted = service.spec.selector
            if service.namespace == pod.namespace and wanted.items() <= pod.labels.items():
                asked |= wanted
        return self._by_services.put(question, tuple(asked.items()))

    def _with_owner(self, labels: _Labels, owner: OwnerReference, namespace: str) -> Selector:
        """An owner that does not exist, or is of another kind, or nonsense, adds nothing."""
        key = f"{namespace}/{owner.name}"
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                controller = self._replication_controllers.get(key)
                return _selector(labels, _items(controller.spec.selector if controller else {}))
            case "apps/v1", "ReplicaSet":
                replica_set = self._replica_sets.get(key)
                return _both(labels, replica_set.spec.selector if replica_set else None)
            case "apps/v1", "StatefulSet":
                stateful_set = self._stateful_sets.get(key)
                return _both(labels, stateful_set.spec.selector if stateful_set else None)
            case _:
                return _selector(labels)


def _both(labels: _Labels, selector: LabelSelector | None) -> Selector:
    if selector is None:
        return _selector(labels)
    try:
        return _joined(_selector(labels), compile_selector(selector))
    except SelectorError:
        return _selector(labels)


def _items(labels: Mapping[str, str]) -> _Labels:
    return tuple(labels.items())


@lru_cache(maxsize=1024)
def _selector(labels: _Labels, more: _Labels = ()) -> Selector:
    return selector_from_labels(dict(labels) | dict(more))


@lru_cache(maxsize=1024)
def _joined(one: Selector, other: Selector) -> Selector:
    return Selector((*one, *other))
