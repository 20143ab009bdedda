"""Replicas of the scheduler as processes, told apart by the name under which each calls the server.

A replica can be stopped in three ways: killed, stopped by the system (SIGSTOP), or by a loop that
stands still (SIGUSR1); SIGCONT ends the latter two. Its wall clock can be set: SIGHUP puts it
forward by an hour, SIGWINCH back by one.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kscheduler.sandbox import Exchange
from tests.integration.cluster import Cluster

LEASE_SECONDS = 5.0
RETRY_SECONDS = 0.4
ELECTED = {
    "leaderElect": True,
    "leaseDuration": "5s",
    "renewDeadline": "4s",
    "retryPeriod": "400ms",
}
MOST_POLL_SECONDS = RETRY_SECONDS * 2.2

PROGRAM = """
import signal, time
wall, wall_ns, ahead = time.time, time.time_ns, [0]
time.time = lambda: wall() + ahead[0]
time.time_ns = lambda: wall_ns() + ahead[0] * 10**9
def put(seconds):
    ahead[0] += seconds
signal.signal(signal.SIGHUP, lambda *_: put(3600))
signal.signal(signal.SIGWINCH, lambda *_: put(-3600))
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
signal.signal(signal.SIGUSR1, lambda *_: signal.sigwait([signal.SIGCONT]))
from kscheduler.cli import main
main()
"""


@dataclass
class Replica:
    """One process and the bindings it asked for, with the time of each."""

    host: str
    process: asyncio.subprocess.Process
    renewed_at: float = 0.0
    renewals: int = 0
    polls: int = 0  # of the lease
    looks: list[float] = field(default_factory=list)  # at the lease, as somebody who stands by
    bindings: list[tuple[float, Exchange]] = field(default_factory=list)

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    @property
    def runs(self) -> bool:
        return self.process.returncode is None

    def binds_since(self, moment: float) -> list[str]:
        return [exchange.path for when, exchange in self.bindings if when > moment]


@asynccontextmanager
async def replica(
    cluster: Cluster,
    host: str,
    *,
    flags: tuple[str, ...] = (),
    election: dict[str, Any] = ELECTED,
    **config: Any,
) -> AsyncIterator[Replica]:
    """`host` is a name of the loopback address that no other replica uses."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        PROGRAM,
        *cluster.arguments(host=host, args=flags, leaderElection=election, **config),
        stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    started = Replica(host, process)

    def note(exchange: Exchange) -> None:
        called = exchange.headers["Host"].partition(":")[0]
        if called == host and exchange.path.endswith("/binding"):
            started.bindings.append((time.monotonic(), exchange))
        if called == host and exchange.path.endswith("/leases/kube-scheduler"):
            started.polls += 1
            if exchange.method == "GET":
                started.looks.append(time.monotonic())
            if exchange.method == "PUT" and exchange.status == 200:
                started.renewed_at = time.monotonic()
                started.renewals += 1

    cluster.api.hooks.append(note)
    try:
        yield started
    finally:
        cluster.api.hooks.remove(note)
        if process.returncode is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        await process.wait()


def lease(cluster: Cluster) -> dict[str, Any]:
    found = cluster.api.objects.find("leases.coordination.k8s.io", "kube-scheduler", "kube-system")
    return found["spec"] if found else {}


def holder(cluster: Cluster) -> str:
    return lease(cluster).get("holderIdentity", "")
