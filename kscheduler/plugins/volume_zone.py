"""VolumeZone: a volume that is labelled with its zone is used from nodes in that zone.

Mirrors pkg/scheduler/framework/plugins/volumezone. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kscheduler import logs
from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim
from kscheduler.api.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from kscheduler.api.requests import is_resize_deferred
from kscheduler.api.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from kscheduler.api.storage import StorageClass
from kscheduler.api.volume_claims import WAIT_FOR_FIRST_CONSUMER, class_of_claim
from kscheduler.framework.cluster_event import (
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
    Action,
    ClusterEvent,
    EventWithHint,
    Hint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.status import (
    SKIP,
    Mask,
    Rejection,
    Status,
    rejected_for_good,
    unresolvable,
)
from kscheduler.gotext.strconv import quote
from kscheduler.plugins.helper import signers
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__, "FilterWithNominatedPods.Filter.VolumeZone")

REASON = "node(s) had no available volume zone"

# Labels of a volume that say where it is, and the label that a node may have instead.
TOPOLOGY: Mapping[str, str] = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}


class Place(NamedTuple):
    """A label that a node must have, with one of these values."""

    key: str
    values: frozenset[str]


class PreFilterState(NamedTuple):
    """Labels that the pod's volumes require of a node."""

    places: tuple[Place, ...]


@plugin(reads=(PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS, STORAGE_CLASSES))
class VolumeZone:
    name = "VolumeZone"

    def __init__(self, args: None, handle: Handle) -> None:
        listers = handle.listers
        self._volumes = listers.lister(PersistentVolume)
        self._claims = listers.lister(PersistentVolumeClaim)
        self._classes = listers.lister(StorageClass)
        self._passes_resizes = handle.gates.enabled("InPlacePodVerticalScalingSchedulerPreemption")

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        if not pod.claims or (self._passes_resizes and is_resize_deferred(pod.pod)):
            return SKIP
        found = self._places_of(pod)
        if isinstance(found, Status):
            return found
        if not found.places:
            return SKIP
        cycle.put(found)
        return None

    def _places_of(self, pod: PodInfo) -> PreFilterState | Status:
        places: list[Place] = []
        for key in pod.claims:
            found = self._places_of_claim(key)
            if isinstance(found, Status):
                return found
            places += found
        return PreFilterState(tuple(places))

    def _places_of_claim(self, key: str) -> tuple[Place, ...] | Status:
        """Nothing for a claim that gets its volume together with the pod's node."""
        name = key.partition("/")[2]
        if not name:
            return rejected_for_good("PersistentVolumeClaim had no name")
        claim = self._claims.get(key)
        if claim is None:
            return rejected_for_good(f"persistentvolumeclaim {quote(name)} not found")
        if not claim.spec.volume_name:
            class_name = class_of_claim(claim)
            if not class_name:
                return rejected_for_good(
                    "PersistentVolumeClaim had no pv name and storageClass name"
                )
            of_class = self._classes.get(class_name)
            if of_class is None:
                return rejected_for_good(
                    f"storageclass.storage.k8s.io {quote(class_name)} not found"
                )
            mode = of_class.volume_binding_mode
            if mode is None:
                return rejected_for_good(
                    f"VolumeBindingMode not set for StorageClass {quote(class_name)}"
                )
            if mode == WAIT_FOR_FIRST_CONSUMER:
                return ()
            return rejected_for_good("PersistentVolume had no name")
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            return rejected_for_good(f"persistentvolume {quote(claim.spec.volume_name)} not found")
        return places_of(volume)

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        found = cycle.get(PreFilterState) or self._places_of(pod)
        if isinstance(found, Status):
            yield Rejection(nodes.valid, found.code, found.message)
            return
        elsewhere = np.zeros(len(nodes), np.bool_)
        for key, values in dict.fromkeys(found.places):
            here = _has_value(key, values, nodes)
            if TOPOLOGY[key] != key:
                here |= (nodes.label(key) < 0) & _has_value(TOPOLOGY[key], values, nodes)
            elsewhere |= ~here
        # A node without any of these labels may be anywhere, and passes.
        labelled = np.zeros(len(nodes), np.bool_)
        for key in TOPOLOGY:
            labelled |= nodes.label(key) >= 0
        yield unresolvable(elsewhere & labelled, REASON)

    def log_rejected(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        if v := log.v(10):
            volumes = [
                volume
                for key in pod.claims
                if (claim := self._claims.get(key)) is not None
                and (volume := self._volumes.get(claim.spec.volume_name)) is not None
            ]
            for position, name in enumerate(nodes.names):
                found = _first_mismatch(volumes, nodes.node(position).metadata.labels)
                if found is not None:
                    volume, key = found
                    v.info(
                        "Won't schedule pod onto node due to volume (mismatch on label key)",
                        pod=logs.ref(pod.pod),
                        node=logs.ObjectRef("", name),
                        PV=logs.ObjectRef("", volume.metadata.name),
                        PVLabelKey=key,
                    )

    def events_to_register(self) -> Sequence[EventWithHint]:
        changed = Action.ADD | Action.UPDATE
        return [
            EventWithHint(ClusterEvent(STORAGE_CLASS, Action.ADD), _class_added),
            EventWithHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventWithHint(ClusterEvent(PERSISTENT_VOLUME_CLAIM, changed), _claim_changed),
            EventWithHint(ClusterEvent(PERSISTENT_VOLUME, changed), _volume_changed),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object] | Status:
        return signers.volumes(pod)


def places_of(volume: PersistentVolume) -> tuple[Place, ...]:
    """Labels that one volume requires. Several zones are joined by `__`; a list with an empty name
    in it is ignored.
    """
    labels = volume.metadata.labels
    places = []
    for key in TOPOLOGY:
        if key in labels:
            values = frozenset(part.strip() for part in labels[key].split(ZONE_DELIMITER))
            if "" not in values:
                places.append(Place(key, values))
    return tuple(places)


def _first_mismatch(
    volumes: Iterable[PersistentVolume], labels: Mapping[str, str]
) -> tuple[PersistentVolume, str] | None:
    """The first volume that is not where these labels of a node say, and the label."""
    for volume in volumes:
        for key, values in places_of(volume):
            if labels.get(key, labels.get(TOPOLOGY[key])) not in values:
                return volume, key
    return None


def _has_value(key: str, values: frozenset[str], nodes: Nodes) -> Mask:
    known = nodes.label_values(key)
    codes = [known[value] for value in values if value in known]
    return np.isin(nodes.label(key), codes)


def _class_added(pod: PodInfo, old: None, new: StorageClass) -> Hint:
    return Hint.QUEUE if new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else Hint.SKIP


def _claim_changed(
    pod: PodInfo, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim
) -> Hint:
    return Hint.QUEUE if new.key in pod.claims else Hint.SKIP


def _volume_changed(pod: PodInfo, old: PersistentVolume | None, new: PersistentVolume) -> Hint:
    return Hint.QUEUE if old is None or places_of(old) != places_of(new) else Hint.SKIP
