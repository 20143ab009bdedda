"""The kubelets of all nodes, played by one task.

Ten thousand timers would cost more than the pods they wait for, so actions on pods wait in
one heap, and a batch of due actions is carried out at a time. Each action names the uid it is meant
for: a pod that was deleted and created anew under its name is another pod.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kscheduler.api.core import Node, Pod
from kscheduler.api.decode import decoder_for
from kscheduler.sandbox.deletion import DeleteOptions, delete
from kscheduler.sandbox.kinds.events import pod_warning
from kscheduler.sandbox.kubelets.admission import NodeLoad, Refusal
from kscheduler.sandbox.kubelets.dynamic_resources import PrepareError, check_claims
from kscheduler.sandbox.kubelets.nodes import (
    RENEW_SECONDS,
    STATUS_UNKNOWN,
    NodeLeases,
    NodeShape,
    node_manifest,
    post_conditions,
)
from kscheduler.sandbox.metadata import find_condition, now, set_condition
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import EVENTS, NODES, PODS
from kscheduler.sandbox.store import Change, Key, Object, Stored

START_SECONDS = 0.2
STOP_SECONDS = 0.1
# Pods of Jobs run this long, unless an annotation of theirs says otherwise, and then succeed,
# unless another one names an exit code.
RUN_SECONDS = 2.0
RUN_SECONDS_ANNOTATION = "sandbox.kscheduler.dev/run-seconds"
EXIT_CODE_ANNOTATION = "sandbox.kscheduler.dev/exit-code"
# On a node: `stopped` is what `Kubelets.pause` does, for kubectl.
KUBELET_ANNOTATION = "sandbox.kscheduler.dev/kubelet"
PREPARE_SECONDS = 1.0  # between two looks at claims that a pod may not use yet
_TICK_SECONDS = 0.5
_BATCH = 200  # pods handled before other tasks run
_decode_node = decoder_for(Node)
_decode_pod = decoder_for(Pod)


class Kubelets:
    """The kubelets of all nodes in the store, except those paused."""

    def __init__(
        self,
        registry: Registry,
        *,
        start_seconds: float = START_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        prepare_seconds: float = PREPARE_SECONDS,
        renew_seconds: float = RENEW_SECONDS,
        run_seconds: float = RUN_SECONDS,
    ) -> None:
        self._registry = registry
        self._run_seconds = run_seconds
        self._prepare_seconds = prepare_seconds
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._leases = NodeLeases(registry, renew_seconds)
        self._paused: set[str] = set()
        self._loads: dict[str, NodeLoad] = {}
        self._changed: dict[Key, None] = {}  # pods to handle, in order, each once
        self._nodeless: dict[str, set[Key]] = {}  # pods bound to nodes that do not exist
        self._unprepared: dict[str, str] = {}  # why pods cannot start yet, by uid
        self._delayed = _DelayingQueue()
        self._addresses = itertools.count(1)
        self._wake = asyncio.Event()

    def add_nodes(
        self, count: int, shape: NodeShape | None = None, *, prefix: str = "node-"
    ) -> list[str]:
        """Create ready nodes named prefix + number, going on after those that exist."""
        first = len(self._registry.collection(NODES))
        names = []
        for index in range(first, first + count):
            name = f"{prefix}{index}"
            self._registry.create(NODES, "", node_manifest(name, index, shape))
            names.append(name)
        return names

    def pause(self, node: str) -> None:
        """From now on the node is dead: pods neither start nor stop, its lease runs out."""
        self._paused.add(node)
        self._leases.pause(node)

    def resume(self, node: str) -> None:
        """The kubelet is back: it posts the node's status, and goes on with its pods."""
        self._paused.discard(node)
        load = self._loads.get(node)
        if load is not None:
            self._leases.add(node, load.node.metadata.uid)
            self._post_ready(node)
        for stored in self._registry.collection(PODS):
            if stored.fields["spec.nodeName"] == node:
                self._post_pod_ready(stored)
                self._mark_changed(stored.key)

    def is_idle(self, within_seconds: float) -> bool:
        """Whether no pod is about to start, stop or finish within this time."""
        left = self._delayed.seconds_until_due(time.monotonic(), within_seconds)
        return not self._changed and left >= within_seconds

    def _post_ready(self, name: str) -> None:
        """Write the conditions of a kubelet that is well, unless the node has them."""
        stored = self._registry.collection(NODES).get(("", name))
        if stored is None:
            return
        node = stored.decode()
        if post_conditions(node["status"]):
            self._registry.replace(NODES, stored.key, node)

    def _post_pod_ready(self, stored: Stored) -> None:
        """Say again that a running pod is ready, after others have said it is not."""
        pod = stored.decode()
        ready = find_condition(pod["status"], "Ready")
        if (
            pod["status"].get("phase") == "Running"
            and ready is not None
            and ready.get("reason") == "NodeNotReady"
        ):
            set_condition(pod["status"], "Ready", "True")
            self._registry.replace(PODS, stored.key, pod)

    async def run(self) -> None:
        """Until cancelled: handle changed pods, due actions and leases in turn."""
        nodes, pods = self._registry.collection(NODES), self._registry.collection(PODS)
        stops = [nodes.listen(self._node_changed), pods.listen(self._pod_changed)]
        for stored in nodes:
            self._add_node(stored)
        bound = [stored for stored in pods if stored.fields["spec.nodeName"]]
        # Those that run already have their place; only what is left is for the others.
        bound.sort(key=lambda stored: stored.fields["status.phase"] != "Running")
        for stored in bound:
            self._mark_changed(stored.key)
        try:
            while True:
                await self._handle_changes()
                for action in self._delayed.pop_due(time.monotonic(), _BATCH):
                    self._carry_out(action)
                self._leases.renew_due(time.monotonic())
                await self._wait()
        finally:
            for stop in stops:
                stop()

    async def _wait(self) -> None:
        """Wait for a change or for the next due action; always lets other tasks run."""
        wait = self._delayed.seconds_until_due(time.monotonic(), _TICK_SECONDS)
        if self._changed or not wait:
            await asyncio.sleep(0)
            return
        # Not wait_for: in Python 3.11 it can swallow a cancellation that meets a wake-up.
        with suppress(TimeoutError):
            async with asyncio.timeout(wait):
                await self._wake.wait()
        self._wake.clear()

    def _mark_changed(self, key: Key) -> None:
        self._changed[key] = None
        self._wake.set()

    def _node_changed(self, change: Change) -> None:
        if change.type == "DELETED":
            self._loads.pop(change.stored.key[1], None)
            self._leases.remove(change.stored.key[1])
        else:
            self._add_node(change.stored)

    def _add_node(self, stored: Stored) -> None:
        node = _decode_node(stored.body)
        load = self._loads.get(node.name)
        stopped = node.metadata.annotations.get(KUBELET_ANNOTATION) == "stopped"
        if load is not None:
            before = load.node.metadata.annotations.get(KUBELET_ANNOTATION) == "stopped"
            load.node = node
            if stopped and not before:
                self.pause(node.name)
            elif before and not stopped:
                self.resume(node.name)
            elif node.name not in self._paused and _is_given_up(node, stored):
                # The process stood still for too long: nobody spoke, but nobody is dead.
                self._leases.renew(node.name)
                self.resume(node.name)
            return
        addresses = stored.decode()["status"].get("addresses") or ()
        internal = next((one["address"] for one in addresses if one["type"] == "InternalIP"), "")
        self._loads[node.name] = NodeLoad(node, internal)
        if stopped:
            self._paused.add(node.name)
        elif node.name not in self._paused:
            self._leases.add(node.name, node.metadata.uid)
            if not any(one["type"] == "Ready" for one in _conditions(stored)):
                self._post_ready(node.name)
        for key in self._nodeless.pop(node.name, ()):
            self._mark_changed(key)

    def _pod_changed(self, change: Change) -> None:
        node = change.stored.fields["spec.nodeName"]
        if not node:
            return
        if change.type != "DELETED":
            self._mark_changed(change.stored.key)
            return
        uid = _decode_pod(change.stored.body).metadata.uid
        self._unprepared.pop(uid, None)
        if load := self._loads.get(node):
            load.remove(uid)

    async def _handle_changes(self) -> None:
        handled = 0
        while self._changed:
            key = next(iter(self._changed))
            del self._changed[key]
            stored = self._registry.collection(PODS).get(key)
            if stored is not None and stored.fields["spec.nodeName"] not in self._paused:
                self._handle(stored)
            handled += 1
            if handled % _BATCH == 0:
                await asyncio.sleep(0)

    def _handle(self, stored: Stored) -> None:
        """Take the next step with a bound pod: stop it, or admit or reject it if it is new."""
        pod = _decode_pod(stored.body)
        uid, node = pod.metadata.uid, stored.fields["spec.nodeName"]
        load = self._loads.get(node)
        if pod.metadata.deletion_timestamp is not None:
            action = _PodAction("stop", stored.key, uid)
            self._delayed.add_at(action, time.monotonic() + self._stop_seconds)
        elif load is None:
            self._nodeless.setdefault(node, set()).add(stored.key)
        elif stored.fields["status.phase"] in ("Succeeded", "Failed"):
            load.remove(uid)
        elif uid not in load.pods:
            # A pod the node has not seen before. One that runs has done so since before this task
            # began, and is not asked whether it fits.
            running = stored.fields["status.phase"] == "Running"
            verdict = load.measure(pod) if running else load.check(pod)
            if isinstance(verdict, Refusal):
                item = stored.decode()
                event = pod_warning(item, verdict.reason, verdict.message, "kubelet", host=node)
                mark_rejected(item, verdict)
                self._registry.replace(PODS, stored.key, item)
                self._registry.create(EVENTS, stored.key[0], event)
                return
            load.add(uid, verdict)
            if not running:
                action = _PodAction("start", stored.key, uid)
                self._delayed.add_at(action, time.monotonic() + self._start_seconds)

    def _carry_out(self, action: _PodAction) -> None:
        stored = self._registry.collection(PODS).get(action.key)
        if stored is None or stored.fields["spec.nodeName"] in self._paused:
            return
        pod = stored.decode()
        if pod["metadata"]["uid"] != action.uid:
            return
        if action.verb == "finish":
            if stored.fields["status.phase"] == "Running":
                mark_finished(pod, _number(pod, EXIT_CODE_ANNOTATION, 0))
                self._registry.replace(PODS, action.key, pod)
        elif action.verb == "stop":
            options = DeleteOptions(grace_period_seconds=0, uid=action.uid)
            delete(self._registry, PODS, *action.key, options)
        elif stored.fields["status.phase"] == "Pending":
            load = self._loads.get(pod["spec"]["nodeName"])
            if load is None or "deletionTimestamp" in pod["metadata"]:
                return
            if self._can_start(stored, action):
                number = next(self._addresses)
                address = f"10.{number // 65536 % 256}.{number // 256 % 256}.{number % 256}"
                mark_running(pod, load.address, address)
                self._registry.replace(PODS, action.key, pod)
                owners = pod["metadata"].get("ownerReferences") or ()
                if any(one.get("kind") == "Job" and one.get("controller") for one in owners):
                    seconds = _number(pod, RUN_SECONDS_ANNOTATION, self._run_seconds)
                    finish = _PodAction("finish", action.key, action.uid)
                    self._delayed.add_at(finish, time.monotonic() + seconds)

    def _can_start(self, stored: Stored, action: _PodAction) -> bool:
        """Whether the pod's claims are there for it; if not, says why once and tries again."""
        try:
            check_claims(self._registry, _decode_pod(stored.body))
        except PrepareError as error:
            if self._unprepared.get(action.uid) != str(error):
                self._unprepared[action.uid] = str(error)
                message = f"Failed to prepare dynamic resources: prepare dynamic resources: {error}"
                reason, node = "FailedPrepareDynamicResources", stored.fields["spec.nodeName"]
                event = pod_warning(stored.decode(), reason, message, "kubelet", host=node)
                self._registry.create(EVENTS, stored.key[0], event)
            self._delayed.add_at(action, time.monotonic() + self._prepare_seconds)
            return False
        self._unprepared.pop(action.uid, None)
        return True


_RUNNING_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def mark_running(pod: Object, host_ip: str, pod_ip: str) -> None:
    """Set the status of a running pod: all containers ready, all init containers done."""
    state, spec = pod["status"], pod["spec"]
    moment = now()
    state["phase"] = "Running"
    state.setdefault("startTime", moment)
    for kind in _RUNNING_CONDITIONS:
        set_condition(state, kind, "True")
    if host_ip:
        state |= {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
    address = host_ip if spec.get("hostNetwork") else pod_ip
    state |= {"podIP": address, "podIPs": [{"ip": address}]}
    state["observedGeneration"] = pod["metadata"].get("generation", 1)
    uid = pod["metadata"]["uid"]
    running = {"running": {"startedAt": moment}}
    done = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": moment}}
    state["containerStatuses"] = [
        _container_status(one, uid, running, ready=True) for one in spec["containers"]
    ]
    if spec.get("initContainers"):
        state["initContainerStatuses"] = [
            _container_status(
                one, uid, running if one.get("restartPolicy") == "Always" else done, ready=True
            )
            for one in spec["initContainers"]
        ]


def mark_finished(pod: Object, exit_code: int) -> None:
    """Set the status of a pod whose containers have ended, all with this code."""
    state, moment = pod["status"], now()
    state["phase"] = "Failed" if exit_code else "Succeeded"
    reason = "Error" if exit_code else "Completed"
    for kind in ("Ready", "ContainersReady"):
        set_condition(state, kind, "False", reason=f"Pod{'Failed' if exit_code else 'Completed'}")
    for one in state.get("containerStatuses") or ():
        began = (one.get("state") or {}).get("running") or {}
        ended = {"exitCode": exit_code, "reason": reason, "finishedAt": moment}
        one |= {
            "ready": False,
            "started": False,
            "state": {"terminated": {**ended, "startedAt": began.get("startedAt", moment)}},
        }


def _number(pod: Object, annotation: str, otherwise: Any) -> Any:
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    try:
        return type(otherwise)(text)
    except ValueError:
        return otherwise


def _is_given_up(node: Node, stored: Stored) -> bool:
    """Whether the node controller has taken the kubelet for dead."""
    if all(one.type != "Ready" or one.status != "Unknown" for one in node.status.conditions):
        return False
    return any(
        one["type"] == "Ready" and one.get("reason") == STATUS_UNKNOWN
        for one in _conditions(stored)
    )


def _conditions(node: Stored) -> list[Object]:
    return list(node.decode()["status"].get("conditions") or ())


def mark_rejected(pod: Object, refusal: Refusal) -> None:
    state = pod["status"]
    state |= {
        "phase": "Failed",
        "reason": refusal.reason,
        "message": f"Pod was rejected: {refusal.message}",
        "startTime": now(),
    }


def _container_status(
    container: dict[str, Any], uid: str, current: dict[str, Any], *, ready: bool
) -> Object:
    name = container["name"]
    return {
        "name": name,
        "image": container["image"],
        "imageID": container["image"],
        "containerID": f"sandbox://{uid}/{name}",
        "state": current,
        "lastState": {},
        "ready": ready,
        "started": "running" in current,
        "restartCount": 0,
    }


@dataclass(frozen=True, slots=True)
class _PodAction:
    """An action due on one incarnation of a pod: `start`, `stop` or `finish`."""

    verb: str
    key: Key
    uid: str


class _DelayingQueue:
    """Actions by the time they are due; an action that waits already is not added again."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, _PodAction]] = []
        self._waiting: set[_PodAction] = set()
        self._sequence = itertools.count()

    def add_at(self, action: _PodAction, moment: float) -> None:
        if action not in self._waiting:
            self._waiting.add(action)
            heapq.heappush(self._heap, (moment, next(self._sequence), action))

    def pop_due(self, now: float, limit: int) -> list[_PodAction]:
        due: list[_PodAction] = []
        while self._heap and self._heap[0][0] <= now and len(due) < limit:
            action = heapq.heappop(self._heap)[2]
            self._waiting.discard(action)
            due.append(action)
        return due

    def seconds_until_due(self, now: float, longest: float) -> float:
        """Seconds until the next action is due, at most `longest`."""
        return min(longest, max(self._heap[0][0] - now, 0)) if self._heap else longest
