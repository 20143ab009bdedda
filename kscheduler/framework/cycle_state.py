"""CycleState: memory of the plugins between the extension points of one attempt, keyed by type.

    cycle.put(FitRequest(...))     # in pre_filter
    cycle[FitRequest].cpu          # in filter

A value that changes under add_pod/remove_pod offers `clone()`; others are shared by clones.
"""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


class CycleState:
    """Memory of one attempt.

    The skip sets hold names of plugins that said Skip in PreFilter, PreScore and PreBindPreFlight;
    `parallel_pre_bind` holds those that may run beside their neighbours in PreBind.
    """

    __slots__ = (
        "_values",
        "parallel_pre_bind",
        "pods_to_activate",
        "sampled",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self, *, sampled: bool = False) -> None:
        self._values: dict[type, Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        self.parallel_pre_bind: set[str] = set()
        self.pods_to_activate: dict[str, Any] = {}
        # Whether the duration of each plugin call is recorded in this attempt.
        self.sampled = sampled

    def put(self, value: object) -> None:
        """Keeps a value for the rest of the attempt, in place of another of its type."""
        self._values[type(value)] = value

    def __getitem__(self, kind: type[T]) -> T:
        found: T = self._values[kind]
        return found

    def get(self, kind: type[T]) -> T | None:
        """The value of this type; None if there is none."""
        return self._values.get(kind)

    def clone(self) -> CycleState:
        """A copy for a what-if: clonable values are cloned, the pods to activate are shared."""
        copy = CycleState(sampled=False)
        copy._values = {
            kind: value.clone() if hasattr(value, "clone") else value
            for kind, value in self._values.items()
        }
        copy.skip_filter = set(self.skip_filter)
        copy.skip_score = set(self.skip_score)
        copy.skip_pre_bind = set(self.skip_pre_bind)
        copy.parallel_pre_bind = set(self.parallel_pre_bind)
        copy.pods_to_activate = self.pods_to_activate
        return copy
