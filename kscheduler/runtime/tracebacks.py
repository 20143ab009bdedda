"""Failures of plugins as the log tells them: the author's part of the traceback, once per place.

A plugin that fails does so for every pod that asks it, a thousand times in a minute. The first
failure at a place has the traceback, without the scheduler's own frames that led to the plugin;
further ones there are counted, and told when their number has one digit more.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from kscheduler.errors import KschedulerError

OWN_FOLDER = f"{Path(__file__).parents[1]}{os.sep}"
# Frames of a traceback that are shown: the innermost.
MAX_FRAMES = 20
# Places of failure that are remembered; beyond it the oldest is forgotten, and told anew.
MAX_PLACES = 64


class FailureCounts:
    """How often plugins have failed, by plugin, kind of error and place."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str, str], int] = {}

    def count(self, plugin: str, error: BaseException) -> int:
        """Counts a failure; the number of those at the same place, this one included."""
        key = (plugin, type(error).__name__, _place(error))
        count = self._counts.pop(key, 0) + 1
        if len(self._counts) >= MAX_PLACES:
            del self._counts[next(iter(self._counts))]
        self._counts[key] = count
        return count


def is_told(count: int) -> bool:
    """Whether the failure of this number is logged: the first, the tenth, the hundredth …"""
    return str(count).strip("0") == "1"


def traceback_of(error: BaseException) -> str:
    """The traceback without the frames that led to a plugin from outside of kscheduler; whole if
    the plugin is one of kscheduler's own.
    """
    shown = traceback.TracebackException.from_exception(_authors(error))
    chained: traceback.TracebackException | None = shown
    while chained is not None:
        frames = list(chained.stack)
        outside = (i for i, frame in enumerate(frames) if not _is_own(frame.filename))
        kept = frames[next(outside, 0) :][-MAX_FRAMES:]
        chained.stack = traceback.StackSummary.from_list(kept)
        chained = chained.__cause__ or chained.__context__
    return "".join(shown.format())


def _authors(error: BaseException) -> BaseException:
    """Error of the plugin itself, where the guard around it has made another error of that."""
    if isinstance(error, KschedulerError):
        return error.__cause__ or error.__context__ or error
    return error


def _place(error: BaseException) -> str:
    """File and line where the plugin was, outside of kscheduler if it is from there; for an answer
    that was refused, what was wrong with it.
    """
    error = _authors(error)
    frames = list(_frames(error.__traceback__))
    outside = [frame for frame in frames if not _is_own(frame[0])]
    if not outside and isinstance(error, KschedulerError):
        return str(error)
    file, line = (outside or frames or [("", 0)])[-1]
    return f"{file}:{line}"


def _frames(step: TracebackType | None) -> Iterator[tuple[str, int]]:
    while step is not None:
        yield step.tb_frame.f_code.co_filename, step.tb_lineno
        step = step.tb_next


def _is_own(filename: str) -> bool:
    return filename.startswith(OWN_FOLDER)
