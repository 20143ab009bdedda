"""Plays recorded scenarios against the sandbox, and compares what the scheduler sends.

    python -m tests.parity.wire [SCENARIO…]

A scenario (`cases/wire/*.json`) holds what was done to a cluster and every request kube-scheduler
sent: method, path, query, headers, body with its keys in order, and when. Here the same is done
with this program in its place. Requests of different pods, of events and bindings, and of different
informers may come in any order; how often a lease is polled or renewed while somebody waits is
chance, and leases are shorter than the recorded ones. Everything else must be equal, apart from
what DELIBERATE lists.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import uvloop

from kscheduler import logs
from tests.parity.wire_compare import compare
from tests.parity.wire_match import ANY_NODE
from tests.parity.wire_scenario import EVENTS, Request, Scenario, load, names
from tests.parity.wire_stage import NeverHappenedError, Stage

AT_ONCE = 12

NOT_YET = {"j-startup-protobuf": "protobuf"}
# What was sent when the next step had just begun, because of the one before.
LATE = {("g-claim-missing-then-unbound", 6): 5}
# Left out of j-startup: requests of clients other than the scheduler's own two.
LATER_CLIENTS = {"other": "reviews for the secure port; see tests/serving/test_access.py"}


# Scenarios in which several nodes are equally good, and one is chosen by chance.
TIES = {"m-extender-ignorable", "m-extender-rejects-all"}


class Deliberate(NamedTuple):
    """Where we differ on purpose."""

    what: str
    why: str
    changed: Callable[[list[Request]], list[Request]]


def _without_status_patch(recorded: list[Request]) -> list[Request]:
    return [request for request in recorded if not request.path.endswith("/status")]


def _with_last_words(recorded: list[Request]) -> list[Request]:
    """Whoever has told that it leads tells that it stopped."""
    ends = {request.scheduler: request.after_step for request in recorded}
    last_words = []
    for request in recorded:
        if request.path.endswith("/events"):
            message = request.body["message"].replace("became leader", "stopped leading")
            body = {**request.body, "message": message}
            last_words.append(replace(request, body=body, after_step=ends[request.scheduler]))
    return [*recorded, *last_words]


def _asking_what_became_of_it(recorded: list[Request]) -> list[Request]:
    """After a binding without an answer the pod is read."""
    asked = []
    for request in recorded:
        asked.append(request)
        if request.path.endswith("/binding") and not isinstance(request.status, int):
            path = request.path.removesuffix("/binding")
            asked.append(Request("A", "scheduler", "GET", path, request.after_step, status=200))
    return asked


def _finding_it_bound(recorded: list[Request]) -> list[Request]:
    """What was carried out counts, and is told like any other binding."""
    told = {
        "action": "Binding",
        "reason": "Scheduled",
        "note": "Successfully assigned default/p1 to n1",
        "type": "Normal",
    }
    return [
        replace(request, body={**request.body, **told})
        if request.path.endswith("/events")
        else request
        for request in _asking_what_became_of_it(_without_status_patch(recorded))
    ]


def _tried_again_at_once(recorded: list[Request]) -> list[Request]:
    """The last event is about the pod as it was before or after the status before it."""
    *others, last = recorded
    assert last.thread[0] == EVENTS, last
    regarding = {**last.body["regarding"], "resourceVersion": "@RV@"}
    return [*others, replace(last, body={**last.body, "regarding": regarding})]


_LAST_WORDS = Deliberate(
    "the event that leadership ended is sent",
    "kube-scheduler drops it, because it stops its recorder before it stops leading",
    _with_last_words,
)
DELIBERATE = {
    "h-dra-binding-failure": Deliberate(
        "the pod is tried again while its status is still being written",
        "a status is sent beside the loop, which goes on as soon as the claim is deallocated",
        _tried_again_at_once,
    ),
    "i-acquire-renew-release": _LAST_WORDS,
    "i-takeover-after-release": _LAST_WORDS,
    "k-bind-conflict": Deliberate(
        "no status is written onto the pod",
        "somebody else has bound it: PodScheduled=False would be a lie",
        _without_status_patch,
    ),
    "k-bind-lost-reply": Deliberate(
        "the pod is read, found bound and told as scheduled",
        "it is bound: PodScheduled=False would be a lie, and its room must not be given away",
        _finding_it_bound,
    ),
    "k-bind-pod-deleted": Deliberate(
        "no status is written for the pod",
        "it is gone, or another pod has its name by now",
        _without_status_patch,
    ),
    "k-bind-reset": Deliberate(
        "the pod is read before the attempt is given up",
        "without an answer nobody knows whether it is bound; see k-bind-lost-reply",
        _asking_what_became_of_it,
    ),
}


def expected(scenario: Scenario) -> list[Request]:
    """What was recorded, as far as it is ours to reproduce."""
    recorded = [
        replace(one, after_step=LATE.get((scenario.name, one.after_step), one.after_step))
        for one in scenario.requests
        if one.client not in LATER_CLIENTS
    ]
    if scenario.name in TIES:
        recorded = [_on_any_node(request) for request in recorded]
    deliberate = DELIBERATE.get(scenario.name)
    return deliberate.changed(recorded) if deliberate else recorded


def _on_any_node(request: Request) -> Request:
    """The same, wherever the pod is bound to."""
    body = request.body
    if request.path.endswith("/binding"):
        return replace(request, body={**body, "target": {**body["target"], "name": ANY_NODE}})
    if request.thread[0] == EVENTS and body["reason"] == "Scheduled":
        note = f"{body['note'].rpartition(' ')[0]} {ANY_NODE}"
        return replace(request, body={**body, "note": note})
    return request


async def replay(name: str, folder: Path) -> list[str]:
    """The differences of one scenario."""
    scenario = load(name)
    stage = Stage(scenario, expected(scenario), folder)
    found = []
    try:
        await stage.play()
    except NeverHappenedError as error:
        found.append(str(error))
    found += compare(scenario, stage.recorded, stage.seen, stage.literals)
    for scheduler, code in scenario.exit_codes.items():
        if not found and stage.exit_codes.get(scheduler) != code:
            found.append(f"exit code {stage.exit_codes.get(scheduler)} instead of {code}")
    return found


async def replay_all(wanted: list[str]) -> dict[str, list[str]]:
    places = asyncio.Semaphore(AT_ONCE)
    differences: dict[str, list[str]] = {}

    async def one(name: str, folder: Path) -> None:
        async with places:
            started = time.monotonic()
            differences[name] = await replay(name, folder)
            verdict = "differs" if differences[name] else "ok"
            if name in DELIBERATE:
                verdict += f" (on purpose: {DELIBERATE[name].what})"
            print(f"{name}: {verdict}, {time.monotonic() - started:.1f} s", flush=True)
            for difference in differences[name]:
                print(f"    {difference}", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        async with asyncio.TaskGroup() as tasks:
            for name in wanted:
                tasks.create_task(one(name, Path(folder)))
    return differences


def main(arguments: list[str]) -> int:
    wanted = arguments or names()
    if unknown := set(wanted) - set(names()):
        sys.exit(f"no such scenario: {', '.join(sorted(unknown))}")
    for name in NOT_YET.keys() & set(wanted):
        print(f"{name}: not yet ({NOT_YET[name]})")
    logs.configure(logs.Logging(), stderr=_Silence())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        outcome = runner.run(replay_all([name for name in wanted if name not in NOT_YET]))
    differing = sum(bool(found) for found in outcome.values())
    print(f"{len(outcome) - differing}/{len(outcome)} scenarios are reproduced")
    return 1 if differing else 0


class _Silence:
    """What a dozen schedulers log at the same time helps nobody."""

    def write(self, line: bytes, /) -> None:
        pass

    def flush(self) -> None:
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
