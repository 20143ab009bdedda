"""The statuses a kubelet gives a pod: running, rejected."""

from __future__ import annotations

from typing import Any

from kscheduler.sandbox.kinds.conditions import set_condition
from kscheduler.sandbox.kubelets.admission import Refusal
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.store import Object

_RUNNING_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def mark_running(pod: Object, host_ip: str, pod_ip: str) -> None:
    """All containers up and ready, all init containers done."""
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


def mark_rejected(pod: Object, refusal: Refusal) -> None:
    state = pod["status"]
    state |= {
        "phase": "Failed",
        "reason": refusal.reason,
        "message": f"Pod was rejected: {refusal.message}",
        "startTime": now(),
    }


def rejection_event(pod: Object, refusal: Refusal) -> Object:
    about = pod["metadata"]
    node = pod["spec"]["nodeName"]
    moment = now()
    return {
        "metadata": {"generateName": f"{about['name']}.", "namespace": about["namespace"]},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": about["namespace"],
            "name": about["name"],
            "uid": about["uid"],
            "resourceVersion": about["resourceVersion"],
        },
        "type": "Warning",
        "reason": refusal.reason,
        "message": refusal.message,
        "source": {"component": "kubelet", "host": node},
        "reportingComponent": "kubelet",
        "reportingInstance": node,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
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
