"""Where code stands: frames of running and of waiting code, outermost last."""

from __future__ import annotations

import asyncio
from types import CodeType, FrameType
from typing import Any, NamedTuple

# Deeper stacks lose their outer end.
MAX_DEPTH = 128


class Place(NamedTuple):
    """A line of a function."""

    function: str
    file: str
    first_line: int
    line: int

    def __str__(self) -> str:
        return f"{self.function} {self.file}:{self.line}"


Stack = tuple[Place, ...]


def place(code: CodeType, line: int | None) -> Place:
    return Place(code.co_qualname, code.co_filename, code.co_firstlineno, line or 0)


def stack_of(frame: FrameType | None) -> Stack:
    """The frame and its callers."""
    places: list[Place] = []
    while frame is not None and len(places) < MAX_DEPTH:
        places.append(place(frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(places)


def stack_of_task(task: asyncio.Task[Any]) -> Stack:
    """What a task waits in, innermost first."""
    places: list[Place] = []
    waiting: Any = task.get_coro()
    while waiting is not None and len(places) < MAX_DEPTH:
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is not None:
            places.append(place(frame.f_code, frame.f_lineno))
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return tuple(reversed(places))
