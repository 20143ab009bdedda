"""Fixed states for pictures of the board: nodes, pods, decisions and a queue that stand still."""

import os
from collections.abc import Mapping
from types import SimpleNamespace

import numpy as np

from kscheduler.api.explanation import SCHEDULED, UNSCHEDULABLE
from kscheduler.cli.board.cluster import ZONE, Cluster
from kscheduler.cli.board.frame import Look, Story, frame
from kscheduler.decisions.decision_log import Entry
from kscheduler.decisions.record import Record, RecordedVictim, RejectedRows, ScoredRows, SomeRows
from kscheduler.framework.listers import FixedLister
from kscheduler.framework.status import Code
from tests.kit import objects
from tests.kit.clusters import PROFILE, cache_of

make_pod, make_pod_info = objects.make_pod, objects.make_pod_info
EMPTY_QUEUE = {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


def make_node(name, *, zone="", cpu="4", **fields):
    allocatable = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    labels = {ZONE: zone} if zone else {}
    return objects.make_node(name, labels=labels, allocatable=allocatable, **fields)


class Decisions:
    """A decision log of which the test is the scheduler."""

    def __init__(self):
        self.version = 0
        self._entries = {}
        self._watchers = []

    def watch(self, watcher):
        self._watchers.append(watcher)

    def get(self, namespace, name):
        return self._entries.get((namespace, name))

    def add(self, entry):
        self.version += 1
        self._entries[entry.namespace, entry.name] = entry
        for watcher in self._watchers:
            watcher("ADDED", entry)


def make_cluster(nodes=(), pods=(), *, queue: Mapping[str, int] = EMPTY_QUEUE, **more):
    """The cluster of a scheduler whose queue has these sizes and no pods to ask for."""
    scheduler = SimpleNamespace(
        cache=cache_of(nodes, pods),
        queue=SimpleNamespace(
            sizes=lambda: dict(queue),
            in_flight=(),
            get=lambda key: None,
            queue_of=lambda key: None,
        ),
        decisions=Decisions(),
        frameworks={PROFILE: None},
        informers=SimpleNamespace(
            pods=SimpleNamespace(add_handler=lambda handler: None),
            lister=lambda kind: FixedLister({}),
        ),
    )
    return Cluster(scheduler, **more)


def waiting_pod(name, **fields):
    scheduler = fields.pop("schedulerName", PROFILE)
    return make_pod(name, scheduler=scheduler, **fields)


def record(
    names=("n1", "n2"),
    *,
    node="",
    scores: Mapping[str, tuple[int, list[int]]] | None = None,
    rejected: Mapping[str, int] | None = None,
    shortage=None,
    victims=(),
    **fields,
):
    """One attempt; `scores` are weight and normalized scores by plugin, a number per name, and
    `rejected` the number of nodes by reason.
    """
    made = Record(
        number=1,
        time=1.0,
        waited=(0.0, 0.0, 0.0),
        woken_by="",
        duration=0.0,
        generation=1,
        names=SimpleNamespace(names=tuple(names)),
        total=len(names),
        evaluated=len(names),
        feasible=len(names) if node else 0,
        node=node,
        outcome=SCHEDULED if node else UNSCHEDULABLE,
        victims=tuple(RecordedVictim("default", one, 0, False, ()) for one in victims),
        **fields,
    )
    if scores is not None:
        made.rows = np.arange(len(names))
        made.scores = ScoredRows(
            plugins=tuple(scores),
            weights=np.array([weight for weight, _ in scores.values()]),
            normalized=np.array([row for _, row in scores.values()], np.uint8),
            raw=(None,) * len(scores),
            all_zero={},
            extra=None,
        )
    made.rejected = tuple(
        RejectedRows(
            plugin="NodeResourcesFit",
            reason=reason,
            code=Code.UNSCHEDULABLE,
            count=count,
            rows=SomeRows(np.arange(count), is_bitmap=False),
            shortage=shortage,
        )
        for reason, count in (rejected or {}).items()
    )
    return made


def decide(cluster, pod, namespace="default", **fields):
    """An attempt at a pod has ended; `fields` are those of `record`."""
    made = record(**fields)
    entry = Entry(
        namespace=namespace,
        name=pod,
        uid=f"uid-{pod}",
        profile=PROFILE,
        version=1,
        added_version=1,
        created=1.0,
        attempts=1,
        first=made,
        last=made,
    )
    cluster.scheduler.decisions.add(entry)


def picture(cluster, look=None, story=None, *, columns=80, lines=24):
    """The lines of a picture as they are read, without colours."""
    size = os.terminal_size((columns, lines))
    return [line.plain.rstrip() for line in frame(cluster, look or Look(), story or Story(), size)]
