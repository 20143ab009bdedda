"""Plugins that do everything a plugin must not do; which of it, the pod's label says."""

import time

import numpy as np


def misbehave(pod, nodes):
    match pod.labels.get("fault"):
        case "raise":
            raise RuntimeError("nobody caught this")
        case "hang":
            time.sleep(60)
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
                import asyncio

                await asyncio.sleep(60)
