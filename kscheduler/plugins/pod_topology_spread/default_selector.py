"""Which pods belong together when a pod does not say: those its Services and its owner select.

Mirrors pkg/scheduler/framework/plugins/helper/spread.go. Differs: nothing.
"""

from __future__ import annotations

from kscheduler.api.core import ReplicationController, Service
from kscheduler.api.labels import (
    EVERYTHING,
    Selector,
    SelectorError,
    compile_selector,
    selector_from_labels,
)
from kscheduler.api.meta import LabelSelector, OwnerReference
from kscheduler.api.small_groups import ReplicaSet, StatefulSet
from kscheduler.caches import BoundedCache
from kscheduler.framework.listers import Listers
from kscheduler.plugins.helper.lister_memo import NamespaceMemo
from kscheduler.state.pod_info import PodInfo
from kscheduler.state.selector_lookup import bytes_of_selector

_Labels = tuple[tuple[str, str], ...]

# Selectors of workloads, some 1 kB each.
MAX_SELECTOR_BYTES = 1 << 20


class DefaultSelector:
    def __init__(self, listers: Listers) -> None:
        self._services: NamespaceMemo[Service, tuple[str, ...], _Labels] = NamespaceMemo(
            listers.lister(Service), "labels_of_services"
        )
        self._replication_controllers = listers.lister(ReplicationController)
        self._replica_sets = listers.lister(ReplicaSet)
        self._stateful_sets = listers.lister(StatefulSet)
        self._made: BoundedCache[tuple[_Labels, Selector | None], Selector] = BoundedCache(
            "default_selectors", MAX_SELECTOR_BYTES
        )
        self.caches = (*self._services.caches, self._made)

    def of(self, pod: PodInfo) -> Selector:
        """Selects everything if nothing is known about the pod."""
        labels = self._labels_of_services(pod)
        owners = pod.pod.metadata.owner_references
        owner = pod.pod.metadata.controller if owners else None
        if owner is None:
            return self._selector(labels) if labels else EVERYTHING
        return self._with_owner(labels, owner, pod.namespace)

    def _labels_of_services(self, pod: PodInfo) -> _Labels:
        """What all Services together that select the pod ask for; they cannot contradict."""
        known = self._services.get(pod.namespace, pod.label_set)
        if known is not None:
            return known
        asked: dict[str, str] = {}
        for service in self._services.objects(pod.namespace):
            wanted = service.spec.selector
            if wanted.items() <= pod.labels.items():
                asked |= wanted
        cost = 300 + 100 * (len(pod.labels) + len(asked))
        return self._services.put(pod.namespace, pod.label_set, tuple(asked.items()), cost)

    def _with_owner(self, labels: _Labels, owner: OwnerReference, namespace: str) -> Selector:
        """An owner that does not exist, or is of another kind, or nonsense, adds nothing."""
        key = f"{namespace}/{owner.name}"
        match owner.api_version, owner.kind:
            case "v1", "ReplicationController":
                controller = self._replication_controllers.get(key)
                if controller is not None:
                    labels = tuple((dict(labels) | dict(controller.spec.selector)).items())
                return self._selector(labels)
            case "apps/v1", "ReplicaSet":
                replica_set = self._replica_sets.get(key)
                return self._both(labels, replica_set.spec.selector if replica_set else None)
            case "apps/v1", "StatefulSet":
                stateful_set = self._stateful_sets.get(key)
                return self._both(labels, stateful_set.spec.selector if stateful_set else None)
            case _:
                return self._selector(labels)

    def _both(self, labels: _Labels, selector: LabelSelector | None) -> Selector:
        if selector is None:
            return self._selector(labels)
        try:
            return self._selector(labels, compile_selector(selector))
        except SelectorError:
            return self._selector(labels)

    def _selector(self, labels: _Labels, owners: Selector | None = None) -> Selector:
        """Selects what has these labels and, if there is an owner's selector, matches that."""
        made = self._made.get((labels, owners))
        if made is None:
            made = selector_from_labels(dict(labels))
            if owners is not None:
                made = Selector((*made, *owners))
            self._made.put((labels, owners), made, 2 * bytes_of_selector(made))
        return made
