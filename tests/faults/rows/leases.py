"""Rows about the lease: two replicas, and moments at which both may believe that they lead.

A binding is unfenced if its request left a replica when the server's lease was another's: whatever
it decided on may not be true any more. In the first row that is told only; a thief keeps to no
rules, and whoever it steals from cannot know before the next renewal.
"""

import asyncio
import os
import signal
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from tests.e2e.api import RefusedError
from tests.faults.proxy import Entry
from tests.faults.request_faults import Late, Reset, Rule
from tests.faults.rig import Rig
from tests.faults.row import Row
from tests.faults.scheduler import Scheduler
from tests.faults.verdict import Outcome
from tests.kit.polling import until

NAMESPACE, NAME = "kube-system", "kube-scheduler"
LEASE_SECONDS = 5.0
# A lease outlives what a replica knows of it by a renewal, and its heir looks as often.
TAKEOVER_SECONDS = LEASE_SECONDS + 3.0
ELECTED = {
    "leaderElect": True,
    "leaseDuration": "5s",
    "renewDeadline": "4s",
    "retryPeriod": "400ms",
}
THIEF = "thief"


class Leases(Row):
    """Two replicas; what ends in them because the lease is lost is as it should be."""

    reads_events = True
    exits_expected = True
    configured: ClassVar[Mapping[str, Any]] = {"leaderElection": ELECTED}
    # Whether a binding of a replica that does not lead is a fault of the scheduler.
    fenced = True

    async def start(self, rig: Rig) -> None:
        await rig.api.delete("leases", NAME, NAMESPACE)
        for number in range(2):
            environment = self.environment(rig, number)
            await rig.add_scheduler(self.configured, speaks_json=True, environment=environment)
        rig.acting = lambda: leader_of(rig)
        leader, standby = rig.schedulers
        await leader.start()
        await leader.ready()
        await rig.warm_up()
        await standby.start()
        await standby.ready()

    async def fault(self, rig: Rig) -> None:
        began = rig.proxy.now()
        leader = leader_of(rig)
        assert leader is not None, "nobody leads"
        await self.disturb(rig, leader)
        await until(lambda: leader_of(rig), "a replica leads", seconds=60)
        bound = sorted(entry.until for entry in bindings(rig) if entry.until >= began)
        gaps = [later - sooner for sooner, later in zip([began, *bound], bound, strict=False)]
        rig.notes["longest pause between bindings, s"] = round(max(gaps, default=0.0), 1)

    def environment(self, rig: Rig, number: int) -> Mapping[str, str]:
        """Of each replica's process, beside ours."""
        return {}

    @abstractmethod
    async def disturb(self, rig: Rig, leader: Scheduler) -> None:
        """Lasts as long as the fault does."""

    async def judge(self, rig: Rig, outcome: Outcome, fault_ended: float) -> None:
        rig.proxy.counts["lease disturbed"] += 1
        await super().judge(rig, outcome, fault_ended)
        found = list(unfenced(rig))
        outcome.notes["unfenced bindings"] = len(found)
        if self.fenced and found:
            outcome.broken.append(f"{len(found)} bindings of a replica that did not lead")


class StolenLease(Leases):
    number = 16
    title = "lease stolen by somebody who keeps to no rules, for 8 s"
    fenced = False

    async def disturb(self, rig: Rig, leader: Scheduler) -> None:
        deadline = rig.proxy.now() + TAKEOVER_SECONDS
        while rig.proxy.now() < deadline:
            await self._write(rig, THIEF)
            await asyncio.sleep(0.5)
        await self._write(rig, "")

    async def _write(self, rig: Rig, holder: str) -> None:
        """Whatever the lease says; somebody else may be faster, and then it is tried again."""
        while True:
            lease = await rig.api.get("leases", NAME, NAMESPACE)
            now = datetime.now(UTC)
            # One that is given back is over in a second, as replicas give theirs back.
            lease["spec"] |= {
                "holderIdentity": holder,
                "leaseDurationSeconds": int(LEASE_SECONDS) if holder else 1,
                "renewTime": (now - timedelta(seconds=0 if holder else 2)).isoformat(
                    timespec="microseconds"
                ),
            }
            where = f"apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
            at = rig.proxy.now()
            try:
                await rig.api.send("PUT", where, lease)
            except RefusedError as error:
                if error.code != 409:
                    raise
            else:
                written = Entry(at, rig.proxy.now(), THIEF, "update", "leases", NAMESPACE, NAME)
                written.status, written.holder = 200, holder
                rig.proxy.note(written)
                return


class StoppedLeader(Leases):
    number = 17
    title = "leader stopped for longer than its lease, in the middle of its work"

    async def disturb(self, rig: Rig, leader: Scheduler) -> None:
        os.kill(leader.pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(TAKEOVER_SECONDS)
        finally:
            os.kill(leader.pid, signal.SIGCONT)


class TwoLeaders(Leases):
    """The leader's renewals are lost, and its bindings arrive when another one leads."""

    number = 18
    title = "leader cannot renew its lease, its bindings arrive 7 s late"

    async def disturb(self, rig: Rig, leader: Scheduler) -> None:
        cut_off = Rule(
            Reset(),
            verbs={"update", "get"},
            resources={"leases"},
            only=lambda request: request.who == leader.name,
        )
        late = Rule(
            Late(LEASE_SECONDS + 2.0),
            resources={"pods/binding"},
            only=lambda request: request.who == leader.name,
        )
        with rig.proxy.rule(cut_off), rig.proxy.rule(late):
            await asyncio.sleep(LEASE_SECONDS + TAKEOVER_SECONDS)


def writes(rig: Rig) -> list[Entry]:
    """Successful writes of the lease, in their order: those of replicas, and the thief's."""
    return [one for one in rig.proxy.entries if one.what == "leases" and one.status in (200, 201)]


def leader_of(rig: Rig) -> Scheduler | None:
    """The replica that wrote the lease last; None after the thief, or one that gave it back."""
    held = [one for one in writes(rig) if one.verb in ("create", "update")]
    name = held[-1].who if held and held[-1].holder else ""
    return next((one for one in rig.schedulers if one.name == name and one.running), None)


def bindings(rig: Rig) -> list[Entry]:
    """All that were carried out."""
    return [
        one for one in rig.proxy.entries if one.what == "pods/binding" and one.server_status == 201
    ]


def unfenced(rig: Rig) -> Iterator[str]:
    """Pods whose binding was sent by a replica after another one had written the lease."""
    held = [one for one in writes(rig) if one.holder]
    for binding in bindings(rig):
        before = [one for one in held if one.until < binding.at]
        if before and before[-1].who != binding.who:
            yield binding.name


ROWS = (StolenLease(), StoppedLeader(), TwoLeaders())
