"""Keys of a QueueSort plugin from outside, which must not break the queue whatever they are."""

from __future__ import annotations

from typing import Any


class FallbackKey:
    """The plugin's key; where two of them cannot be compared, the pod that came first is first."""

    __slots__ = ("key", "timestamp")

    def __init__(self, key: Any, timestamp: float) -> None:
        self.key = key
        self.timestamp = timestamp

    def __lt__(self, other: FallbackKey) -> bool:
        try:
            return bool(self.key < other.key)
        except Exception:
            return self.timestamp < other.timestamp

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FallbackKey):
            return NotImplemented
        try:
            return bool(self.key == other.key)
        except Exception:
            return self.timestamp == other.timestamp

    __hash__ = None  # type: ignore[assignment]
