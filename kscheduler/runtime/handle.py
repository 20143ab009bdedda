"""The handle of a profile's plugins, with what the runtime itself needs besides.

The runtime asks for these things and knows nothing of what provides them: the app gives informers,
the real queue and a client, a simulation gives plain objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from kscheduler.api.resources import Resource
from kscheduler.framework.handle import ApiCalls, Gates, Nominator, Recorder
from kscheduler.framework.listers import FixedLister, Lister, Listers
from kscheduler.metrics import Metrics
from kscheduler.runtime.background import Background
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.out_of_tree.health import HealthBoard, Limits
from kscheduler.runtime.out_of_tree.watchdog import Watchdog
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.runtime.framework import Framework


S = TypeVar("S")

# (resource, namespace, field selector, label selector)
Follow = Callable[[Resource, str, str, str], Lister[Any]]

# Background work of out-of-tree plugins may wait for long, and must not make evictions wait.
MAX_OUT_OF_TREE_WORK = 4096


def _follow_nothing(resource: Resource, namespace: str, fields: str, labels: str) -> Lister[Any]:
    return FixedLister({})


class OutOfTreeServices(msgspec.Struct):
    """Services for out-of-tree plugins only; shared by all profiles."""

    limits: Limits = msgspec.field(default_factory=Limits)
    watchdog: Watchdog = msgspec.field(default_factory=Watchdog)
    health: HealthBoard = msgspec.field(default_factory=HealthBoard)
    background: Background = msgspec.field(default_factory=lambda: Background(MAX_OUT_OF_TREE_WORK))
    # Starts to watch a collection, or finds the lister of one that is watched already.
    follow: Follow = _follow_nothing


def _no_framework() -> Framework:
    raise LookupError("the handle belongs to no profile")


class RuntimeHandle(msgspec.Struct, kw_only=True):
    """Implements `framework.handle.Handle`.

    The provider gives what profiles share and the profile's recorder; `profile.build_framework`
    makes a copy for the profile, with the last three fields.
    """

    gates: Gates
    listers: Listers
    # The nodes as the attempt under way sees them; not to be used outside of one.
    snapshot: Callable[[], Nodes]
    nominator: Nominator
    activate: Callable[[Iterable[PodInfo]], None]
    client: ApiCalls
    recorder: Recorder
    metrics: Metrics
    waiting_pods: WaitingPods = msgspec.field(default_factory=WaitingPods)
    pods_in_pre_bind: PodsInPreBind = msgspec.field(default_factory=PodsInPreBind)
    background: Background = msgspec.field(default_factory=Background)
    extenders: Extenders = msgspec.field(default_factory=Extenders)
    rng: Random = msgspec.field(default_factory=Random)
    clock: Callable[[], float] = time.monotonic
    # For out-of-tree plugins; they get a `PluginHandle` made of this one.
    out_of_tree: OutOfTreeServices = msgspec.field(default_factory=OutOfTreeServices)
    profile_name: str = ""
    # The framework that the plugins will be part of. A function, because it is made of them.
    framework: Callable[[], Framework] = _no_framework
    # Objects that in-tree plugins share, whatever their profile.
    shared_objects: dict[type, Any] = msgspec.field(default_factory=dict)

    def shared(self, kind: type[S], make: Callable[[], S]) -> S:
        if kind not in self.shared_objects:
            self.shared_objects[kind] = make()
        found: S = self.shared_objects[kind]
        return found
