"""Pending pods explained: where each one waits, since when and why, and what would wake it.

The explanation is made of the living queue when somebody asks; nothing is kept for it. One pod
takes some 25 µs: of 100,000 pods, ask for some at a time (`pending_pods` is an iterator).

Times in summaries are UTC, as in the fields: `12:03:10Z`, with the date if it is another day's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

from kscheduler.api.explanation import PendingPod, WakingEvent
from kscheduler.api.meta import ObjectMeta
from kscheduler.api.timestamps import format_time
from kscheduler.framework.cluster_event import ANY_CHANGE, UNSCHEDULABLE_TIMEOUT, ClusterEvent
from kscheduler.queue.event_descriptions import description, single_events
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.queue.sub_queues import QueueName
from kscheduler.state.pod_info import PodInfo

ACTIVE = "Active"
BACKING_OFF = "BackingOff"
UNSCHEDULABLE = "Unschedulable"
GATED = "Gated"
IN_FLIGHT = "InFlight"
BINDING = "Binding"

POD_SCHEDULED = "PodScheduled"
SCHEDULING_GATES = "SchedulingGates"

# Events that a summary names; `wakes_on` has all of them.
MAX_EVENTS_NAMED = 3
# Among more active pods than these, one's place is not worth finding: 0.5 µs for each of them.
MAX_RANKED = 10_000
# Sets of events that are remembered in words: one per plugin and profile.
MAX_DESCRIBED = 256

_PLACES = {
    QueueName.ACTIVE: ACTIVE,
    QueueName.BACKOFF: BACKING_OFF,
    QueueName.UNSCHEDULABLE: UNSCHEDULABLE,
}


def _is_not_assumed(pod: PodInfo) -> bool:
    return False


def pending_pods(
    queue: SchedulingQueue,
    now: float,
    namespace: str | None = None,
    *,
    is_assumed: Callable[[PodInfo], bool] = _is_not_assumed,
) -> Iterator[PendingPod]:
    """All pods that wait or are in flight, of one namespace or of all.

    The pods are those of this moment, but each is explained when it is asked for: one that has left
    the queue by then is passed over. `is_assumed` is the cache's: a pod in flight that has a node
    already is being bound. Pods past Permit are no longer known to the queue.
    """
    pods = queued_pods(queue, namespace)
    explained = (explain_pod(queue, queued, now, is_assumed) for queued in pods)
    return (pod for pod in explained if pod is not None)


def queued_pods(queue: SchedulingQueue, namespace: str | None = None) -> list[QueuedPodInfo]:
    """The pods that wait or are in flight at this moment, not yet explained."""
    return [
        queued
        for queued in chain(queue.pending().pods, queue.in_flight.pods)
        if namespace is None or queued.pod.namespace == namespace
    ]


def pending_pod(
    queue: SchedulingQueue,
    namespace: str,
    name: str,
    now: float,
    *,
    is_assumed: Callable[[PodInfo], bool] = _is_not_assumed,
) -> PendingPod | None:
    """One pod, or None if the queue does not know it. For an active pod, the summary also says how
    many are ahead of it, unless there are too many to count.
    """
    key = f"{namespace}/{name}"
    queued = queue.get(key)
    if queued is None:
        queued = next((one for one in queue.in_flight.pods if one.key == key), None)
    if queued is None:
        return None
    is_active = queue.queue_of(key) is QueueName.ACTIVE
    ahead = queue.ahead_of(key) if is_active and queue.sizes()["active"] <= MAX_RANKED else None
    return explain_pod(queue, queued, now, is_assumed, ahead)


def waking_events(queue: SchedulingQueue, queued: QueuedPodInfo) -> tuple[WakingEvent, ...]:
    """The events that may end the wait of an unschedulable or gated pod.

    A gated pod is not moved by events that its gating plugin is not registered for.
    """
    if queued.gated:
        return _of_plugin(queue, queued, queued.gating_plugin)
    timeout = _timeout(queue.max_unschedulable_seconds)
    if not queued.rejectors:
        return *_in_words("", (ANY_CHANGE,)), timeout
    plugins = sorted(queued.rejectors)
    return *chain.from_iterable(_of_plugin(queue, queued, name) for name in plugins), timeout


def _of_plugin(
    queue: SchedulingQueue, queued: QueuedPodInfo, plugin: str
) -> tuple[WakingEvent, ...]:
    return _in_words(plugin, queue.hints.events_of(queued.profile, plugin))


@lru_cache(maxsize=MAX_DESCRIBED)
def _in_words(plugin: str, registered: tuple[ClusterEvent, ...]) -> tuple[WakingEvent, ...]:
    events = dict.fromkeys(chain.from_iterable(map(single_events, registered)))
    return tuple(WakingEvent(plugin, event.label, description(event)) for event in events)


@lru_cache(maxsize=1)
def _timeout(seconds: float) -> WakingEvent:
    minutes, rest = divmod(seconds, 60)
    wait = f"{seconds:g} seconds" if rest else _counted(int(minutes), "minute", "minutes")
    return WakingEvent("", UNSCHEDULABLE_TIMEOUT.label, f"it has waited for {wait}")


def explain_pod(
    queue: SchedulingQueue,
    queued: QueuedPodInfo,
    now: float,
    is_assumed: Callable[[PodInfo], bool],
    ahead: int | None = None,
) -> PendingPod | None:
    """None if the pod has left the queue meanwhile."""
    place = place_of(queue, queued, is_assumed)
    if place is None:
        return None
    waits_for_event = place in (UNSCHEDULABLE, GATED)
    wakes_on = waking_events(queue, queued) if waits_for_event else ()
    since = _since(queued, place)
    until = queue.backoff.leaves_at(queued) if place == BACKING_OFF else None
    nominated_node = queue.nominator.node_of(queued.uid) or ""
    pod, metadata = queued.pod.pod, queued.pod.pod.metadata
    if place == ACTIVE:
        summary = _active(queued, ahead)
    elif place == BACKING_OFF:
        summary = _backing_off(queued, _clock(until, now))
    elif place == UNSCHEDULABLE:
        summary = _unschedulable(queued, _clock(since, now), nominated_node, wakes_on)
    elif place == GATED:
        summary = _gated(queued, wakes_on)
    elif place == IN_FLIGHT:
        summary = f"Being tried now, in attempt {queued.attempts}."
    else:
        summary = f"Attempt {queued.attempts} found a node, and the pod is being bound to it."
    return PendingPod(
        metadata=ObjectMeta(
            name=metadata.name,
            namespace=metadata.namespace,
            uid=metadata.uid,
            labels=metadata.labels,
            creation_timestamp=metadata.creation_timestamp,
        ),
        summary=summary,
        queue=place,
        since=_text(since),
        first_attempt_time=_text(queued.initial_attempt_timestamp) if queued.attempts else "",
        attempts=queued.attempts,
        backoff_until=_text(until),
        scheduler_name=queued.profile,
        pod_uid=metadata.uid,
        priority=queued.pod.priority,
        unschedulable_plugins=tuple(sorted(queued.unschedulable_plugins)),
        pending_plugins=tuple(sorted(queued.pending_plugins)),
        gating_plugin=queued.gating_plugin,
        scheduling_gates=tuple(gate.name for gate in pod.spec.scheduling_gates),
        nominated_node=nominated_node,
        message=_message(queued.pod),
        wakes_on=wakes_on,
    )


def place_of(
    queue: SchedulingQueue, queued: QueuedPodInfo, is_assumed: Callable[[PodInfo], bool]
) -> str | None:
    """None if the pod has left the queue, or another of its name has come to it."""
    name = queue.queue_of(queued.key)
    if name is not None:
        if queue.get(queued.key) is not queued:
            return None
        return GATED if queued.gated else _PLACES[name]
    if queue.in_flight.get(queued.uid) is not queued:
        return None
    return BINDING if is_assumed(queued.pod) else IN_FLIGHT


def _since(queued: QueuedPodInfo, place: str) -> float | None:
    """When the pod was added or came back from its last attempt; on its first way through the
    active queue, when its gate was opened. When a pod was popped is not known.
    """
    if place in (IN_FLIGHT, BINDING):
        return None
    if place == ACTIVE and not queued.attempts and queued.initial_attempt_timestamp is not None:
        return queued.initial_attempt_timestamp
    return queued.timestamp


def _message(pod: PodInfo) -> str:
    """Message of the pod's status about its last attempt, or its gates."""
    for condition in pod.pod.status.conditions:
        if condition.type == POD_SCHEDULED:
            return condition.message
    return ""


def _active(queued: QueuedPodInfo, ahead: int | None) -> str:
    text = f"In the active queue for attempt {queued.attempts + 1}"
    if ahead is None:
        return f"{text}."
    if ahead == 0:
        return f"{text}; it is the next to be tried."
    return f"{text}; {_counted(ahead, 'pod is', 'pods are')} ahead of it."


def _backing_off(queued: QueuedPodInfo, until: str) -> str:
    if queued.not_before:
        return f"Put off until {until}: deciding on pods like it takes too long."
    failed = _counted(queued.attempts, "failed attempt", "failed attempts")
    return f"Backing off until {until} after {failed}."


def _unschedulable(
    queued: QueuedPodInfo, since: str, nominated_node: str, events: Sequence[WakingEvent]
) -> str:
    nominated = f", nominated to node {nominated_node}" if nominated_node else ""
    which = "for an event" if queued.rejectors else "for any event"
    causes = []
    if queued.unschedulable_plugins:
        causes.append(f"{_listed(sorted(queued.unschedulable_plugins))} rejected it")
    if queued.pending_plugins:
        kept = "keep" if len(queued.pending_plugins) > 1 else "keeps"
        causes.append(f"{_listed(sorted(queued.pending_plugins))} {kept} it pending")
    attempts = f" in the last of {queued.attempts} attempts" if queued.attempts > 1 else ""
    cause = f": {_listed(causes)}{attempts}" if causes else ""
    again = f"; it is tried again when {_named(events)}" if causes else ""
    return f"Waiting since {since} {which}{nominated}{cause}{again}."


def _gated(queued: QueuedPodInfo, events: Sequence[WakingEvent]) -> str:
    gates = [gate.name for gate in queued.pod.pod.spec.scheduling_gates]
    if queued.gating_plugin == SCHEDULING_GATES and gates:
        gate, removed = ("gate", "it is") if len(gates) == 1 else ("gates", "they are")
        names = _listed(gates)
        return f"Held by its scheduling {gate} {names}; it is not tried until {removed} removed."
    plugin = queued.gating_plugin
    if not events:
        return f"Held by {plugin}; it is not tried until that plugin lets it pass."
    return f"Held by {plugin}, which is asked again when {_named(events)}."


def _named(events: Iterable[WakingEvent]) -> str:
    """The first few events, and how many others there are."""
    described = list(dict.fromkeys(event.description for event in events))
    named = described[:MAX_EVENTS_NAMED]
    if others := len(described) - len(named):
        named.append(f"one of {others} other events happens" if others > 1 else described[-1])
    return _listed(named, "or")


def _listed(texts: Sequence[str], last: str = "and") -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _text(seconds: float | None) -> str:
    return "" if seconds is None else format_time(seconds)


def _clock(seconds: float | None, now: float) -> str:
    """The time of day, or date and time if it is not today's."""
    day, time = _text(seconds).split("T")
    return time if format_time(now).startswith(day) else f"{day}T{time}"
