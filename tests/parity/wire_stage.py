"""Plays a recorded scenario: an API server, the schedulers, and whoever acts upon the cluster.

Nothing here waits for a fixed time. The next step comes when every request has arrived that was
recorded before it, and the schedulers have nothing more to do.
"""

import asyncio
import copy
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from kscheduler.api.resources import (
    CSI_DRIVERS,
    CSI_NODES,
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
)
from kscheduler.app.daemon import Daemon
from kscheduler.app.startup import setup
from kscheduler.cli.command_line import parse
from kscheduler.errors import KschedulerError
from kscheduler.sandbox import ApiServer, User
from tests.parity.wire_extender import RecordedExtender
from tests.parity.wire_scenario import FOLLOW, SHORT_LEASE, Request, Scenario

SCHEDULER = User("system:kube-scheduler").authenticated()
# Under which name each scheduler knows the server, so that their requests can be told apart.
HOSTS = {"A": "127.0.0.1", "B": "localhost"}
EVENTS_API = "/apis/events.k8s.io/v1"
PATIENCE_SECONDS = 60.0
# Nobody listens there.
DEAD_ADDRESS = "127.0.0.1:1"

# What a recorder said in its own words; where nothing is repeated of it, any text will do.
MESSAGES = {404: 'pods "p1" not found'}
REASONS = {
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}
# Steps that were taken before the scheduler could answer the ones before.
HURRIED = {
    "c-event-series": (4, 5),
    "g-claim-missing-then-unbound": (7,),
    "g-wffc-dynamic": (10,),
    "g-wffc-provision-rejected": (10,),
    "g-wffc-static": (10,),
}
PLURALS = {
    "Node": "nodes",
    "Pod": "pods",
    "PersistentVolume": "persistentvolumes",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "CSINode": "csinodes.storage.k8s.io",
    "Lease": "leases.coordination.k8s.io",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
}
NAMESPACES = {"Lease": "kube-system"}
# Of what steps are about, all that schedulers follow; changes of two collections reach them in
# either order.
FOLLOWED = (
    PODS,
    NODES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    STORAGE_CLASSES,
    CSI_NODES,
    CSI_DRIVERS,
    POD_DISRUPTION_BUDGETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    DEVICE_CLASSES,
)
# What admission adds on a server that keeps volumes from being deleted while in use.
PROTECTED = {
    "PersistentVolume": "kubernetes.io/pv-protection",
    "PersistentVolumeClaim": "kubernetes.io/pvc-protection",
}


class NeverHappenedError(Exception):
    """Something that was waited for did not come."""


class RunningScheduler:
    """One scheduler, in this process."""

    def __init__(self, task: asyncio.Task[int]) -> None:
        self.task = task
        self.daemon: Daemon | None = None
        self.killed = False

    @property
    def synced(self) -> bool:
        return self.daemon is not None and self.daemon.synced

    def idle(self, api: ApiServer) -> bool:
        """It knows all that is stored, and has nothing to do but wait."""
        if self.task.done() or self.killed:
            return True
        assert self.daemon is not None
        scheduler = self.daemon.scheduler
        informers = scheduler.informers
        return (
            all(
                _versions(api.objects.list(resource.group_resource))
                == _known(informers.lister(resource.struct))
                for resource in FOLLOWED
            )
            and not scheduler.queue.ready
            and not list(scheduler.queue.in_flight)
        )


def _versions(stored: list[dict[str, Any]]) -> set[str]:
    return {item["metadata"]["resourceVersion"] for item in stored}


def _known(lister: Any) -> set[str]:
    return {item.metadata.resource_version for item in lister.items()}


class Stage:
    """One scenario being played; `seen` holds the requests in the order of their arrival."""

    def __init__(self, scenario: Scenario, recorded: list[Request], folder: Path) -> None:
        self.scenario = scenario
        self.recorded = recorded
        self.seen: list[Request] = []
        self.exit_codes: dict[str, int] = {}
        self.step = -1
        self.api = ApiServer(anonymous=SCHEDULER, disable_admission=["Priority"])
        self._folder = folder
        self._schedulers: dict[str, RunningScheduler] = {}
        self._open_watches: dict[str, asyncio.Transport] = {}
        self._extender = RecordedExtender(self._asked_of_extender, self.api.objects.bind)

    async def play(self) -> None:
        self.api.interceptors.append(self._intercept)
        async with self.api, self._extender, self._ending_schedulers():
            for number, step in enumerate(self.scenario.steps):
                if step.get("marker") == "ready":
                    await self._started(step["step"].split()[1])
                if number not in HURRIED.get(self.scenario.name, ()):
                    await self._quiet()
                self.step = number
                await self._take(step)
            await self._quiet()
            await self._ended_by_themselves()

    @asynccontextmanager
    async def _ending_schedulers(self) -> AsyncIterator[None]:
        """What they send while they are swept off the stage is no part of the play."""
        try:
            yield
        finally:
            self.api.interceptors.remove(self._intercept)
            for scheduler in self._schedulers.values():
                scheduler.task.cancel()
            tasks = [scheduler.task for scheduler in self._schedulers.values()]
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _started(self, name: str) -> None:
        self._start(name)
        scheduler = self._schedulers[name]
        await self._happened(f"scheduler {name} to be in sync", lambda: scheduler.synced)

    async def _quiet(self) -> None:
        await self._happened(f"what follows step {self.step}", self._nothing_left)

    async def _take(self, step: dict[str, Any]) -> None:
        match step:
            case {"do": "create", "object": made}:
                item = self._filled(made)
                if finalizer := PROTECTED.get(item["kind"]):
                    item["metadata"]["finalizers"] = [finalizer]
                self.api.objects.create(item)
            case {"do": "delete", "kind": kind, "name": name}:
                self.api.objects.delete(
                    PLURALS[kind],
                    name,
                    NAMESPACES.get(kind, "default"),
                    grace_period_seconds=step.get("gracePeriodSeconds"),
                )
            case {"do": "patch", "kind": kind, "name": name, "patch": patch}:
                self.api.objects.update(
                    PLURALS[kind],
                    name,
                    lambda item: _merge(item, self._filled(patch)),
                    NAMESPACES.get(kind, "default"),
                    subresource=step["subresource"] or "",
                )
            case {"do": "note", "step": text}:
                await self._follow_note(text)

    async def _follow_note(self, text: str) -> None:
        if text == "start the scheduler":
            self._start("A")
        elif found := re.match("SIGTERM to (?:the )?scheduler ?([AB]?)", text):
            await self._stop(found[1] or "A")
        elif found := re.match("SIGKILL to scheduler ([AB])", text):
            self._kill(found[1])
        elif "closes the connection of the pods watch" in text:
            self._open_watches["/api/v1/pods"].abort()

    def _filled(self, value: Any) -> Any:
        """With the time it is, and the identities that objects have got here."""
        now = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())
        text = json.dumps(value).replace("@MICROTIME@", f"{now}.000000Z")
        text = text.replace("@TIME@", f"{now}Z")
        return json.loads(re.sub("@UID:([a-z]+)/([^@]+)@", self._uid, text))

    def _uid(self, found: re.Match[str]) -> str:
        item = self.api.objects.get(f"{found[1]}s", found[2])
        return str(item["metadata"]["uid"])

    def _start(self, name: str) -> None:
        if name in self._schedulers:
            return
        task = asyncio.create_task(self._run(name), name=f"{self.scenario.name}/{name}")
        self._schedulers[name] = RunningScheduler(task)

    async def _run(self, name: str) -> int:
        options, _ = parse(self._arguments(name))
        gates = options.gates()
        try:
            async with setup(options, gates) as daemon:
                self._schedulers[name].daemon = daemon
                return await daemon.run()
        except KschedulerError:
            return 1

    def _arguments(self, name: str) -> list[str]:
        recorded = next(one for one in self.scenario.schedulers if one["name"] == name)
        kubeconfig = self._folder / f"{self.scenario.name}-{name}.kubeconfig"
        written = json.dumps(self.api.kubeconfig()).replace("127.0.0.1", HOSTS[name])
        kubeconfig.write_text(written)
        config = self._folder / f"{self.scenario.name}-{name}.yaml"
        text = recorded["config"].replace("@KUBECONFIG@", str(kubeconfig))
        text = text.replace("@EXTENDER@/dead", DEAD_ADDRESS + "/dead")
        text = text.replace("@EXTENDER@", self._extender.address)
        config.write_text(text if "leaderElection" in text else text + SHORT_LEASE)
        fillers = {"@CONFIG@": str(config), "@KUBECONFIG@": str(kubeconfig), "@PORT@": "0"}
        return [fillers.get(argument, argument) for argument in recorded["args"]]

    async def _stop(self, name: str) -> None:
        scheduler = self._schedulers[name]
        assert scheduler.daemon is not None
        scheduler.daemon.stopping.set()
        self.exit_codes[name] = await asyncio.wait_for(scheduler.task, PATIENCE_SECONDS)

    def _kill(self, name: str) -> None:
        """From here on nothing of it reaches the server, its last words included."""
        self._schedulers[name].killed = True
        self._schedulers[name].task.cancel()

    async def _ended_by_themselves(self) -> None:
        for name in self.scenario.exit_codes.keys() - self.exit_codes.keys():
            task = self._schedulers[name].task
            self.exit_codes[name] = await asyncio.wait_for(task, PATIENCE_SECONDS)

    def _nothing_left(self) -> bool:
        return (
            not self._missing()
            and not any(request.method == "PUT" and not request.status for request in self.seen)
            and all(scheduler.idle(self.api) for scheduler in self._schedulers.values())
        )

    def _missing(self) -> list[Request]:
        """Recorded until now, not seen yet, and still to be hoped for.

        By number only: what they say is compared later.
        """
        seen: dict[object, int] = {}
        for request in filter(self.scenario.belongs, self.seen):
            seen[request.thread] = seen.get(request.thread, 0) + 1
        missing = []
        for request in self.recorded:
            if request.after_step <= self.step:
                seen[request.thread] = seen.get(request.thread, 0) - 1
                if seen[request.thread] < 0 and not self._has_ended(request.scheduler):
                    missing.append(request)
        return missing

    def _has_ended(self, name: str) -> bool:
        return name in self._schedulers and self._schedulers[name].task.done()

    async def _happened(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                missing = "; ".join(map(str, self._missing()))
                raise NeverHappenedError(
                    f"waited in vain for {what} ({missing or 'no request missing'})"
                )
            await asyncio.sleep(0.02)

    async def _intercept(self, request: web.BaseRequest) -> web.StreamResponse:
        sender = next(name for name, host in HOSTS.items() if request.host.startswith(host))
        if self._schedulers[sender].killed:
            return _closed(request)
        arrived = Request(
            scheduler=sender,
            client=request.headers["User-Agent"].rpartition("/")[2],
            method=request.method,
            path=request.path,
            after_step=self.step,
            query=dict(request.query),
            headers={name.lower(): value for name, value in request.headers.items()},
            body=json.loads(await request.read() or "null"),
            arrival=len(self.seen),
        )
        script = self._script(arrived)
        self.seen.append(arrived)
        answer = await self._answer(request, arrived, script)
        arrived.status = answer.status
        return answer

    def _script(self, arrived: Request) -> Request | None:
        """The recorded request that this one is the counterpart of, as far as answers go."""
        if self.scenario.name == "k-events-api-absent" and arrived.path == EVENTS_API:
            return Request("A", "", "GET", EVENTS_API, -1, status=404, fabricated=True)
        thread = arrived.thread
        before = [one for one in self.seen if one.thread == thread and one.after_step == self.step]
        lines = [
            one for one in self.recorded if one.thread == thread and one.after_step == self.step
        ]
        return lines[len(before)] if len(before) < len(lines) else None

    def _asked_of_extender(self, question: Request) -> Any:
        question.after_step, question.arrival = self.step, len(self.seen)
        script = self._script(question)
        self.seen.append(question)
        if script is None:
            return None
        question.status = script.status
        return self._filled(script.reply)

    @property
    def literals(self) -> dict[str, str]:
        """What placeholders stand for that are known beforehand."""
        return {"@APISERVER@": self.api.url, "@EXTENDER@": self._extender.address}

    async def _answer(
        self, request: web.BaseRequest, arrived: Request, script: Request | None
    ) -> web.StreamResponse:
        if script is not None and script.held:
            await self._hold(request, script.held)
        if script is not None and script.fabricated:
            return _fabricated(script.status) if script.status in REASONS else _closed(request)
        if arrived.thread[0] == FOLLOW and arrived.query.get("watch"):
            assert request.transport is not None
            self._open_watches[arrived.path] = request.transport
        return await self.api.answer(request)

    async def _hold(self, request: web.BaseRequest, why: str) -> None:
        """Do what was done behind the scheduler's back, and let it hear of it first."""
        if found := re.search("another client bound the pod to (.*)", why):
            self.api.objects.bind("p1", found[1])
        elif "node was deleted" in why:
            self.api.objects.delete("nodes", "n1")
        elif "pod was deleted" in why:
            self.api.objects.delete("pods", "p1")
        elif "carried out, answer lost" in why:
            await self.api.answer(request)
            return
        scheduler = self._schedulers["A"]
        await self._happened("the scheduler's knowledge", lambda: scheduler.idle(self.api))


def _fabricated(code: int) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": MESSAGES.get(code, "fabricated"),
        "reason": REASONS[code],
        "code": code,
    }
    headers = {"Retry-After": "1"} if code == 429 else {}
    return web.json_response(status, status=code, headers=headers)


def _closed(request: web.BaseRequest) -> web.Response:
    if request.transport is not None:
        request.transport.close()
    return web.Response(status=499)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7386, in place."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        elif value is None:
            target.pop(key, None)
        else:
            target[key] = copy.deepcopy(value)
