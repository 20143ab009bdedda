"""The running scheduler as the explanation API asks it, and what-if reviews of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kscheduler import logs, plugins
from kscheduler.api.decode import decoder_for
from kscheduler.api.explanation import (
    ADDRESS_ANNOTATION,
    ERROR,
    POD_ANNOTATION,
    PORT_ANNOTATION,
    SCHEDULED,
    UNSCHEDULABLE,
    AttemptRecord,
    PlacementReview,
)
from kscheduler.api.resource import ResourceClaimTemplate
from kscheduler.api.resources import PRIORITY_CLASSES, RESOURCE_CLAIM_TEMPLATES
from kscheduler.api.scheduling import PriorityClass
from kscheduler.app.scheduler import Scheduler, counting
from kscheduler.app.status import scheduler_status
from kscheduler.client.errors import ApiError
from kscheduler.client.kube_client import KubeClient
from kscheduler.cycle.attempt import Attempt, Failed, Outcome, Unschedulable
from kscheduler.decisions.explain import View, attempt_of
from kscheduler.decisions.record import NodeNames, record_of
from kscheduler.errors import MissingError
from kscheduler.serving.explanation.reads import Sources
from kscheduler.what_if import LiveScheduler, NamespacesSeen, Reviewer

if TYPE_CHECKING:
    from kscheduler.app.daemon import Daemon

log = logs.logger(__name__)


def explanation_sources(daemon: Daemon) -> Sources:
    """Reads of the daemon's scheduler of the moment: a lost lease may have cost it another one."""
    reviewers = Reviewers(daemon)
    return Sources(
        decisions=lambda: daemon.scheduler.decisions,
        queue=lambda: daemon.scheduler.queue,
        is_assumed=lambda pod: daemon.scheduler.cache.is_assumed(pod),
        nodes=lambda: daemon.scheduler.cache.snapshot(),
        pod=lambda key: daemon.scheduler.informers.pods.get(key),
        status=lambda: scheduler_status(daemon),
        review=reviewers.review,
        not_leading=lambda: not_leading(daemon),
    )


def not_leading(daemon: Daemon) -> str | None:
    """Why there is nothing to tell here, and who would know; None if this instance schedules."""
    if daemon.leads and daemon.synced:
        return None
    elector = daemon.elector
    if elector is None or elector.is_leader:
        return "the scheduler has not read the cluster yet; try again in a moment"
    lease = elector.config.lock
    if not elector.holder:
        return (
            f"no instance leads at present: nobody holds the lease {lease}; try again in a moment"
        )
    told = elector.annotations
    where = f"the lease {lease} does not say where that is"
    if POD_ANNOTATION in told:
        where = f"in the pod {told[POD_ANNOTATION]}, port {told.get(PORT_ANNOTATION, '')}"
    elif ADDRESS_ANNOTATION in told:
        where = f"at {told[ADDRESS_ANNOTATION]}"
    return (
        f'this instance, "{elector.config.identity}", does not schedule; ask the leader, '
        f'"{elector.holder}": {where}'
    )


class Reviewers:
    """The reviewer of the scheduler that runs; another scheduler gets another one."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._of: tuple[Scheduler, Reviewer] | None = None

    async def review(
        self, review: PlacementReview, *, node_names: bool, namespaces_seen: NamespacesSeen
    ) -> PlacementReview:
        scheduler = self._daemon.scheduler
        if self._of is None or self._of[0] is not scheduler:
            self._of = scheduler, Reviewer(live_scheduler(self._daemon), explain=explained)
        return await self._of[1].review(
            review, node_names=node_names, namespaces_seen=namespaces_seen
        )


class _PriorityClasses(msgspec.Struct):
    items: tuple[PriorityClass, ...] = ()


_decode_template = decoder_for(ResourceClaimTemplate)
_decode_classes = msgspec.json.Decoder(_PriorityClasses).decode


def live_scheduler(daemon: Daemon) -> LiveScheduler:
    """The parts of the scheduler that reviews read."""
    cc, scheduler = daemon.cc, daemon.scheduler
    client = KubeClient(cc.clients.scheduling)

    async def priority_classes() -> Iterable[PriorityClass]:
        try:
            return _decode_classes(await client.list(PRIORITY_CLASSES)).items
        except (ApiError, msgspec.DecodeError) as error:
            # The review says that it does without them.
            log.v(2).info("Priority classes could not be read for a review", err=str(error))
            return ()

    async def claim_template(namespace: str, name: str) -> ResourceClaimTemplate | None:
        try:
            body = await client.get(RESOURCE_CLAIM_TEMPLATES, name, namespace)
        except MissingError:
            return None
        return _decode_template(body)

    return LiveScheduler(
        cache=scheduler.cache,
        listers=scheduler.informers,
        nominator=scheduler.queue.nominator,
        gates=cc.gates,
        completed=cc.completed,
        catalog=plugins.catalog().including(cc.out_of_tree.values()),
        registry={**plugins.factories(), **cc.out_of_tree},
        next_start_node_index=lambda: scheduler.loop.algorithm.next_start_node_index,
        is_busy=lambda: scheduler.is_busy,
        priority_classes=priority_classes,
        claim_template=claim_template,
        counting=counting(cc.gates),
        out_of_tree=scheduler.out_of_tree,
    )


def explained(attempt: Attempt, outcome: Outcome, view: View) -> AttemptRecord:
    """An attempt of a review, told like one of the scheduler's own, without what never was: a wait
    in the queue, and answers after the decision.
    """
    record = record_of(attempt, outcome, NodeNames(attempt.nodes), now=time.time())
    record.waited = (0.0, 0.0, 0.0)
    record.outcome = SCHEDULED
    if isinstance(outcome, Unschedulable):
        record.outcome, record.message = UNSCHEDULABLE, outcome.message
    elif isinstance(outcome, Failed):
        record.outcome = UNSCHEDULABLE if outcome.status.rejected else ERROR
        record.message = outcome.status.message
    told = replace(attempt_of(record, view), steps=())
    if view.node_names:
        return told
    # No pod tells the node that it only would get.
    scores = None if told.scores is None else replace(told.scores, nodes=())
    return replace(told, node="", nominated_before="", nominated_node="", scores=scores)
