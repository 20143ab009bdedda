"""The scheduler as plugins see it: the handle that a plugin's constructor is given.

In-tree plugins get a `Handle` and work on the scheduler's own state (`PodInfo`, `Nodes`).
Out-of-tree plugins get a `PluginHandle`, which shows read-only views and keeps its methods between
two minor versions. Both are Protocols: the runtime implements them (`runtime.handle`,
`runtime.out_of_tree.handle`), a test may give anything that has the methods used.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kscheduler.api.core import PersistentVolume, PersistentVolumeClaim, Pod, PodStatus
from kscheduler.api.resource import ResourceClaim
from kscheduler.api.resources import Resource
from kscheduler.framework.in_tree import Plugin
from kscheduler.framework.listers import Listers
from kscheduler.framework.views import NodesView, PodView
from kscheduler.metrics import Counter, Gauge, Histogram, Metrics
from kscheduler.metrics.instruments import Family

if TYPE_CHECKING:
    from kscheduler.state.change_log import ChangeLog
    from kscheduler.state.nodes_view import Nodes
    from kscheduler.state.pod_info import PodInfo

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)

Json = Mapping[str, Any]


class Gates(Protocol):
    """Feature gates."""

    def enabled(self, name: str, /) -> bool: ...


class Nominator(Protocol):
    """Pods nominated to a node: preemption is still making room for them there."""

    @property
    def nodes(self) -> Collection[str]: ...

    @property
    def changes(self) -> ChangeLog[str]:
        """The nodes for which `pods_for_node` may have another answer."""

    def pods_for_node(self, node: str, /) -> Sequence[PodInfo]: ...

    def node_of(self, uid: str, /) -> str | None: ...


class ApiCalls(Protocol):
    """Writes of in-tree plugins.

    They raise KschedulerError when they fail: MissingError if that is because the object is gone,
    ConflictError if it was written since the version given was read.
    """

    async def bind(self, pod: Pod, node: str, /) -> None: ...

    async def patch_pod_status(self, pod: Pod, status: PodStatus, /) -> None: ...

    async def clear_node_allocatable_claims(self, pod: Pod, /) -> None:
        """Take from the pod's status what devices add to its requests, if it is still this pod."""

    async def delete_pod(self, pod: Pod, /) -> None: ...

    async def update_volume(self, volume: PersistentVolume, /) -> PersistentVolume:
        """Write annotations and claimRef unless the volume has changed since; the new version."""

    async def update_claim(self, claim: PersistentVolumeClaim, /) -> PersistentVolumeClaim:
        """Write annotations unless the claim has changed since; the new version."""

    async def get_resource_claim(self, claim: ResourceClaim, /) -> ResourceClaim:
        """The claim as the API server has it now."""

    async def create_resource_claim(self, claim: ResourceClaim, /) -> ResourceClaim: ...

    async def update_resource_claim(self, claim: ResourceClaim, /) -> ResourceClaim:
        """Write finalizers unless the claim has changed since; the new version."""

    async def update_resource_claim_status(self, claim: ResourceClaim, /) -> ResourceClaim:
        """Write allocation and reservations unless the claim has changed since; the new version."""

    async def unreserve_resource_claim(self, claim: ResourceClaim, pod: Pod, /) -> None:
        """Take the pod off the claim's reservations, if it is still this claim."""

    async def delete_resource_claim(self, claim: ResourceClaim, /) -> None: ...


class Recorder(Protocol):
    """Events about pods, for their users."""

    def event(self, regarding: Pod, kind: str, reason: str, action: str, note: str, /) -> None: ...


class Handle(Protocol):
    """The handle of in-tree plugins. One per profile.

    Mirrors framework.Handle as far as plugins here use it. Differs: DefaultPreemption alone runs
    other plugins and calls off the binding of pods; what it needs for that is no part of the
    contract but of `runtime.handle`.
    """

    @property
    def profile_name(self) -> str: ...

    @property
    def gates(self) -> Gates: ...

    @property
    def listers(self) -> Listers: ...

    @property
    def snapshot(self) -> Callable[[], Nodes]:
        """All nodes, as the attempt under way sees them; not to be used outside of one."""

    @property
    def nominator(self) -> Nominator: ...

    @property
    def activate(self) -> Callable[[Iterable[PodInfo]], None]:
        """Have pods that wait in the queue tried again soon."""

    @property
    def client(self) -> ApiCalls: ...

    @property
    def recorder(self) -> Recorder: ...

    @property
    def metrics(self) -> Metrics: ...

    @property
    def rng(self) -> Random:
        """The scheduler's own source of chance; where that is seeded, decisions repeat."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds by which pods wait; good for differences only."""

    def shared(self, kind: type[S], make: Callable[[], S]) -> S:
        """The one object of this type that plugins of all profiles use; made when first asked for.

        `make` is called by the plugin that asks first.
        """


# Makes an in-tree plugin of its arguments and a Handle. The second argument is Any because
# DefaultPreemption asks for more than a Handle.
Factory = Callable[[Any, Any], Plugin]


class Followed(Protocol[T_co]):
    """Objects of one collection as they are known just now, kept up to date by a watch."""

    def get(self, key: str) -> T_co | None:
        """By `namespace/name`, or by `name` where the kind has no namespaces."""

    def items(self) -> Iterator[T_co]:
        """All objects, in no order."""

    @property
    def generation(self) -> int:
        """Another number after every change: what was worked out before is then out of date."""


class PluginClient(Protocol):
    """API calls with the scheduler's own client and rate limits; RBAC says what is allowed.

    A call that fails raises KschedulerError, MissingError if the object is not there.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Json:
        """One object."""

    async def list(
        self, resource: Resource, namespace: str = "", *, label_selector: str = ""
    ) -> list[Json]:
        """All objects of a collection, or of one namespace of it, that have the labels."""

    async def create(self, resource: Resource, item: Json, namespace: str = "") -> Json:
        """Creates an object; the answer is the object as it was stored."""

    async def update(
        self, resource: Resource, name: str, item: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        """Replaces an object; refused if it has changed since the version in `item`."""

    async def patch(
        self, resource: Resource, name: str, patch: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        """A JSON merge patch."""

    async def delete(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Deletes an object."""

    async def bind(self, pod: PodView, node: str) -> None:
        """Binds as DefaultBinder does: for a Bind plugin that has something to do besides."""


class PluginMetrics(Protocol):
    """Metrics of the plugin in the daemon's own registry.

    `counter`, `gauge` and `histogram` give families: `.labels("a").inc()`. Names start with the
    plugin's: `node_load_` for a plugin called NodeLoad. Profiles that run the same plugin share
    them.
    """

    prefix: str

    def counter(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Family[Counter]:
        """A counter that only grows; its name ends in `_total`."""

    def gauge(self, name: str, text: str, labels: tuple[str, ...] = ()) -> Family[Gauge]:
        """A number that goes up and down."""

    def histogram(
        self,
        name: str,
        text: str,
        labels: tuple[str, ...] = (),
        *,
        buckets: tuple[float, ...] = ...,
    ) -> Family[Histogram]:
        """Observations counted by size, as of durations in seconds."""


class WaitingPodView(Protocol):
    """One pod that has a node and is held by Permit plugins."""

    @property
    def pod(self) -> PodView:
        """With the node it would go to."""

    @property
    def pending_plugins(self) -> Collection[str]:
        """Plugins that still hold it."""

    def allow(self, plugin: str = "") -> None:
        """In this plugin's name, or another's; the pod goes once no plugin holds it any more."""

    def reject(self, message: str, plugin: str = "") -> bool:
        """Send it back as unschedulable; False if that was decided already, one way or other."""


class WaitingPodsView(Protocol):
    """All pods that wait, of every profile."""

    def __iter__(self) -> Iterator[WaitingPodView]: ...

    def __len__(self) -> int: ...

    def get(self, uid: str) -> WaitingPodView | None:
        """The waiting pod of this uid; None if it does not wait."""


class PluginHandle(Protocol):
    """One per plugin and profile."""

    profile_name: str

    @property
    def metrics(self) -> PluginMetrics:
        """Metrics of the plugin's own."""

    @property
    def waiting_pods(self) -> WaitingPodsView:
        """Pods that Permit plugins hold."""

    @property
    def client(self) -> PluginClient:
        """Calls to the API server."""

    @property
    def rng(self) -> Random:
        """The scheduler's own source of chance; where that is seeded, decisions repeat."""

    def now(self) -> float:
        """Seconds on the clock by which pods wait; good for differences only."""

    def enabled(self, feature_gate: str) -> bool:
        """Whether a feature gate of the scheduler is on."""

    def snapshot(self) -> NodesView:
        """All nodes, as the attempt under way sees them; not to be used outside of one."""

    def follow(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        name: str = "",
        field_selector: str = "",
        label_selector: str = "",
    ) -> Followed[Any]:
        """Keep a collection, or one object of it, at hand; to be called by the constructor.

        Scheduling begins when all of it has been read, so the scheduler must be allowed to list
        and watch it.
        """

    def event(
        self, pod: PodView, reason: str, note: str, *, kind: str = "Normal", action: str = ""
    ) -> None:
        """Record an event about the pod for its users; `kind` is Normal or Warning."""

    def activate(self, pods: Iterable[PodView]) -> None:
        """Have pods that wait in the queue tried again soon."""

    def in_background(self, what: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do something that waits, beside the loop; `what` names it in logs and faults."""
