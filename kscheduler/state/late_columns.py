"""Columns of a what-if that are worked out when somebody asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from kscheduler.state.occupancy import Occupancy

WorkedOutBy = Mapping[str, Callable[[Any], object]]


class LateColumns(Occupancy):
    """`worked_out_by` names those columns; each is kept until it is forgotten."""

    worked_out_by: ClassVar[WorkedOutBy]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Called for a column that nobody asked for yet."""
            work_out = type(self).worked_out_by.get(name)
            if work_out is None:
                raise AttributeError(name)
            column = self.__dict__[name] = work_out(self)
            return column

    def _forget_late_columns(self) -> None:
        for outdated in self.worked_out_by:
            self.__dict__.pop(outdated, None)
