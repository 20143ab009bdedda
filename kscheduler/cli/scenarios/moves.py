"""Moves: what a user does to a sandbox by kubectl, done by a key of the board or by a scenario.

Each is one change of an object in the sandbox's API server, so that kubectl, controllers and the
scheduler see the same. StatusError if the server refuses it.
"""

from __future__ import annotations

from typing import Any

from kscheduler.rest.status import StatusError
from kscheduler.sandbox import Objects
from kscheduler.sandbox.kubelets.kubelet import KUBELET_ANNOTATION

Json = dict[str, Any]

DEPLOYMENTS = "deployments.apps"
NOT_FOUND = 404


def toggle_kubelet(objects: Objects, node: str) -> bool:
    """Stop the kubelet of a node, or start it again; says whether it runs now."""
    runs = is_stopped(objects, node)
    set_kubelet(objects, node, runs=runs)
    return runs


def set_kubelet(objects: Objects, node: str, *, runs: bool) -> None:
    def change(item: Json) -> None:
        annotations = item["metadata"].setdefault("annotations", {})
        if runs:
            annotations.pop(KUBELET_ANNOTATION, None)
        else:
            annotations[KUBELET_ANNOTATION] = "stopped"

    objects.update("nodes", node, change)


def is_stopped(objects: Objects, node: str) -> bool:
    annotations = objects.get("nodes", node)["metadata"].get("annotations") or {}
    return annotations.get(KUBELET_ANNOTATION) == "stopped"


def toggle_cordon(objects: Objects, node: str) -> bool:
    """Cordon a node, or uncordon it; says whether it is cordoned now."""
    cordoned = False

    def change(item: Json) -> None:
        nonlocal cordoned
        cordoned = not item["spec"].get("unschedulable")
        if cordoned:
            item["spec"]["unschedulable"] = True
        else:
            item["spec"].pop("unschedulable", None)

    objects.update("nodes", node, change)
    return cordoned


def set_label(objects: Objects, node: str, key: str, value: str | None) -> None:
    """Label a node, or take the label away with None."""

    def change(item: Json) -> None:
        labels = item["metadata"].setdefault("labels", {})
        if value is None:
            labels.pop(key, None)
        else:
            labels[key] = value

    objects.update("nodes", node, change)


def scale(objects: Objects, deployment: str, replicas: int) -> None:
    def change(item: Json) -> None:
        item["spec"]["replicas"] = replicas

    objects.update(DEPLOYMENTS, deployment, change)


def replicas_of(objects: Objects, deployment: str) -> int:
    """How many pods a Deployment is to have; 0 if there is none."""
    found = objects.find(DEPLOYMENTS, deployment)
    return 0 if found is None else int(found["spec"].get("replicas", 1))


def scale_by(objects: Objects, manifest: Json, change: int) -> int:
    """Give a Deployment more or fewer pods; made if it is not there, deleted when none is left.

    Returns how many it has now.
    """
    name = manifest["metadata"]["name"]
    before = replicas_of(objects, name)
    after = max(0, before + change)
    if objects.find(DEPLOYMENTS, name) is None:
        if after:
            objects.create({**manifest, "spec": {**manifest["spec"], "replicas": after}})
    elif after:
        scale(objects, name, after)
    else:
        delete(objects, DEPLOYMENTS, name)
    return after


def delete(objects: Objects, resource: str, name: str) -> None:
    """Delete an object, unless somebody else has done so."""
    try:
        objects.delete(resource, name)
    except StatusError as error:
        if error.code != NOT_FOUND:
            raise
