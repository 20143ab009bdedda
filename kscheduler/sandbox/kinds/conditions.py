"""Conditions of a status: one per type, with the moment it last changed."""

from __future__ import annotations

from typing import Any

from kscheduler.sandbox.metadata import now


def find_condition(state: dict[str, Any], kind: str) -> dict[str, Any] | None:
    return next((one for one in state.get("conditions") or () if one["type"] == kind), None)


def set_condition(
    state: dict[str, Any], kind: str, value: str, *, reason: str = "", message: str = ""
) -> None:
    """Set a pod condition; the transition time moves only when the value does."""
    before = find_condition(state, kind)
    moved = before is None or before["status"] != value
    condition: dict[str, Any] = {
        "type": kind,
        "status": value,
        "lastProbeTime": None,
        "lastTransitionTime": now() if moved or before is None else before["lastTransitionTime"],
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    conditions = state.setdefault("conditions", [])
    if before is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(before)] = condition
