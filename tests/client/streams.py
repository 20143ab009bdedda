"""Pods as servers send them, and a client that reads a watch from memory."""

import asyncio
from contextlib import asynccontextmanager


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
