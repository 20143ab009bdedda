"""The Framework: all plugins of one profile, run at their extension points.

Each extension point has a module and a class that knows how the answers of its plugins combine; the
Framework is their sum. Its `run_…` attributes are bound methods of these, so that going through the
Framework costs a decision nothing.

A plugin that raises has answered Error; the exception goes no further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kscheduler.caches import Cache
from kscheduler.extension_points import JUDGING_POINTS, Point
from kscheduler.framework.cluster_event import EventWithHint
from kscheduler.framework.in_tree import DescribesRejected, Plugin, QueuedEntity
from kscheduler.framework.status import Status
from kscheduler.runtime.bind import Binding
from kscheduler.runtime.enqueue import PreEnqueueing, any_change, events_by_plugin
from kscheduler.runtime.extenders.extenders import EXTENDER
from kscheduler.runtime.filter import Filtering
from kscheduler.runtime.filter_with_nominated import FilteringWithNominated
from kscheduler.runtime.handle import RuntimeHandle
from kscheduler.runtime.post_filter import PostFiltering
from kscheduler.runtime.pre_filter import PreFiltering
from kscheduler.runtime.reserve import Hold, Reserving
from kscheduler.runtime.score import Scoring
from kscheduler.runtime.sign import Signing
from kscheduler.state.pod_info import PodInfo


class Framework:
    """The plugins of one profile."""

    def __init__(
        self,
        handle: RuntimeHandle,
        plugins_at: Mapping[Point, Sequence[Any]],
        *,
        weights: Mapping[str, int],
        percentage_of_nodes_to_score: int | None = None,
    ) -> None:
        """`plugins_at`: the plugins of each extension point, in the order they are asked."""
        self.profile_name = profile = handle.profile_name
        self.percentage_of_nodes_to_score = percentage_of_nodes_to_score
        self.plugins_at = plugins_at
        self._handle = handle
        metrics = handle.metrics

        def at(point: Point) -> Sequence[Any]:
            return plugins_at.get(point, ())

        self._queue_sort = at(Point.QUEUE_SORT)[0]
        enqueueing = PreEnqueueing(profile, metrics, at(Point.PRE_ENQUEUE))
        self.run_pre_enqueue = enqueueing.run_pre_enqueue
        self.still_gates = enqueueing.still_gates

        pre_filtering = PreFiltering(profile, metrics, at(Point.PRE_FILTER))
        self.run_pre_filter = pre_filtering.run_pre_filter
        self.run_add_pod = pre_filtering.run_add_pod
        self.run_remove_pod = pre_filtering.run_remove_pod
        self.has_extensions = pre_filtering.has_extensions
        self.can_track_pods_by_row = pre_filtering.can_track_pods_by_row
        self.track_pods_by_row = pre_filtering.track_pods_by_row

        filtering = Filtering(profile, metrics, at(Point.FILTER))
        self.run_filter = filtering.run_filter
        self.observe_filter = filtering.observe
        self.filters_node_by_node = filtering.is_node_by_node
        self.filters_locally = filtering.is_local
        # By plugin name; see `DescribesRejected`.
        self.describe_rejected = {
            one.name: one.describe_rejected
            for one in at(Point.FILTER)
            if isinstance(one, DescribesRejected)
        }
        nominated = FilteringWithNominated(pre_filtering, filtering, handle.nominator)
        self.filter_with_nominated = nominated.filter_with_nominated
        self._caches = nominated.caches

        post_filtering = PostFiltering(profile, metrics, at(Point.POST_FILTER))
        self.run_post_filter = post_filtering.run_post_filter

        scoring = Scoring(profile, metrics, at(Point.PRE_SCORE), at(Point.SCORE), weights)
        self.run_pre_score = scoring.run_pre_score
        self.run_score = scoring.run_score

        self._reserving = Reserving(profile, metrics, at(Point.RESERVE), at(Point.PERMIT))
        self.run_reserve = self._reserving.run_reserve
        self.run_unreserve = self._reserving.run_unreserve
        self.run_permit = self._reserving.run_permit

        binding = Binding(
            profile,
            metrics,
            handle.pods_in_pre_bind,
            at(Point.PRE_BIND),
            at(Point.BIND),
            at(Point.POST_BIND),
        )
        self.run_pre_bind_pre_flight = binding.run_pre_bind_pre_flight
        self.run_pre_bind = binding.run_pre_bind
        self.has_nothing_to_pre_bind = binding.has_nothing_to_pre_bind
        self.run_bind = binding.run_bind
        self.run_post_bind = binding.run_post_bind

        judging = [plugin for point in JUDGING_POINTS for plugin in at(point)]
        wanted = handle.gates.enabled("OpportunisticBatching") and not handle.extenders
        self.sign = Signing(profile, metrics, judging, wanted=wanted).sign

    @property
    def plugins(self) -> Iterable[Plugin]:
        """Each plugin once, whatever number of points it extends."""
        return {one.name: one for some in self.plugins_at.values() for one in some}.values()

    @property
    def caches(self) -> Iterator[Cache]:
        """Caches of the plugins and of the runtime itself, which outlive a decision.

        What plugins share is shared by profiles as well.
        """
        yield from self._caches
        for shared in self._handle.shared_objects.values():
            yield from getattr(shared, "caches", ())
        for plugin in self.plugins:
            yield from getattr(plugin, "caches", ())

    @property
    def events(self) -> Mapping[str, Sequence[EventWithHint]]:
        """Per plugin that can reject pods, the events that may make such a pod schedulable.

        All extenders together count as one plugin that registers no events, and gets all of them.
        """
        pod_groups = self._handle.gates.enabled("GenericWorkload")
        events = events_by_plugin(self.plugins, pod_groups=pod_groups)
        if self._handle.extenders:
            events[EXTENDER] = any_change(pod_groups=pod_groups)
        return events

    @property
    def has_filter_plugins(self) -> bool:
        return bool(self.plugins_at.get(Point.FILTER))

    @property
    def has_post_filter_plugins(self) -> bool:
        return bool(self.plugins_at.get(Point.POST_FILTER))

    @property
    def has_score_plugins(self) -> bool:
        return bool(self.plugins_at.get(Point.SCORE))

    def sort_key(self, queued: QueuedEntity, /) -> Any:
        """Pods with smaller keys are tried first."""
        return self._queue_sort.sort_key(queued)

    def hold(self, pod: PodInfo, hold: Hold) -> None:
        """Put the pod among the waiting ones, as Permit asked."""
        self._handle.waiting_pods.add(pod, hold.timeouts, self._handle.clock())

    def is_waiting(self, pod: PodInfo) -> bool:
        return self._handle.waiting_pods.get(pod.uid) is not None

    def let_go(self, pod: PodInfo) -> None:
        """Removes the pod from the waiting ones, whichever plugin held it."""
        self._handle.waiting_pods.remove(pod.uid)

    async def wait_on_permit(self, pod: PodInfo) -> Status | None:
        """None at once for a pod that no plugin holds; else the outcome of waiting."""
        handle = self._handle
        return await self._reserving.wait_on_permit(pod, handle.waiting_pods, handle.clock)

    def close(self) -> None:
        """Closes plugins that hold resources."""
        for plugin in self.plugins:
            close = getattr(plugin, "close", None)
            if close is not None:
                close()
