"""Slow decisions, of more than a second: reported, and not repeated at the expense of other pods.

Deciding holds up the one thread that all else runs in. A pod whose decisions are slow, for whatever
reason, therefore waits before it is tried again, and so do pods like it: those of the same
controller, or with the same spec in the same namespace. A decision that found a node is carried out
however long it took.

    slow decisions in a row     rest before the next one of such pods
    1, 2                        the backoff of an error, and as long as the decision took
    3 and more, found a node    49 times as long as the decision took
    3 and more, found none      the same, and at least five minutes
                                (never more than an hour)

So from the third time on they take at most 2 % of the time, as long as a decision takes no more
than 73 s; and one slow decision while the process warms up costs next to nothing. A quick decision
ends all of this. `kscheduler_slow_decision_duration_seconds` counts them by plugin.

Time that extenders are waited for does not count: other tasks run meanwhile, and it says nothing
about the pod. Upstream has nothing like it: its decisions hold up no other thread.
"""

from __future__ import annotations

import hashlib
import signal
import sys
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import FrameType

import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.cycle.failure import Recorder
from kscheduler.gotext.duration import SECOND, format_duration
from kscheduler.metrics import Metrics
from kscheduler.queue.backoff_queue import Backoff, backoff_nanoseconds
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.runtime.plugin_calls import PluginCall, plugin_in_stack
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

SLOW_SECONDS = 1.0
# How often the stack of a decision under way is sampled, and how long after its begin first.
SAMPLE_SECONDS = 0.2
# Slow decisions in a row that are put down to bad luck.
LENIENT_TIMES = 2
# 1 part of deciding and 49 of rest are 2 %.
REST_FACTOR = 49
MIN_REST_WITHOUT_NODE_SECONDS = 300.0
MAX_REST_SECONDS = 3600.0
# Kinds of pods that are remembered, about 300 bytes each, and for how long after their rest.
MAX_RECORDS = 1024
REMEMBERED_SECONDS = 3600.0

UNKNOWN = PluginCall("", "")
CYCLE_POINTS = frozenset(
    {"PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Permit"}
)

_encode = msgspec.json.Encoder().encode


# Interrupts a slow decision, to look at its stack. Where nobody handles it, it is ignored.
SAMPLE_SIGNAL = signal.SIGURG


class DecisionWatch:
    """A thread that finds out which plugin a slow decision spends its time in.

    The deciding thread writes one number before a decision and one after it. The watching thread
    looks at it five times a second, 0.01 % of a CPU, and signals a decision that takes long; the
    signal's handler, in the deciding thread, notes the plugin that it interrupts. The watching
    thread must not look itself: stacks of other threads change under the eyes of the reader, for
    which CPython 3.11 ends the process (python/cpython #99110, #111363).
    """

    def __init__(self, timer: Callable[[], float] = perf_counter) -> None:
        self._timer = timer
        # When the decision under way began; 0 when there is none.
        self._since = 0.0
        self._samples: Counter[PluginCall] = Counter()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Samples decisions of the thread that enters the context, until it is left. Signals are
        handled by the main thread only; elsewhere nothing is sampled.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        deciding, ended = threading.get_ident(), threading.Event()

        def handle(number: int, frame: FrameType | None) -> None:
            self.sample()

        def run() -> None:
            while not ended.wait(SAMPLE_SECONDS):
                if self._is_long():
                    signal.pthread_kill(deciding, SAMPLE_SIGNAL)

        before = signal.signal(SAMPLE_SIGNAL, handle)
        thread = threading.Thread(target=run, name="decision-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
            # Another scheduler of this process may have its own by now.
            if signal.getsignal(SAMPLE_SIGNAL) is handle:
                signal.signal(SAMPLE_SIGNAL, before)

    def begin(self, now: float) -> None:
        self._since = now

    def end(self) -> None:
        self._since = 0.0

    def _is_long(self) -> bool:
        since = self._since
        return bool(since) and self._timer() - since >= SAMPLE_SECONDS

    def sample(self) -> None:
        """Notes the plugin that calls this, or is interrupted by it, if a decision has been under
        way for long enough.
        """
        if not self._is_long():
            return
        found = plugin_in_stack(sys._getframe())
        if found is not None and found.extension_point in CYCLE_POINTS:
            self._samples[found] += 1

    @property
    def seconds_in_plugins(self) -> float:
        """About how long plugins were at work since the last `take`, by the number of samples."""
        return self._samples.total() * SAMPLE_SECONDS

    def take(self) -> Counter[PluginCall]:
        """How often each plugin was found at work since the last `take`."""
        samples, self._samples = self._samples, Counter()
        return samples


class _Record(msgspec.Struct):
    """Slow decisions in a row about one kind of pod; times are seconds since the epoch."""

    times: int
    not_before: float


class SlowDecisions:
    """Records of slow decisions by kind of pod: they say when such pods may be tried again."""

    def __init__(
        self,
        metrics: Metrics,
        recorder: Callable[[str], Recorder],
        backoff: Backoff,
        *,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._durations = metrics.kscheduler_slow_decision_duration_seconds
        self._postponed = metrics.kscheduler_postponed_attempts_total
        self._recorder = recorder
        self._backoff = backoff
        self.watch = DecisionWatch(timer)
        # By uid and by kind of pod; a pod's own record outlives a change of its spec.
        self._records: OrderedDict[str, _Record] = OrderedDict()

    def __len__(self) -> int:
        return len(self._records)

    def postponed_until(self, pod: PodInfo, now: float) -> float:
        """When the pod may be tried; 0 is now. Costs nothing unless a decision was slow lately."""
        if not self._records:
            return 0.0
        records = filter(None, map(self._records.get, (pod.uid, kind_of(pod))))
        until = max((record.not_before for record in records), default=0.0)
        if until <= now:
            return 0.0
        self._postponed.inc()
        return until

    def decided(self, queued: QueuedPodInfo, seconds: float, *, found: bool, now: float) -> None:
        """Record a decision that took so long; a slow one that found no node postpones the pod."""
        samples = self.watch.take() if seconds >= SAMPLE_SECONDS else None
        if seconds < SLOW_SECONDS:
            if self._records:
                # A quick decision clears the pod and its kind.
                for key in (queued.uid, kind_of(queued.pod)):
                    self._records.pop(key, None)
                # Oldest first: one that rested long ago is dropped per quick decision.
                oldest = next(iter(self._records), None)
                if oldest and self._records[oldest].not_before + REMEMBERED_SECONDS < now:
                    del self._records[oldest]
            return
        call = samples.most_common(1)[0][0] if samples else UNKNOWN
        self._durations.labels(call.plugin, call.extension_point).observe(seconds)
        # The record is moved to the end: the oldest are dropped first.
        kind, uid = kind_of(queued.pod), queued.uid
        record = self._records.pop(kind, None) or self._records.pop(uid, None) or _Record(0, 0)
        self._records[kind] = self._records[uid] = record
        while len(self._records) > MAX_RECORDS:
            self._records.popitem(last=False)
        record.times += 1
        rest = self._rest_seconds(record.times, seconds, found=found)
        record.not_before = now + rest
        if not found:
            queued.not_before = record.not_before
        self._report(queued, call, seconds, record.times, rest, found=found)

    def _rest_seconds(self, times: int, seconds: float, *, found: bool) -> float:
        """See the table above."""
        initial = int(self._backoff.initial_seconds * SECOND)
        most = int(self._backoff.max_seconds * SECOND)
        after_error = backoff_nanoseconds(times, initial, most) / SECOND
        if times <= LENIENT_TIMES:
            return min(max(after_error, seconds), MAX_REST_SECONDS)
        least = after_error if found else MIN_REST_WITHOUT_NODE_SECONDS
        return min(max(least, REST_FACTOR * seconds), MAX_REST_SECONDS)

    def _report(
        self,
        queued: QueuedPodInfo,
        call: PluginCall,
        seconds: float,
        times: int,
        rest: float,
        *,
        found: bool,
    ) -> None:
        took, waits = _rounded_duration(seconds), _rounded_duration(rest)
        log.error(
            None,
            "Scheduling decision took too long",
            pod=logs.ref(queued.pod.pod),
            duration=took,
            plugin=call.plugin,
            extensionPoint=call.extension_point,
            slowDecisions=times,
            foundNode=found,
            nextAfter=waits,
        )
        where = f", most of it in {call.plugin} ({call.extension_point})" if call.plugin else ""
        who = "Pods like it are" if found else "It and pods like it are"
        note = (
            f"Deciding took {took}{where}, and all other pods had to wait. "
            f"{who} not tried again before {waits} have passed."
        )
        recorder = self._recorder(queued.profile)
        recorder.event(queued.pod.pod, "Warning", "SlowScheduling", "Scheduling", note)


def kind_of(pod: PodInfo) -> str:
    """Equal for pods whose decisions are alike: replicas of one controller, or of one spec.

    With the namespace: an owner's uid can be claimed by anybody. Some 2 µs per KB of spec where
    there is no owner.
    """
    owner = pod.pod.metadata.controller
    if owner is not None:
        return f"{pod.namespace}/{owner.uid}"
    spec = _encode(replace(pod.pod.spec, node_name=""))
    return f"{pod.namespace}/{hashlib.blake2b(spec, digest_size=16).hexdigest()}"


def _rounded_duration(seconds: float) -> str:
    """To the tenth of a second, so that events with equal notes become one series."""
    return format_duration(round(seconds * 10) * SECOND // 10)
