"""Plugins of kube-scheduler that configuration accepts and that are not built yet.

Pods are placed as if these did not exist, and the daemon says so at start. Collections that one of
them reads are watched all the same, as kube-scheduler would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Self

from kscheduler.api.field_errors import FieldError, Path, forbidden, invalid
from kscheduler.api.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.config.wire import OMIT_EMPTY
from kscheduler.extension_points import Point
from kscheduler.framework.declaration import Declaration
from kscheduler.gotext.duration import Duration


class DynamicResourcesArgs(PluginArgs):
    wrong_type: ClassVar[str] = "got args of type {got}, want *{want}"

    filter_timeout: Duration | None = None
    binding_timeout: Annotated[Duration | None, OMIT_EMPTY] = None

    def with_defaults(self, gates: Gates) -> Self:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
            filter_timeout = Duration.of(10)
        if binding_timeout is None and _binding_conditions(gates):
            binding_timeout = Duration.of(600)
        return self.model_copy(
            update={"filter_timeout": filter_timeout, "binding_timeout": binding_timeout}
        )

    def errors(self, path: Path, gates: Gates) -> Iterator[FieldError]:
        filtering, binding = self.filter_timeout, self.binding_timeout
        if filtering is not None:
            if not gates.enabled("DRASchedulerFilterTimeout"):
                detail = "DRASchedulingFilterTimeout feature gate is disabled"
                yield forbidden(path / "filterTimeout", detail)
            elif filtering < 0:
                yield invalid(path / "filterTimeout", filtering, "must be zero or positive")
        if binding is not None:
            if not _binding_conditions(gates):
                detail = (
                    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
                    "feature gate is disabled"
                )
                yield forbidden(path / "bindingTimeout", detail)
            elif binding < Duration.of(1):
                yield invalid(path / "bindingTimeout", binding, "must be at least 1 second")


def _binding_conditions(gates: Gates) -> bool:
    """Whether devices may have conditions that PreBind waits for."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled(
        "DRAResourceClaimDeviceStatus"
    )


DYNAMIC_RESOURCES = Declaration(
    name="DynamicResources",
    points=frozenset(
        {
            Point.PRE_ENQUEUE,
            Point.PRE_FILTER,
            Point.FILTER,
            Point.POST_FILTER,
            Point.POD_GROUP_POST_FILTER,
            Point.SCORE,
            Point.RESERVE,
            Point.PRE_BIND,
        }
    ),
    signs=True,
    args=DynamicResourcesArgs,
    reads=(RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, DEVICE_TAINT_RULES),
    gate="DynamicResourceAllocation",
    weight=2,
    missing="resource claims are not looked at",
)

DEFERRED_POD_SCHEDULING = Declaration(
    name="DeferredPodScheduling",
    points=frozenset({Point.PRE_FILTER, Point.FILTER, Point.PERMIT}),
    signs=False,
    gate="InPlacePodVerticalScalingSchedulerPreemption",
    missing="deferred resizes are not scheduled",
)

_PER_POD = "pod groups are scheduled pod by pod"

GANG_SCHEDULING = Declaration(
    name="GangScheduling",
    points=frozenset({Point.PRE_ENQUEUE, Point.PERMIT}),
    signs=True,
    gate="GenericWorkload",
    missing=_PER_POD,
)

TOPOLOGY_PLACEMENT_GENERATOR = Declaration(
    name="TopologyPlacementGenerator",
    points=frozenset({Point.PLACEMENT_GENERATE}),
    signs=True,
    gate="TopologyAwareWorkloadScheduling",
    missing=_PER_POD,
)

POD_GROUP_PODS_COUNT = Declaration(
    name="PodGroupPodsCount",
    points=frozenset({Point.PLACEMENT_SCORE}),
    signs=True,
    gate="TopologyAwareWorkloadScheduling",
    weight=1,
    missing=_PER_POD,
)
