"""A recorded scenario: what was done to the cluster, and every request the scheduler sent.

Requests whose order is no matter of timing form a thread: those that bind a pod or write its
status, its volumes or its claims, those that tell of it in events, those for the lease, those that
follow one collection.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases" / "wire"

LEASE, EVENTS, POD, FOLLOW, OTHER = "lease", "events", "pod", "follow", "other"
EXTENDER = "extender"
EXTENDER_PATH = "/ext/"
Thread = tuple[str, str, str]  # kind, scheduler, name

# What is written for a pod before it is bound.
WRITTEN_IN_PRE_BIND = {"persistentvolumes", "persistentvolumeclaims", "resourceclaims"}
# In every recording with volumes or devices, they are this pod's, at least at first.
POD_WITH_CLAIMS = "p1"

# The recorded lease takes 15 s to expire; ours is shorter by this, and otherwise the same. Requests
# for it are given up after 5 s, and ours must not be when the machine is busy for a while.
LEASE_SHORTENED = 2.5
RECORDED_LEASE_SECONDS = 15
LEASE_SECONDS = int(RECORDED_LEASE_SECONDS / LEASE_SHORTENED)
SHORT_LEASE = f"""
leaderElection:
  leaseDuration: {LEASE_SECONDS}s
  renewDeadline: {int(10 / LEASE_SHORTENED)}s
  retryPeriod: {int(2000 / LEASE_SHORTENED)}ms
"""


@dataclass(slots=True)
class Request:
    """One request, recorded or seen. `status` is not a number where the connection was closed."""

    scheduler: str
    client: str
    method: str
    path: str
    after_step: int
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    status: Any = None
    fabricated: bool = False
    held: str = ""
    arrival: int = 0
    # Of an extender, which answers as it did then.
    reply: Any = None

    @property
    def thread(self) -> Thread:
        parts = self.path.split("/")
        if self.path.startswith(EXTENDER_PATH):
            return (EXTENDER, self.scheduler, "")
        if "leases" in parts:
            return (LEASE, self.scheduler, "")
        if "events" in parts:
            return (EVENTS, self.scheduler, self._subject)
        if "pods" in parts and "namespaces" in parts:
            return (POD, self.scheduler, parts[parts.index("pods") + 1])
        if self.method != "GET" and WRITTEN_IN_PRE_BIND.intersection(parts):
            return (POD, self.scheduler, POD_WITH_CLAIMS)
        if self.method == "GET" and len(parts) > 4 - ("api" in parts):
            return (FOLLOW, self.scheduler, self.path)
        return (OTHER, self.scheduler, self.path)

    @property
    def _subject(self) -> str:
        """The object an event is about."""
        if self.method == "PATCH":
            return self.path.rpartition("/")[2].rpartition(".")[0]
        return (self.body.get("regarding") or self.body["involvedObject"])["name"]

    def __str__(self) -> str:
        query = "?" + "&".join(f"{k}={v}" for k, v in self.query.items()) if self.query else ""
        return f"{self.method} {self.path}{query}"


@dataclass(slots=True)
class Scenario:
    name: str
    description: str
    schedulers: list[dict[str, Any]]
    steps: list[dict[str, Any]]
    requests: list[Request]
    exit_codes: dict[str, int]

    @property
    def shows_start_up(self) -> bool:
        return self.name.startswith("j-startup")

    def belongs(self, request: Request) -> bool:
        """Whether recordings of this kind list such a request at all."""
        kind = request.thread[0]
        if kind == OTHER:
            return self.shows_start_up
        if kind == FOLLOW:
            return self.shows_start_up or (
                self.name == "j-watch-ends" and request.after_step >= self.ready_step
            )
        return True

    @property
    def ready_step(self) -> int:
        return next(i for i, step in enumerate(self.steps) if step.get("marker") == "ready")


def load(name: str) -> Scenario:
    """The scenario as it is to be reproduced here, with shorter leases."""
    recorded = json.loads((CASES / f"{name}.json").read_text())
    return Scenario(
        name=name,
        description=recorded["description"],
        schedulers=recorded["scheduler"],
        steps=recorded["steps"],
        requests=[
            *(_request(one) for one in recorded["requests"]),
            *(_question(one) for one in recorded.get("extender_calls", ())),
        ],
        exit_codes=_exit_codes(recorded.get("exit", {})),
    )


def names() -> list[str]:
    return sorted(path.stem for path in CASES.glob("*.json"))


def _request(recorded: Mapping[str, Any]) -> Request:
    request = Request(
        scheduler=recorded.get("scheduler", "A"),
        client=recorded["client"],
        method=recorded["method"],
        path=recorded["path"],
        after_step=recorded["after_step"],
        query=recorded.get("query") or {},
        headers=recorded["headers"],
        body=recorded.get("body"),
        status=recorded["status"],
        fabricated=recorded.get("fabricated", False),
        held=recorded.get("held", ""),
    )
    if request.thread[0] == LEASE:
        _shorten(request)
    if isinstance(request.body, dict):
        _free_lease_versions(request.body)
    return request


def _question(recorded: Mapping[str, Any]) -> Request:
    """One that an extender was asked."""
    return Request(
        scheduler="A",
        client="extender",
        method=recorded["method"],
        path=recorded["path"],
        after_step=recorded["after_step"],
        headers={"content-type": recorded["headers"]["content-type"]},
        body=recorded["body"],
        status=recorded["reply"]["status"],
        reply=recorded["reply"],
    )


def _shorten(request: Request) -> None:
    request.query = {**request.query, "timeout": f"{int(5 / LEASE_SHORTENED)}s"}
    spec = (request.body or {}).get("spec", {})
    if spec.get("leaseDurationSeconds") == RECORDED_LEASE_SECONDS:
        spec["leaseDurationSeconds"] = LEASE_SECONDS


def _free_lease_versions(body: dict[str, Any]) -> None:
    """How often a lease was renewed is a matter of time; a wrong version shows as a 409."""
    for part in (body.get("metadata"), body.get("involvedObject")):
        if part and part.get("uid", "").startswith("@UID:lease/"):
            part["resourceVersion"] = "@RV@"


def _exit_codes(recorded: Mapping[str, Any]) -> dict[str, int]:
    if "exit_code" in recorded:
        return {"A": recorded["exit_code"]}
    return {name: one["exit_code"] for name, one in recorded.items()}
