"""Leader election as the daemon does it: on a Lease, told in events and metrics."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from kscheduler.api.core import ObjectReference
from kscheduler.api.decode import UNREADABLE
from kscheduler.api.resources import LEASES
from kscheduler.client.errors import MalformedAnswer, NotFound
from kscheduler.client.events.broadcaster import Recorder
from kscheduler.client.transport import Transport
from kscheduler.config.model import LeaderElectionConfiguration
from kscheduler.gotext.duration import format_duration
from kscheduler.leader_election import ElectionConfig, LeaderElector, Observers, RawLease
from kscheduler.metrics import Metrics

# The election's name in metrics, whatever its lease is called.
ELECTION = "kube-scheduler"


def election_config(config: LeaderElectionConfiguration) -> ElectionConfig:
    return ElectionConfig(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        lock=f"{config.resource_namespace}/{config.resource_name}",
        lease_seconds=config.lease_duration.seconds,
        renew_deadline_seconds=config.renew_deadline.seconds,
        retry_seconds=config.retry_period.seconds,
    )


def request_seconds(config: LeaderElectionConfiguration) -> float:
    """How long one request may take, so that a renewal can fail and be tried again in time."""
    return max(1.0, config.renew_deadline.seconds / 2)


class KubeLease:
    """The lease on an API server. What it answers is kept, to be referred to in events."""

    def __init__(self, transport: Transport, namespace: str, name: str, timeout: float) -> None:
        self._transport = transport
        self._namespace = namespace
        self._name = name
        self._query = {"timeout": format_duration(int(timeout * 1_000_000_000))}
        self._last: RawLease = {}

    async def get(self) -> RawLease | None:
        try:
            return await self._send("GET", LEASES.path(self._namespace, self._name))
        except NotFound:
            return None

    async def create(self, spec: dict[str, Any]) -> RawLease:
        lease = {
            "kind": LEASES.kind,
            "apiVersion": LEASES.api_version,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        return await self._send("POST", LEASES.path(self._namespace), lease)

    async def update(self, lease: RawLease) -> RawLease:
        return await self._send("PUT", LEASES.path(self._namespace, self._name), lease)

    async def _send(self, method: str, path: str, lease: RawLease | None = None) -> RawLease:
        body = None if lease is None else msgspec.json.encode(lease)
        subject = f"{LEASES.group_resource} {self._name}"
        answer = await self._transport.request(
            method, path, query=self._query, body=body, subject=subject
        )
        try:
            self._last = msgspec.json.decode(answer, type=RawLease)
        except UNREADABLE as error:
            raise MalformedAnswer(f"{subject}: {error}") from error
        return self._last

    @property
    def reference(self) -> ObjectReference:
        metadata = self._last.get("metadata", {})
        return ObjectReference(
            kind=LEASES.kind,
            namespace=self._namespace,
            name=self._name,
            uid=metadata.get("uid", ""),
            api_version=LEASES.api_version,
            resource_version=metadata.get("resourceVersion", ""),
        )


def _at_once(call: Callable[..., object], *args: object) -> object:
    return call(*args)


def make_elector(
    lease: KubeLease,
    config: ElectionConfig,
    recorder: Recorder,
    metrics: Metrics,
    post: Callable[..., object] = _at_once,
) -> LeaderElector:
    """An elector that tells events and metrics; `post` calls these in the thread they belong to."""
    status = metrics.leader_election_master_status.labels(ELECTION)

    def tell(message: str) -> None:
        regarding = lease.reference
        post(
            partial(
                recorder.record,
                regarding,
                type="Normal",
                reason="LeaderElection",
                action="",
                note=message,
            )
        )

    def count_slow_path() -> None:
        # Not shown before it is taken for the first time, as upstream.
        metrics.leader_election_slowpath_total.labels(ELECTION).inc()

    observers = Observers(
        event=tell,
        leading=partial(post, status.set, 1),
        standing_by=partial(post, status.set, 0),
        slow_path=partial(post, count_slow_path),
    )
    return LeaderElector(lease, config, observers)
