"""Pods as questions to the scheduler: as if they were created now, or limited to one node; names of
nodes that would be added; and the reasons in what it answered.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

Manifest = dict[str, Any]

# Parts of a pod's metadata that matter to a decision.
METADATA = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences")
# kubectl writes the whole manifest to this annotation.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# Changes of a pod that would take away the wish for the node that it was limited to.
OF_THE_WISH = ("without its node selector", "without its node affinity")

_REASONS = re.compile(r"^0/\d+ nodes are available: (.*?)\.?(?: preemption: .*)?$", re.DOTALL)
_NEXT_REASON = re.compile(r", (?=\d+ )")


def fresh(pod: Mapping[str, Any]) -> Manifest:
    """The pod as if it were created now: without a node and a status."""
    metadata, spec = pod.get("metadata") or {}, dict(pod.get("spec") or {})
    spec.pop("nodeName", None)
    kept = {name: metadata[name] for name in METADATA if metadata.get(name)}
    if LAST_APPLIED in (kept.get("annotations") or {}):
        kept["annotations"] = {
            key: value for key, value in kept["annotations"].items() if key != LAST_APPLIED
        }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": spec}


def limited_to(pod: Manifest, node: str) -> Manifest:
    """The pod with the further wish to be on this node, as DaemonSets express it: other nodes are
    then not looked at, and numbers are those of this one.
    """
    pod = copy.deepcopy(pod)
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    # Terms are alternatives, so each of them gets the wish.
    terms = required.get("nodeSelectorTerms") or [{}]
    wish = {"key": "metadata.name", "operator": "In", "values": [node]}
    required["nodeSelectorTerms"] = [
        term | {"matchFields": [*(term.get("matchFields") or ()), wish]} for term in terms
    ]
    return pod


def stem_like(node: str) -> str:
    """The beginning of the names of nodes that are added like this one."""
    return f"{node}-new"


def numbered_names(stem: str, taken: Container[str]) -> Iterator[str]:
    """Names for nodes that are added, without end: those that are taken are passed over."""
    names = (f"{stem}-{number}" for number in itertools.count())
    return (name for name in names if name not in taken)


def reasons_in(message: str) -> list[str]:
    """Reasons of a condition's message, without the numbers of nodes; or the message itself."""
    found = _REASONS.match(message)
    if found is None:
        return [message] if message else []
    texts = [one.strip().rstrip(".") for one in _NEXT_REASON.split(found[1])]
    return [text.partition(" ")[2] if text[:1].isdigit() else text for text in texts]
