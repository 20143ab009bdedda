"""The answer to a review in one sentence, as a colleague would say it."""

from __future__ import annotations

import msgspec
import numpy as np

from kscheduler.api.amounts import at_least
from kscheduler.cycle.attempt import Attempt, Failed, Unschedulable
from kscheduler.framework.status import Rows
from kscheduler.plugins.dynamic_resources.plugin import CANNOT_ALLOCATE
from kscheduler.plugins.node_affinity.plugin import REASON_ENFORCED
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

INSUFFICIENT = "Insufficient "
# Reasons that the sentence has; a pod may ask for thousands of resources.
MAX_REASONS = 8

# By plugin, or by reason where a plugin has several: what one node is like, and what several are.
_SAID = {
    "Too many pods": ("has no place for another pod", "have no place for another pod"),
    "TaintToleration": ("has a taint the pod does not tolerate",) * 2,
    "NodeUnschedulable": ("is cordoned", "are cordoned"),
    "NodeAffinity": ("does not match its node selector or affinity",) * 2,
    REASON_ENFORCED: ("does not match the affinity that the configuration adds",) * 2,
    "NodePorts": ("has its host port in use", "have its host port in use"),
    CANNOT_ALLOCATE: ("lacks devices it asks for", "lack devices it asks for"),
    "PodTopologySpread": ("would break its topology spread",) * 2,
    "InterPodAffinity": ("does not suit the affinity of pods",) * 2,
}
# In place of reasons that the asker may not be told.
HIDDEN = "to be told why takes the right to get pods in their namespaces"
_PLURAL = {"has ": "have ", "does ": "do "}


class Tally(msgspec.Struct):
    """Counts that the sentence is made of."""

    total: int
    placed: int = 0
    nodes: int = 0
    # Why the first pod does not fit that does not.
    obstacle: str = ""
    untried: int = 0
    evicted: int = 0
    homeless: int = 0  # evicted pods that fit nowhere else


def sentence(tally: Tally) -> str:
    placed, total = tally.placed, tally.total
    nodes = "1 node" if tally.nodes == 1 else f"{tally.nodes:,} nodes"
    evicted = ""
    if tally.evicted:
        evicted = f", if {_pods(tally.evicted)} {'is' if tally.evicted == 1 else 'are'} evicted"
        if tally.homeless:
            does = "does" if tally.homeless == 1 else "do"
            which = "which" if tally.evicted == 1 else f"{tally.homeless:,} of which"
            if tally.homeless == tally.evicted > 1:
                evicted += ", none of which fits anywhere else"
            else:
                evicted += f", {which} {does} not fit anywhere else"
    if placed == total:
        if total == 0:
            return "There is no pod to place."
        fit = "It fits" if total == 1 else f"{'Both' if total == 2 else f'All {total:,}'} fit"
        return f"{fit}, on {nodes}{evicted}."
    others = total - placed - tally.untried
    were = "was" if tally.untried == 1 else "were"
    untried = f"{tally.untried:,} {were} not tried" if tally.untried else ""
    if not others:
        return f"{placed:,} of {total:,} fit{evicted}; the other {untried}."
    if total == 1:
        return f"It does not fit: {tally.obstacle}."
    if placed:
        fit = f"{placed:,} of {total:,} fit{evicted}; the other"
        text = f"{fit} does not" if others == 1 else f"{fit} {others:,} do not"
    else:
        text = f"None of {total:,} fits" if not untried else f"{others:,} of {total:,} do not fit"
    return f"{text}: {tally.obstacle}{f'; {untried}' if untried else ''}."


def obstacle(attempt: Attempt, outcome: Unschedulable | Failed, *, node_names: bool = True) -> str:
    """Why the pod fits nowhere: most nodes first, as part of a sentence."""
    if isinstance(outcome, Failed):
        return outcome.status.message
    diagnosis, nodes = outcome.diagnosis, attempt.nodes
    if diagnosis.pre_filter_message:
        return diagnosis.pre_filter_message
    rows_of: dict[tuple[str, str], list[Rows]] = {}
    for charge in diagnosis.charges:
        said = charge.reason if charge.reason in _SAID else charge.plugin
        if charge.reason.startswith(INSUFFICIENT) or said not in _SAID:
            said = charge.reason
        rows_of.setdefault((charge.plugin, said), []).append(charge.rows)
    found = []
    for (_, said), rows in rows_of.items():
        distinct = np.unique(np.concatenate(rows))
        found.append((said, distinct))
    left = outcome.num_nodes - len(diagnosis.charged_rows)
    found.sort(key=lambda one: -len(one[1]))
    parts = [
        _part(said, rows, attempt.pod, nodes, is_first=number == 0, node_names=node_names)
        for number, (said, rows) in enumerate(found[:MAX_REASONS])
    ]
    if others := len(found) - len(parts):
        parts.append(f"{others:,} more reason{'s' if others > 1 else ''}")
    if left and diagnosis.absent.reasons:
        parts.append(f"{left:,} {diagnosis.absent.message}")
    return ", ".join(parts)


def _part(
    said: str, rows: Rows, pod: PodInfo, nodes: Nodes, *, is_first: bool, node_names: bool
) -> str:
    count = len(rows)
    noun = f"{count:,}{(' node' if count == 1 else ' nodes') if is_first else ''}"
    if said.startswith(INSUFFICIENT):
        resource = said.removeprefix(INSUFFICIENT)
        text = f"{noun} {'lacks' if count == 1 else 'lack'} {resource}"
        return text + _least_short(resource, rows, pod, nodes) if node_names else text
    if said not in _SAID:
        if said.startswith("node(s) "):
            return f"{count:,} {said}"
        return f"{count:,} {'node' if count == 1 else 'nodes'}: {said}"
    one, many = _SAID[said]
    if count > 1:
        for singular, plural in _PLURAL.items():
            if many.startswith(singular):
                many = plural + many.removeprefix(singular)
    return f"{noun} {one if count == 1 else many}"


def _least_short(resource: str, rows: Rows, pod: PodInfo, nodes: Nodes) -> str:
    column = nodes.resources.get(resource)
    asked = pod.spec_requests.get(resource, 0)
    if column is None or not asked:
        return ""
    short = asked - (nodes.allocatable[rows, column] - nodes.requested[rows, column])
    least = int(short.argmin())
    where = nodes.names[int(rows[least])]
    return f" (least short by {at_least(resource, int(short[least]))} on {where})"


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count:,} pods"
