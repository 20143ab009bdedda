"""NodeHeadroom: leaves a part of every node free, for schedulers that place pods on the same nodes.

Not a plugin of kube-scheduler, and in no profile that does not name it. Two schedulers that decide
at the same time do not see each other's latest pods; what this one leaves free is what the other
may take meanwhile without a kubelet having to refuse somebody. It is no quota: what counts is what
is left after the pod, whoever took the rest. A pod is judged by the resources it asks for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from kscheduler.api.field_errors import FieldError, Path, duplicate, invalid, required
from kscheduler.api.quantity import QuantityError, milli_value, value
from kscheduler.api.resource_names import CPU, PODS, is_counted
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.config.wire import Model
from kscheduler.framework.cluster_event import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    ClusterEvent,
    EventWithHint,
)
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.handle import Handle
from kscheduler.framework.status import Rejection, unresolvable, unschedulable
from kscheduler.plugins.helper import signers
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

Amounts = NDArray[np.int64]  # [nodes]

REASON = "node(s) would have too little headroom left: "
PERCENT = "%"


class Share(NamedTuple):
    """A share of what a node has."""

    percent: int


class KeptResource(Model):
    name: str = Field(default="", description="A resource, or `pods` for places of pods.")
    keep: str = Field(
        default="",
        description="What is left free of it: a share of the node's allocatable (`10%`) or an "
        'amount (`500m`, `1Gi`, `"2"`).',
    )

    def errors(self, path: Path) -> Iterator[FieldError]:
        if not is_counted(self.name):
            yield invalid(path / "name", self.name, "must be a resource that scheduling counts")
            return
        try:
            kept = kept_of(self.name, self.keep)
        except QuantityError as error:
            detail = f"must be a share like 10% or an amount like 1Gi: {error}"
            yield invalid(path / "keep", self.keep, detail)
            return
        if isinstance(kept, Share) and not 0 <= kept.percent < 100:
            yield invalid(path / "keep", self.keep, "not in valid range [0%, 100%)")
        elif not isinstance(kept, Share) and kept < 0:
            yield invalid(path / "keep", self.keep, "must not be negative")


class NodeHeadroomArgs(PluginArgs):
    resources: tuple[KeptResource, ...] = Field(
        default=(), description="What pods of the profile leave free on every node."
    )

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        where = path / "resources"
        if not self.resources:
            yield required(where, "at least one resource must be named")
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            if resource.name in seen:
                yield duplicate(where[i] / "name", resource.name)
            seen.add(resource.name)
            yield from resource.errors(where[i])


def kept_of(resource: str, text: str) -> Share | int:
    """Headroom that `keep` asks for: a share, or an amount in the units that columns have."""
    if text.endswith(PERCENT):
        number = text.removesuffix(PERCENT)
        if not number.isdecimal():
            raise QuantityError(f"{text} is no whole number of percents")
        return Share(int(number))
    return milli_value(text) if resource == CPU else value(text)


@plugin(args=NodeHeadroomArgs, by_default=False)
class NodeHeadroom:
    name = "NodeHeadroom"
    local = True

    def __init__(self, args: NodeHeadroomArgs, handle: Handle) -> None:
        self._kept = [(one.name, kept_of(one.name, one.keep)) for one in args.resources]

    def filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Iterator[Rejection]:
        """Costs a few array operations per kept resource that the pod asks for."""
        for name, kept in self._kept:
            wanted = 1 if name == PODS else pod.spec_requests.get(name, 0)
            if wanted <= 0:
                continue
            capacity, used = nodes.max_pods, nodes.pod_count
            if name != PODS:
                column = nodes.resources.get(name)
                if column is None:
                    # No node has any: NodeResourcesFit says so.
                    continue
                capacity, used = nodes.allocatable[:, column], nodes.requested[:, column]
            keep: Amounts | int
            if isinstance(kept, Share):
                # In two parts, lest amounts near 2^63 run over.
                keep = capacity // 100 * kept.percent + capacity % 100 * kept.percent // 100
            else:
                keep = kept
            never = capacity - wanted < keep
            short = capacity - used - wanted < keep
            yield unschedulable(short & ~never, REASON + name)
            yield unresolvable(never, REASON + name)

    def events_to_register(self) -> Sequence[EventWithHint]:
        return [
            EventWithHint(ClusterEvent(ASSIGNED_POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)),
            EventWithHint(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)),
            EventWithHint(ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCALE_DOWN)),
        ]

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        return signers.requests(pod)
