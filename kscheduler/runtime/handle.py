"""The handle of a profile's plugins, with what the runtime itself needs besides.

The runtime asks for these things and knows nothing of what provides them: the app gives informers,
the real queue and a client, a simulation gives plain objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from kscheduler.framework.handle import ApiCalls, Gates, Nominator, Recorder
from kscheduler.framework.listers import Listers
from kscheduler.metrics import Metrics
from kscheduler.runtime.background import Background
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.out_of_tree.support import Support
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.runtime.framework import Framework


def _no_framework() -> Framework:
    raise LookupError("the handle belongs to no profile")


@dataclass(kw_only=True, slots=True)
class RuntimeHandle:
    """Implements `framework.handle.Handle`.

    The provider gives what profiles share and the profile's recorder; `profile.build_framework`
    makes a copy for the profile, with the last two fields.
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
    waiting_pods: WaitingPods = field(default_factory=WaitingPods)
    pods_in_pre_bind: PodsInPreBind = field(default_factory=PodsInPreBind)
    background: Background = field(default_factory=Background)
    extenders: Extenders = field(default_factory=Extenders)
    rng: Random = field(default_factory=Random)
    clock: Callable[[], float] = time.monotonic
    # For out-of-tree plugins; they get a `PluginHandle` made of this one.
    outside: Support = field(default_factory=Support)
    profile_name: str = ""
    # The framework that the plugins will be part of. A function, because it is made of them.
    framework: Callable[[], Framework] = _no_framework
