"""policy/v1: budgets that preemption tries not to break."""

from collections.abc import Mapping

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, IntOrString, LabelSelector


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str | None] = EMPTY
    observed_generation: int = 0


class PodDisruptionBudget(ApiObject):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
