"""Conditions in a pod's status: one of each type, each with the time of its last change."""

from msgspec import structs

from kscheduler.api.core import PodCondition

Conditions = tuple[PodCondition, ...]


def with_condition(conditions: Conditions, condition: PodCondition) -> Conditions:
    """A condition of the same type is replaced in its place; its clock restarts only if the status
    changed. If there is nothing to tell, these are the very same conditions.
    """
    for position, before in enumerate(conditions):
        if before.type == condition.type:
            if before.status == condition.status:
                since = before.last_transition_time
                condition = structs.replace(condition, last_transition_time=since)
            if _same(before, condition):
                return conditions
            return (*conditions[:position], condition, *conditions[position + 1 :])
    return (*conditions, condition)


def _same(before: PodCondition, after: PodCondition) -> bool:
    """A new generation alone is not worth a write."""
    return structs.replace(after, observed_generation=before.observed_generation) == before
