"""What the app provides for plugins from outside, beyond what in-tree plugins get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kscheduler.api.resources import Resource
from kscheduler.framework.listers import FixedLister, Lister
from kscheduler.runtime.background import Background
from kscheduler.runtime.out_of_tree.health import HealthBoard, Limits
from kscheduler.runtime.out_of_tree.watchdog import Watchdog

# Their work may wait for long, and must not make evictions wait.
AT_ONCE = 4096

# (resource, namespace, field selector, label selector)
Follow = Callable[[Resource, str, str, str], Lister[Any]]


def follow_nothing(resource: Resource, namespace: str, fields: str, labels: str) -> Lister[Any]:
    return FixedLister({})


@dataclass(slots=True)
class Support:
    """Shared by all profiles of a scheduler."""

    limits: Limits = field(default_factory=Limits)
    watchdog: Watchdog = field(default_factory=Watchdog)
    health: HealthBoard = field(default_factory=HealthBoard)
    background: Background = field(default_factory=lambda: Background(AT_ONCE))
    follow: Follow = follow_nothing
