"""Frame: the state of one evaluation, with the two budgets that end it.

Cost is counted in cel-go's units, so that an expression fails where it fails upstream. Those units
do not always grow with the arguments, though (`in` on a dyn list costs 1), so the elements that an
evaluation touches are counted as well, whatever they cost.
"""

from __future__ import annotations

from typing import Any

from kscheduler.cel.errors import COST_LIMIT_EXCEEDED, AbortedError

# cel-go's units of cost: CELSelectorExpressionMaxCost of resource.k8s.io.
COST_LIMIT = 1_000_000
# About half a microsecond each, at worst.
ELEMENT_LIMIT = 2_000_000
# Bytes of text count as elements by 8, because they are copied and compared that much faster.
_TEXT_SHIFT = 3
# Texts and lists up to this size are covered by the cost of the call they are passed to.
_SHORT = 32


class Frame:
    """State of one evaluation: the device's fields, local variables, and what is spent so far."""

    __slots__ = ("cost", "device", "elements", "slots")

    def __init__(self, device: dict[str, Any], slots: int) -> None:
        self.device = device
        self.cost = 0
        self.elements = 0
        self.slots: list[Any] = [None] * slots

    def spend(self, cost: int) -> None:
        """Counts cost before it is incurred; raises AbortedError beyond the limit."""
        self.cost += cost
        if self.cost > COST_LIMIT:
            raise AbortedError(COST_LIMIT_EXCEEDED)

    def touch(self, elements: int) -> None:
        """Counts elements before they are visited; raises AbortedError beyond the limit."""
        self.elements += elements
        if self.elements > ELEMENT_LIMIT:
            raise AbortedError(COST_LIMIT_EXCEEDED)

    def touch_text(self, size: int) -> None:
        """Counts characters or bytes before they are written."""
        self.touch(size >> _TEXT_SHIFT)

    def touch_value(self, value: Any) -> None:
        """Counts an argument that is long enough to take time."""
        kind = type(value)
        if kind is str or kind is bytes:
            if len(value) > _SHORT:
                self.touch(len(value) >> _TEXT_SHIFT)
        elif (kind is list or kind is dict) and len(value) > _SHORT:
            self.touch(len(value))


def no_device() -> Frame:
    """A frame for what is worked out before there is a device: constants."""
    return Frame({}, 0)
