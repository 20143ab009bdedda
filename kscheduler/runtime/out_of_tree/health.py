"""Health of out-of-tree plugins: faults counted, readiness, and taking out a plugin that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import NamedTuple

import msgspec

from kscheduler import logs
from kscheduler.api.core import Pod
from kscheduler.errors import KschedulerError
from kscheduler.metrics import Metrics

log = logs.logger(__name__)

# Failures in a row at one extension point after which readiness names the plugin.
KEEPS_FAILING = 3


class Fault(StrEnum):
    """Kinds of faults, as the metric's label names them."""

    EXCEPTION = "exception"
    TIMEOUT = "timeout"
    ANSWER = "answer"
    SCORE = "score"
    MUTATION = "mutation"


class PluginFault(KschedulerError):  # noqa: N818 - its text is shown as it is
    """A call that did not go as the contract has it; the text says what was wrong."""

    def __init__(self, fault: Fault, text: str) -> None:
        super().__init__(text)
        self.fault = fault


class Limits(msgspec.Struct, frozen=True):
    """Limits on what out-of-tree plugins may cost.

    `call_seconds` bounds a call that cannot wait (0: no bound), `wait_seconds` one that may. After
    `max_failures` in a row at an extension point a plugin is taken out of its profile; 0 is never.
    """

    call_seconds: float = 5.0
    wait_seconds: float = 600.0
    max_failures: int = 0


class FaultReport(NamedTuple):
    """A fault in a call about one pod."""

    plugin: str
    point: str
    fault: Fault
    text: str


# Hears of faults, by pod.
FaultListener = Callable[[Pod, FaultReport], None]


class PluginHealth:
    """One plugin of one profile."""

    def __init__(self, plugin: str, profile: str, limits: Limits, metrics: Metrics) -> None:
        self.plugin = plugin
        self.profile = profile
        self.taken_out = False
        self.on_fault: FaultListener | None = None
        # Of all kinds, ever.
        self.fault_count = 0
        self._max_failures = limits.max_failures
        self._faults = metrics.kscheduler_plugin_faults_total
        self._out = metrics.kscheduler_plugin_taken_out.labels(plugin, profile)
        self._out.set(0)
        # Failures since the last success, by extension point; points without any are not there.
        self._in_a_row: dict[str, int] = {}

    def failed(self, point: str, fault: Fault, text: str, pod: Pod | None = None) -> bool:
        """True if that was the one failure too many."""
        self.fault_count += 1
        self._tell(pod, point, fault, text)
        self._faults.labels(self.plugin, point, self.profile, fault.value).inc()
        count = self._in_a_row[point] = self._in_a_row.get(point, 0) + 1
        if self.taken_out or not self._max_failures or count < self._max_failures:
            return False
        self.taken_out = True
        self._out.set(1)
        log.error(text, "Plugin taken out of its profile", plugin=self.plugin, profile=self.profile)
        return True

    def was_not_called(
        self, point: str, fault: Fault, text: str = "", pod: Pod | None = None
    ) -> None:
        """A pod that failed for what the plugin did before; that was one failure and no other."""
        self.fault_count += 1
        self._tell(pod, point, fault, text)
        self._faults.labels(self.plugin, point, self.profile, fault.value).inc()

    def _tell(self, pod: Pod | None, point: str, fault: Fault, text: str) -> None:
        if self.on_fault is not None and pod is not None:
            self.on_fault(pod, FaultReport(self.plugin, point, fault, text))

    @property
    def has_failed(self) -> bool:
        """Somewhere, and not succeeded there since."""
        return bool(self._in_a_row)

    def succeeded(self, point: str) -> None:
        if self._in_a_row:
            self._in_a_row.pop(point, None)

    @property
    def trouble(self) -> str | None:
        """One sentence, if the plugin keeps failing."""
        if self.taken_out:
            return f"{self.plugin} was taken out of profile {self.profile}"
        point, count = max(self._in_a_row.items(), key=lambda entry: entry[1], default=("", 0))
        if count < KEEPS_FAILING:
            return None
        return f"{self.plugin} failed {count} times in a row at {point} in profile {self.profile}"


class HealthBoard:
    """All out-of-tree plugins of one scheduler."""

    def __init__(self) -> None:
        self._plugins: list[PluginHealth] = []
        self._on_fault: FaultListener | None = None

    def add(self, health: PluginHealth) -> None:
        self._plugins.append(health)
        health.on_fault = self._on_fault

    def listen(self, listener: FaultListener) -> None:
        """Has the listener told of faults of all plugins, those to come included."""
        self._on_fault = listener
        for health in self._plugins:
            health.on_fault = listener

    def __len__(self) -> int:
        return len(self._plugins)

    def __iter__(self) -> Iterator[PluginHealth]:
        return iter(self._plugins)

    def troubles(self) -> str:
        """Plugins that keep failing, one sentence each; the reasons are in the log."""
        return "; ".join(text for one in self._plugins if (text := one.trouble) is not None)
