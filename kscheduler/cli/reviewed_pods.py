"""Manifests as pods of a PlacementReview: pods of the cluster, of files, and of workloads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kscheduler.api.pod_questions import fresh
from kscheduler.cli.asking import Failure
from kscheduler.cli.manifests import Manifest, title

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job", "CronJob")
PLACEABLE = ("Pod", *WORKLOADS)


class ReviewedPod(msgspec.Struct, frozen=True):
    """A pod, how often it is to be placed, and what is left out of account."""

    manifest: Manifest
    replicas: int = 1
    note: str = ""


def pods_of(
    manifests: Sequence[Manifest], replicas: int | None
) -> tuple[list[ReviewedPod], list[str]]:
    """Pods, and templates of workloads as many times as they say, or as `replicas` says; and a
    sentence for each kind of objects beside them that is left out.
    """
    found = [_pod_of(one) for one in manifests if one["kind"] in PLACEABLE]
    daemons = [title(one) for one in manifests if one["kind"] == "DaemonSet"]
    others = [title(one) for one in manifests if one["kind"] not in (*PLACEABLE, "DaemonSet")]
    if daemons and not found:
        raise Failure(
            f"{', '.join(daemons)}: a DaemonSet has a pod on each node that its template suits, so "
            "there is no number of replicas to place; make a Pod of its template to ask about it."
        )
    if others and not found:
        raise Failure(
            f"{', '.join(others)}: only pods can be placed: those of a Pod, "
            f"{', '.join(WORKLOADS)}, or of a PlacementReview."
        )
    left_out = []
    if daemons:
        left_out.append(f"Left out, as it has no number of replicas: {', '.join(daemons)}.")
    if others:
        left_out.append(f"Left out, as it has no pods to place: {', '.join(others)}.")
    if replicas is not None:
        found = [msgspec.structs.replace(one, replicas=replicas) for one in found]
    return found, left_out


def _pod_of(manifest: Manifest) -> ReviewedPod:
    kind, spec = manifest["kind"], manifest.get("spec") or {}
    if kind == "Pod":
        return ReviewedPod(fresh(manifest))
    count = spec.get("replicas")
    if kind == "CronJob":
        spec = _part(manifest, spec, "jobTemplate", "spec")
    if kind in ("Job", "CronJob"):
        count = spec.get("parallelism")
        if isinstance(count, int) and isinstance(spec.get("completions"), int):
            count = min(count, spec["completions"])
    count = 1 if count is None else count
    if not isinstance(count, int) or count < 0:
        raise Failure(f'{title(manifest)}: the number of its pods is not one: "{count}".')
    template = _part(manifest, spec, "template")
    about, metadata = manifest.get("metadata") or {}, dict(template.get("metadata") or {})
    metadata["name"] = about.get("name", "pod")
    if about.get("namespace"):
        metadata["namespace"] = about["namespace"]
    pod = fresh({"metadata": metadata, "spec": _part(manifest, template, "spec")})
    note = _without_claims(pod, spec.get("volumeClaimTemplates") or ())
    return ReviewedPod(pod, count, f"{title(manifest)}: {note}" if note else "")


def _part(manifest: Manifest, of: Manifest, *names: str) -> Manifest:
    """A mapping inside of a workload's spec."""
    for name in names:
        found = of.get(name)
        if not isinstance(found, dict):
            raise Failure(f"{title(manifest)}: it has no {name} to make a pod of.")
        of = found
    return of


def _without_claims(pod: Manifest, templates: Iterable[Any]) -> str:
    """Takes volumes out whose claims would be made with the pod: there are none to look at yet."""
    names = {(one.get("metadata") or {}).get("name") for one in templates if isinstance(one, dict)}
    if not names:
        return ""
    volumes = pod["spec"].get("volumes") or []
    pod["spec"]["volumes"] = [one for one in volumes if one.get("name") not in names]
    return "volumes of its volumeClaimTemplates are left out of account."
