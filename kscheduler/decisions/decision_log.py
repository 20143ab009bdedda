"""DecisionLog: the decisions of the last while, one entry per pod, within a number of bytes.

An entry has the pod's first and last attempt whole, and counts how its attempts ended. Entries are
in the order of their last attempt; when there is no room left, the one that was not added to for
longest goes.

Attempts that bound their pod are entered some dozens at a time, or when somebody asks: one after
the other they cost half of what each costs by itself, between the requests of a busy daemon.
"""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import msgspec

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.api.explanation import ERROR, SCHEDULED, UNSCHEDULABLE
from kscheduler.api.meta import EMPTY
from kscheduler.cycle.attempt import Attempt, Outcome
from kscheduler.cycle.failure import Failure
from kscheduler.decisions.record import (
    MAX_ANSWERS,
    MAX_TEXT,
    MAX_VICTIMS,
    NodeNames,
    Record,
    RecordedVictim,
    new_record,
    record_of,
)
from kscheduler.extension_points import Point
from kscheduler.runtime.extenders.extenders import NO_ROWS, ExtenderAnswer
from kscheduler.runtime.out_of_tree.health import FaultReport
from kscheduler.runtime.preemption.candidate import Candidate, PreemptionAnswers, VictimBudgets
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

log = logs.logger(__name__)

DEFAULT_BYTES = 64 << 20
# An entry without its records, with its place in the log.
ENTRY_BYTES = 430
END_BYTES = 150
LABEL_BYTES = 120
# Different ends that are counted apart; a pod that fails in more ways counts as "other".
MAX_ENDS = 16
# Pods whose faults are kept until their attempt ends.
MAX_FAULTY_PODS = 1024
POST_BIND = Point.POST_BIND.label
OTHER = "(other messages)"
# Entries whose end is remembered for watchers that come back, some 300 bytes each.
MAX_DROPPED = 4096
# Bound pods whose attempt is entered at once.
MAX_BOUND = 64


# Nothing here is part of a cycle, and thousands are kept: the garbage collector need not look at
# them each time.
class End(msgspec.Struct, gc=False):
    """Attempts of a pod that ended alike; times are seconds since the epoch."""

    outcome: str
    message: str
    count: int
    first: float
    last: float


class Entry(msgspec.Struct, gc=False):
    """A pod's attempts, folded."""

    namespace: str
    name: str
    uid: str
    profile: str
    # Grows with every change of any entry; `added_version` is that of the first attempt.
    version: int
    added_version: int
    created: float
    attempts: int
    first: Record
    last: Record
    labels: Mapping[str, str] = EMPTY
    ends: tuple[End, ...] = ()
    bytes: int = 0

    def count(self, record: Record) -> None:
        for end in self.ends:
            if end.outcome == record.outcome and end.message in (record.message, OTHER):
                end.count += 1
                end.last = record.time
                if end.message == record.message:
                    # One text instead of two that are equal.
                    record.message = end.message
                return
        message = record.message if len(self.ends) < MAX_ENDS else OTHER
        self.ends += (End(record.outcome, message, 1, record.time, record.time),)

    def measure(self) -> int:
        size = ENTRY_BYTES + len(self.namespace) + len(self.name) + len(self.uid)
        size += self.last.bytes
        for name, value in self.labels.items():
            size += LABEL_BYTES + len(name) + len(value)
        for end in self.ends:
            size += END_BYTES + len(end.message)
        if self.ends[-1].message == OTHER:
            size += len(self.last.message)
        return size if self.first is self.last else size + self.first.bytes


class Dropped(msgspec.Struct, frozen=True, gc=False):
    """An entry that is gone, as a watcher that comes back has to hear of it."""

    namespace: str
    name: str
    uid: str
    version: int


class Ended(NamedTuple):
    """An attempt that has ended, before it is entered."""

    pod: PodInfo
    profile: str
    record: Record


Watcher = Callable[[str, Entry], None]


class DecisionLog:
    """The recorder of decisions (`cycle.attempt.DecisionRecorder`), for one scheduler.

    Whatever goes wrong here is logged and costs the record, never the pod.
    """

    # In the metrics it is one of the caches.
    name = "decisions"

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self.max_bytes = max_bytes
        self._bytes = self._evictions = 0
        # Begins with microseconds, so that versions of a log that is made later, by another process
        # even, are higher: a watch that comes from another log is told that it is too old.
        self._version = self._oldest_version = time.time_ns() // 1000
        self._bound: list[Ended] = []
        self._dropped: deque[Dropped] = deque()
        # By namespace and name: the pod of that name that was tried last.
        self._entries: OrderedDict[tuple[str, str], Entry] = OrderedDict()
        self._names: NodeNames | None = None
        self._watchers: list[Watcher] = []
        # Of pods whose attempt has not ended, by uid.
        self._faults: dict[str, list[FaultReport]] = {}

    @property
    def entries(self) -> int:
        self._enter_bound()
        return len(self._entries)

    @property
    def bytes(self) -> int:
        self._enter_bound()
        return self._bytes

    @property
    def evictions(self) -> int:
        self._enter_bound()
        return self._evictions

    @property
    def version(self) -> int:
        self._enter_bound()
        return self._version

    def age(self) -> None:
        """Decisions are kept until their room is needed."""

    def shed(self) -> None:
        """Forgets the older half, for lack of memory."""
        self._forget_until(self.bytes // 2)

    def decided(self, attempt: Attempt, outcome: Outcome, now: float) -> None:
        try:
            names = self._names_of(attempt.nodes)
            attempt.record = record_of(attempt, outcome, names, now=now)
        except Exception as error:
            log.error(error, "Decision was not recorded", pod=logs.ref(attempt.pod.pod))

    def ended(self, attempt: Attempt, failure: Failure | None, now: float) -> None:
        try:
            record, pod = attempt.record, attempt.queued.pod
            attempt.record = None
            if not isinstance(record, Record):
                # It failed before there was a decision.
                record = new_record(attempt, self._names_of(attempt.nodes), now=now)
            record.duration = max(0.0, now - record.time)
            if attempt.held_by:
                record.held_by = tuple(attempt.held_by)
            if attempt.bound_by:
                record.bound_by = attempt.bound_by
            if attempt.extender_answers:
                _add_answers(record, attempt.extender_answers)
            if self._faults:
                record.faults = tuple(self._faults.pop(pod.uid, ()))
            ended = Ended(pod, attempt.framework.profile_name, record)
            if failure is None:
                record.outcome = SCHEDULED
                self._bound.append(ended)
                if self._watchers or len(self._bound) >= MAX_BOUND:
                    self._enter_bound()
                return
            self._enter_bound()
            record.outcome = UNSCHEDULABLE if failure.rejected else ERROR
            record.message = failure.status.message[:MAX_TEXT]
            record.nominated_node = failure.nominated_node or ""
            if failure.nominated_node is None:
                record.nominated_node = record.nominated_before
            if record.node:
                blamed = failure.unschedulable_plugins | failure.pending_plugins
                record.failed_at = attempt.point
                record.failed_by = failure.status.plugin or ", ".join(sorted(blamed))
            self._add_victims(attempt, record)
            if (asked := attempt.cycle.get(PreemptionAnswers)) is not None:
                _add_answers(record, asked.answers)
            self._enter(*ended)
        except Exception as error:
            log.error(error, "Decision was not recorded", pod=logs.ref(attempt.pod.pod))

    def fault(self, pod: Pod, report: FaultReport) -> None:
        """An out-of-tree plugin failed this pod; it belongs to the attempt that ends next, or that
        has just ended.
        """
        report = report._replace(text=report.text[:MAX_TEXT])
        self._enter_bound()
        entry = self._entries.get((pod.namespace, pod.name))
        if report.point == POST_BIND and entry is not None and entry.uid == pod.uid:
            self._release(entry)
            entry.last.faults = (*entry.last.faults, report)[:MAX_ANSWERS]
            self._hold(entry)
            return
        if pod.uid not in self._faults and len(self._faults) >= MAX_FAULTY_PODS:
            del self._faults[next(iter(self._faults))]
        reports = self._faults.setdefault(pod.uid, [])
        if len(reports) < MAX_ANSWERS:
            reports.append(report)

    def get(self, namespace: str, name: str) -> Entry | None:
        self._enter_bound()
        return self._entries.get((namespace, name))

    def all(self, namespace: str | None = None) -> list[Entry]:
        """The entries there are, the oldest first."""
        self._enter_bound()
        entries = self._entries.values()
        return [one for one in entries if namespace is None or one.namespace == namespace]

    def changes_since(self, version: int) -> tuple[list[Dropped], list[Entry]] | None:
        """Entries that were dropped after `version`, and those that have changed since, in order;
        None if that is too long ago to tell.
        """
        self._enter_bound()
        if version < self._oldest_version:
            return None
        dropped = [one for one in self._dropped if one.version > version]
        changed = []
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                break
            changed.append(entry)
        return dropped, changed[::-1]

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Has every change told from now on; returns what ends it."""
        self._enter_bound()
        self._watchers.append(watcher)
        return lambda: self._watchers.remove(watcher)

    def _names_of(self, nodes: Nodes) -> NodeNames:
        if self._names is None or self._names.order is not nodes.order:
            if self._names is not None:
                # Records keep their names for long; nobody looks for these rejections any more.
                self._names.rejected.clear()
            self._names = NodeNames(nodes)
        return self._names

    def _add_victims(self, attempt: Attempt, record: Record) -> None:
        candidate = attempt.cycle.get(Candidate)
        if candidate is not None and record.nominated_node == candidate.node:
            budgets = attempt.cycle.get(VictimBudgets)
            known = () if budgets is None else budgets.names
            names = chain(known, repeat(()))
            record.victims = tuple(
                [
                    RecordedVictim(
                        one.namespace, one.name, one.priority, one.uid in candidate.violating, under
                    )
                    for one, under in zip(candidate.victims[:MAX_VICTIMS], names, strict=False)
                ]
            )

    def _enter_bound(self) -> None:
        bound, self._bound = self._bound, []
        for ended in bound:
            try:
                self._enter(*ended)
            except Exception as error:
                log.error(error, "Decision was not recorded", pod=logs.ref(ended.pod.pod))

    def _enter(self, pod: PodInfo, profile: str, record: Record) -> None:
        key = (pod.namespace, pod.name)
        entry = self._entries.pop(key, None)
        if entry is not None:
            self._release(entry)
            if entry.uid != pod.uid:
                self._drop(entry)
                entry = None
        self._version += 1
        if entry is None:
            kind = "ADDED"
            entry = Entry(
                *key,
                pod.uid,
                profile,
                self._version,
                self._version,
                record.time,
                max(1, record.number),
                record,
                record,
            )
        else:
            kind = "MODIFIED"
            entry.version, entry.last = self._version, record
            entry.attempts = max(entry.attempts + 1, record.number)
        entry.labels = pod.pod.metadata.labels
        entry.count(record)
        self._entries[key] = entry
        self._hold(entry)
        if self._watchers:
            self._tell(kind, entry)
        if self._bytes > self.max_bytes:
            self._forget_until(self.max_bytes)

    def _forget_until(self, most_bytes: int) -> None:
        """The oldest first; the newest one stays, however large."""
        while self._bytes > most_bytes and len(self._entries) > 1:
            _, oldest = self._entries.popitem(last=False)
            self._release(oldest)
            self._evictions += 1
            self._drop(oldest)

    def _drop(self, entry: Entry) -> None:
        self._version += 1
        entry.version = self._version
        self._dropped.append(Dropped(entry.namespace, entry.name, entry.uid, self._version))
        if len(self._dropped) > MAX_DROPPED:
            self._oldest_version = self._dropped.popleft().version
        self._tell("DELETED", entry)

    def _hold(self, entry: Entry) -> None:
        entry.bytes = size = entry.measure()
        for names in entry.first.names, entry.last.names:
            if not names.records:
                size += names.bytes
            names.records += 1
        self._bytes += size

    def _release(self, entry: Entry) -> None:
        self._bytes -= entry.bytes
        for names in entry.first.names, entry.last.names:
            names.records -= 1
            if not names.records:
                self._bytes -= names.bytes

    def _tell(self, kind: str, entry: Entry) -> None:
        for watcher in tuple(self._watchers):
            watcher(kind, entry)


def _add_answers(record: Record, answers: Sequence[ExtenderAnswer]) -> None:
    """The answers without rows, which are in the record's rejections."""
    room = MAX_ANSWERS - len(record.answers)
    record.answers += tuple(
        [one._replace(rejected=NO_ROWS, error=one.error[:MAX_TEXT]) for one in answers[:room]]
    )
