"""What a plugin may use of the scheduler around it; its constructor gets one.

The framework asks for these things and knows nothing of who provides them: the app gives informers,
the real queue and a client, a simulation gives plain objects.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod, PodStatus
from kscheduler.framework.listers import Listers
from kscheduler.framework.plugin import Plugin
from kscheduler.metrics import Metrics
from kscheduler.runtime.background import Background
from kscheduler.runtime.extenders.extenders import Extenders
from kscheduler.runtime.out_of_tree.support import Support
from kscheduler.runtime.pods_in_pre_bind import PodsInPreBind
from kscheduler.runtime.waiting_pods import WaitingPods
from kscheduler.state.change_log import ChangeLog
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

if TYPE_CHECKING:
    from kscheduler.runtime.framework import Framework


class Gates(Protocol):
    def enabled(self, name: str, /) -> bool: ...


class Nominator(Protocol):
    """Pods promised to a node that is still being emptied for them."""

    @property
    def nodes(self) -> Collection[str]: ...

    @property
    def changes(self) -> ChangeLog[str]:
        """The nodes for which `pods_for_node` may have another answer."""

    def pods_for_node(self, node: str, /) -> Sequence[PodInfo]: ...

    def node_of(self, uid: str, /) -> str | None: ...


class ApiCalls(Protocol):
    """The writes of plugins.

    They raise KschedulerError when they fail, MissingError if that is because the pod is gone.
    """

    async def bind(self, pod: Pod, node: str, /) -> None: ...

    async def patch_pod_status(self, pod: Pod, status: PodStatus, /) -> None: ...

    async def delete_pod(self, pod: Pod, /) -> None: ...

    async def update_volume(self, volume: PersistentVolume, /) -> PersistentVolume:
        """Write annotations and claimRef, if nobody else has written since; as it is then."""

    async def update_claim(self, claim: PersistentVolumeClaim, /) -> PersistentVolumeClaim:
        """The same for a claim's annotations."""


class Recorder(Protocol):
    """Tells users what happened to an object."""

    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None: ...


@dataclass(kw_only=True, slots=True)
class Handle:
    """Shared by all profiles but for the last two fields, which `profile.build` fills in."""

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
    # For plugins from outside; they get a `PluginHandle` made of this one.
    outside: Support = field(default_factory=Support)
    profile_name: str = ""
    framework: Framework = field(init=False, repr=False)


Factory = Callable[[Any, Handle], Plugin]
