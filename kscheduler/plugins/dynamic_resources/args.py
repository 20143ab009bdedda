"""DynamicResourcesArgs: how long a search for devices, and waiting for a device, may take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Self

from kscheduler.api.field_errors import FieldError, Path, forbidden, invalid
from kscheduler.config.plugin_args import Gates, PluginArgs
from kscheduler.config.wire import OMIT_EMPTY
from kscheduler.gotext.duration import Duration

DEFAULT_FILTER_TIMEOUT = Duration.of(10)
DEFAULT_BINDING_TIMEOUT = Duration.of(600)


class DynamicResourcesArgs(PluginArgs):
    wrong_type: ClassVar[str] = "got args of type {got}, want *{want}"

    filter_timeout: Duration | None = None
    binding_timeout: Annotated[Duration | None, OMIT_EMPTY] = None

    def with_defaults(self, gates: Gates) -> Self:
        filter_timeout, binding_timeout = self.filter_timeout, self.binding_timeout
        if filter_timeout is None and gates.enabled("DRASchedulerFilterTimeout"):
            filter_timeout = DEFAULT_FILTER_TIMEOUT
        if binding_timeout is None and has_binding_conditions(gates):
            binding_timeout = DEFAULT_BINDING_TIMEOUT
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
            if not has_binding_conditions(gates):
                detail = (
                    "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus "
                    "feature gate is disabled"
                )
                yield forbidden(path / "bindingTimeout", detail)
            elif binding < Duration.of(1):
                yield invalid(path / "bindingTimeout", binding, "must be at least 1 second")


def has_binding_conditions(gates: Gates) -> bool:
    """Whether devices may have conditions that PreBind waits for."""
    return gates.enabled("DRADeviceBindingConditions") and gates.enabled(
        "DRAResourceClaimDeviceStatus"
    )
