"""Plugins that do what a pod's label says, among it everything that a plugin must not do."""

import asyncio
import time

import numpy as np

from kscheduler.framework import Wait


def misbehave(pod, nodes):
    match pod.labels.get("fault"):
        case "raise":
            raise RuntimeError("nobody caught this")
        case "hang":
            time.sleep(60)
        case "compute":
            until = time.monotonic() + float(pod.labels["seconds"])
            while time.monotonic() < until:
                sum(range(1000))
        case "nan":
            return np.full(len(nodes), np.nan)
        case "shape":
            return np.zeros(len(nodes) + 1, np.int64)
        case "range":
            return np.full(len(nodes), 101)
        case "mutate":
            nodes.requested[:] = 0
        case "labels":
            pod.pod.metadata.labels["fault"] = ""
    return np.zeros(len(nodes), np.int64)


class Scorer:
    name = "Scorer"

    def __init__(self, args, handle):
        pass

    def score(self, cycle, pod, nodes):
        return misbehave(pod, nodes)


class Waiter:
    """Misbehaves where it may wait."""

    name = "Waiter"

    def __init__(self, args, handle):
        self._handle = handle

    async def pre_bind(self, cycle, pod, node):
        match pod.labels.get("fault"):
            case "block":
                time.sleep(60)  # noqa: ASYNC251 - what it does wrong
            case "wait":
                await asyncio.sleep(60)


class Gate:
    """Holds every pod; what its label says is done to the others that wait."""

    name = "Gate"

    def __init__(self, args, handle):
        self._handle = handle

    def permit(self, cycle, pod, node):
        for waiting in self._handle.waiting_pods:
            match pod.labels.get("others"):
                case "allow":
                    waiting.allow()
                case "reject":
                    waiting.reject("not today")
        return None if "others" in pod.labels else Wait(60)
