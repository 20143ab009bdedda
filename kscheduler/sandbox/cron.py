"""Cron schedules: the minutes that an expression of five fields names."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

_NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# First and last value of each field, and the names of its values.
_FIELDS: tuple[tuple[int, int, list[str]], ...] = (
    (0, 59, []),
    (0, 23, []),
    (1, 31, []),
    (1, 12, ["", *_MONTHS]),
    (0, 7, _DAYS),
)
_LONGEST_SEARCH = timedelta(days=366 * 5)


class Schedule(msgspec.Struct, frozen=True):
    """The minutes a cron expression names."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    # Whether the field is `*`: of the two kinds of days, either will do unless one is open.
    any_day: bool
    any_weekday: bool

    def next_after(self, moment: datetime) -> datetime | None:
        """The first minute after this moment; None if there is none within five years."""
        at = moment.replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = at + _LONGEST_SEARCH
        while at < limit:
            if at.month not in self.months or not self._has_day(at):
                at = (at + timedelta(days=1)).replace(hour=0, minute=0)
            elif at.hour not in self.hours:
                at = (at + timedelta(hours=1)).replace(minute=0)
            elif at.minute not in self.minutes:
                at += timedelta(minutes=1)
            else:
                return at
        return None

    def _has_day(self, at: datetime) -> bool:
        in_month, in_week = at.day in self.days, at.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def parse_schedule(text: str) -> Schedule:
    """Raises ValueError for what is no schedule."""
    parts = _NAMED.get(text.strip(), text).split()
    if len(parts) != len(_FIELDS):
        raise ValueError(f"expected exactly 5 fields, found {len(parts)}: [{text}]")
    minutes, hours, days, months, weekdays = (
        _values(part, *field) for part, field in zip(parts, _FIELDS, strict=True)
    )
    return Schedule(
        minutes,
        hours,
        days,
        months,
        frozenset(day % 7 for day in weekdays),
        any_day=parts[2].startswith(("*", "?")),
        any_weekday=parts[4].startswith(("*", "?")),
    )


def _values(text: str, first: int, last: int, names: list[str]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        low, dash, high = span.partition("-")
        if span in ("*", "?"):
            start, end = first, last
        else:
            start = _value(low, names)
            end = _value(high, names) if dash else last if step_text else start
        step = int(step_text) if step_text else 1
        if not first <= start <= end <= last or step < 1:
            raise ValueError(f"{part} is not within {first} and {last}")
        found.update(range(start, end + 1, step))
    return frozenset(found)


def _value(text: str, names: list[str]) -> int:
    return names.index(text.lower()) if text.lower() in names and text else int(text)
