"""Allocator: devices for the claims of a pod.

Mirrors k8s.io/dynamic-resource-allocation/structured. Differs: it lives as long as the scheduler,
where upstream makes one for each pod, and answers for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from uuid import uuid4

import msgspec

from kscheduler.api.core import Node
from kscheduler.api.resource import AllocationResult, DeviceClass, ResourceClaim
from kscheduler.caches import BoundedCache
from kscheduler.dra.allocated import AllocatedDevices
from kscheduler.dra.errors import AllocationError
from kscheduler.dra.features import AllocatorFeatures
from kscheduler.dra.kinds import Kinds
from kscheduler.dra.pools import PoolState
from kscheduler.dra.results import Results
from kscheduler.dra.row_pools import RowPools
from kscheduler.dra.selectors import Expressions
from kscheduler.dra.shape import AllocationShape, ShapeCompiler
from kscheduler.dra.slices import SliceTracker
from kscheduler.dra.verdicts import DeviceCounts, Judge, ShapeVerdicts, Verdicts
from kscheduler.framework.listers import Listers
from kscheduler.framework.status import Mask
from kscheduler.state.nodes_view import Nodes

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"

MAX_SHAPE_BYTES = 16 << 20
# A shape takes some ten times the bytes of its encoding, and this much by node and by device type.
_SHAPE_EXPANSION = 10
_BYTES_PER_ROW = 8
_BYTES_PER_TYPE = 8

_encode = msgspec.msgpack.Encoder().encode


class Allocator:
    """Allocates devices: one per scheduler, shared by all profiles.

    `clock` counts seconds from anywhere; deadlines are readings of it.
    """

    def __init__(
        self,
        listers: Listers,
        allocated: AllocatedDevices,
        features: AllocatorFeatures,
        clock: Callable[[], float],
    ) -> None:
        self.allocated = allocated
        self.features = features
        self.slices = SliceTracker(listers, features)
        self.expressions = Expressions()
        self._rows = RowPools(self.slices, allocated, features)
        self._results = Results(features, new_share_id=lambda: str(uuid4()))
        self._judge = Judge(self._rows, allocated, features, self._results, clock)
        classes = listers.lister(DeviceClass)
        self._compiler = ShapeCompiler(classes, features)
        self._shapes: BoundedCache[bytes, ShapeVerdicts] = BoundedCache(
            "dra_shapes", MAX_SHAPE_BYTES
        )
        classes.add_handler(_ClassEvents(self._shapes))
        # What the numbers in known shapes go back to.
        self._types_as_of = 0
        self.caches = (self._shapes, *self.expressions.caches)

    def shape_of(self, claims: Sequence[ResourceClaim]) -> AllocationShape:
        """The shape of unallocated claims, the same object for equal specs."""
        devices = [claim.spec.devices for claim in claims]
        key = _encode([(one.requests, one.constraints) for one in devices])
        known = self._shapes.get(key)
        if known is None:
            known = self._new(self._compiler.compile(claims, key))
        return known.shape

    def verdicts(
        self,
        shape: AllocationShape,
        claims: Sequence[ResourceClaim],
        nodes: Nodes,
        within: Mask | None,
        deadline: float | None,
    ) -> Verdicts:
        """Whether the claims can be allocated, for every position of `nodes` that is `within`.

        A node that is not judged by the deadline gets upstream's text for that in `errors`.
        """
        return self._judge.verdicts(self._known(shape), claims, nodes, within, deadline)

    def inventories(
        self, shape: AllocationShape, nodes: Nodes, most: int
    ) -> Iterator[tuple[int, list[DeviceCounts]]]:
        """Devices on nodes that were judged, for whoever asks why; see `Judge.inventories`."""
        return self._judge.inventories(self._known(shape), nodes, most)

    def allocate(
        self, shape: AllocationShape, claims: Sequence[ResourceClaim], node: Node
    ) -> list[AllocationResult]:
        """One result per claim, from the first solution that upstream's search finds on the node.

        Raises AllocationError, with the text of the refusal if the claims do not fit (any more).
        """
        pools = self._rows.of_node(node)
        solution = self._judge.search(self._known(shape), claims, pools, node, deadline=None)
        if solution is None:
            invalid = any(pool.state is PoolState.INVALID for pool in pools)
            raise AllocationError(INVALID_POOLS if invalid else CANNOT_ALLOCATE)
        return self._results.of(shape, claims, node, solution)

    def _known(self, shape: AllocationShape) -> ShapeVerdicts:
        """The verdicts kept for a shape; empty ones if they were dropped in the meantime."""
        types = self.slices.types
        types.tidy()
        if types.renumbered != self._types_as_of:
            self._types_as_of = types.renumbered
            self._shapes.clear()
        known = self._shapes.get(shape.key)
        if known is None or known.shape is not shape:
            known = self._new(shape)
        return known

    def _new(self, shape: AllocationShape) -> ShapeVerdicts:
        new = ShapeVerdicts(shape, Kinds(shape, self.expressions, self.features))
        of_nodes = (
            _BYTES_PER_ROW * len(self._rows.by_row) + _BYTES_PER_TYPE * self.slices.types.numbers
        )
        self._shapes.put(shape.key, new, _SHAPE_EXPANSION * len(shape.key) + of_nodes)
        return new


class _ClassEvents:
    """Handler of DeviceClasses: shapes are compiled with the classes there are."""

    def __init__(self, shapes: BoundedCache[bytes, ShapeVerdicts]) -> None:
        self._shapes = shapes

    def on_add(self, item: DeviceClass, *, is_initial: bool) -> None:
        self._shapes.clear()

    def on_update(self, old: DeviceClass, new: DeviceClass) -> None:
        if old.spec != new.spec:
            self._shapes.clear()

    def on_delete(self, item: DeviceClass, *, final_state_unknown: bool) -> None:
        self._shapes.clear()
