"""What following costs per pod, beyond decoding it. Printed, not asserted: machines differ."""

import asyncio
import time
from contextlib import asynccontextmanager

from kscheduler.client.informers.decoding import Lines, decode_change
from tests.client.following import SHAPE, Story, following
from tests.client.scripted import bookmark, event, line

PODS = 10_000


def realistic_pod(number):
    """About 2.2 KB, a third of it managedFields, as servers send them."""
    name = f"web-6d4cf56db6-{number:05d}"
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "generateName": "web-6d4cf56db6-",
            "namespace": f"team-{number % 20}",
            "uid": f"6d3c9f0e-0000-4000-8000-{number:012d}",
            "resourceVersion": str(number + 1),
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "labels": {"app": "web", "pod-template-hash": "6d4cf56db6", "tier": "front"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": "web-6d4cf56db6",
                    "uid": "a7b5c1de-0000-4000-8000-000000000000",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2024-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {
                        f"f:{part}": {"f:a": {}, "f:b": {}, "f:c": {}, "f:d": {}, "f:e": {}}
                        for part in ("metadata", "spec", "containers", "resources", "volumes")
                    },
                }
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "registry.example.com/team/web:1.2.3",
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "resources": {
                        "requests": {"cpu": "250m", "memory": "256Mi"},
                        "limits": {"memory": "512Mi"},
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "nodeName": f"node-{number % 500:04d}",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "tolerations": [
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
                for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
            ],
            "priority": 0,
        },
        "status": {
            "phase": "Running",
            "conditions": [
                {
                    "type": kind,
                    "status": "True",
                    "lastProbeTime": None,
                    "lastTransitionTime": "2024-01-01T00:00:00Z",
                }
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "qosClass": "Burstable",
        },
    }


class MemoryClient:
    """Serves one stream from memory, so that only our side is measured."""

    def __init__(self, chunks):
        self._chunks = iter(chunks)

    @asynccontextmanager
    async def watch(self, resource, namespace, query, *, idle_seconds):
        async def read():
            for chunk in self._chunks:
                return chunk
            return await asyncio.Event().wait()

        yield read


def test_following_costs_little_more_than_decoding():
    lines = [line(event("ADDED", realistic_pod(n))) for n in range(PODS)]
    stream = b"".join([*lines, line(bookmark(PODS, initial_end=True))])
    chunks = [stream[start : start + 65536] for start in range(0, len(stream), 65536)]

    objects = [one[len(b'{"type":"ADDED","object":') : -2] for one in lines]
    decoding = _seconds(lambda: [SHAPE.decode(one) for one in objects])
    splitting = _seconds(lambda: _split(chunks))
    understanding = _seconds(lambda: [decode_change(one[:-1], SHAPE) for one in lines])
    following_seconds = min(asyncio.run(_follow(chunks)) for _ in range(3))

    per_pod = 1e6 / PODS
    print(
        f"\n{PODS} pods of {len(lines[0])} bytes, per pod: decode {decoding * per_pod:.1f} us, "
        f"split {splitting * per_pod:.1f} us, decode_change {understanding * per_pod:.1f} us, "
        f"follow into store and handler {following_seconds * per_pod:.1f} us "
        f"(overhead {(following_seconds - decoding) * per_pod:.1f} us)"
    )


def _seconds(work):
    """The best of three runs."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def _split(chunks):
    lines = Lines()
    for chunk in chunks:
        lines.feed(chunk)


async def _follow(chunks):
    async with following(MemoryClient(chunks)) as followed:
        followed.informer.add_handler(Story())
        started = time.process_time()
        await followed.informer.wait_for_sync()
        seconds = time.process_time() - started
        assert len(followed.informer) == PODS
    return seconds
