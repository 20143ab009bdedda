"""Answers for people: sentences, lists and tables in plain text, as kubectl prints them.

Columns are aligned by spaces, without boxes. On a terminal, sentences are wrapped and a few words
have a colour, unless NO_COLOR is set; elsewhere the text is the same without either.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Iterable, Sequence
from typing import Any

import click

from kscheduler.api.timestamps import TimestampError, parse_time

GAP = "   "
MAX_COLUMNS = 120

Row = Sequence[str]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def tamed(text: str) -> str:
    """The text without control characters: messages may be anybody's, and a terminal obeys."""
    return _CONTROL.sub(
        lambda found: " " if found[0].isspace() else "\N{REPLACEMENT CHARACTER}", text
    )


def has_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def styled(text: str, **style: Any) -> str:
    """The text in click's style, where there is colour."""
    return click.style(text, **style) if has_colour() else text


def wrapped(text: str, indent: str = "") -> str:
    """A sentence, broken where the terminal ends."""
    text = tamed(text)
    if not sys.stdout.isatty():
        return indent + text
    columns = min(shutil.get_terminal_size().columns, MAX_COLUMNS)
    return textwrap.fill(
        text,
        max(columns, 40),
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(
    header: Row, rows: Iterable[Row], *, numbers: Iterable[str] = (), marked: str | None = None
) -> str:
    """Aligned columns; those named in `numbers` to the right. Columns that are empty in all rows
    are left out. The row whose first cell is `marked` stands out on a terminal.
    """
    header = tuple(map(tamed, header))
    rows = [tuple(map(tamed, row)) for row in rows]
    kept = [i for i, name in enumerate(header) if any(row[i] for row in rows) or not rows]
    right = {i for i, name in enumerate(header) if name in set(numbers)}
    widths = {i: max(len(row[i]) for row in [tuple(header), *rows]) for i in kept}

    def line(row: Row) -> str:
        cells = [row[i].rjust(widths[i]) if i in right else row[i].ljust(widths[i]) for i in kept]
        return GAP.join(cells).rstrip()

    lines = [styled(line(header), bold=True)]
    for row in rows:
        text = line(row)
        lines.append(styled(text, fg="green") if marked and row[0] == marked else text)
    return "\n".join(lines)


def listed(title: str, items: Iterable[str]) -> str:
    return "\n".join([styled(title, bold=True), *(wrapped(item, "  ") for item in items)])


def answer_about(subject: str, sentence: str) -> str:
    """A sentence that begins with its subject: "ns/pod: it is on …"."""
    return wrapped(f"{subject}: {sentence[:1].lower()}{sentence[1:]}")


def show(blocks: Iterable[str]) -> None:
    """Prints blocks of text with a line between them; empty ones are left out."""
    click.echo("\n\n".join(block for block in blocks if block))


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def joined(texts: Sequence[str], last: str = "and") -> str:
    if len(texts) < 2:
        return "".join(texts)
    return f"{', '.join(texts[:-1])} {last} {texts[-1]}"


def age(timestamp: str | None, now: float | None = None) -> str:
    """How long ago, as kubectl's AGE: 45s, 12m, 3h10m, 5d; empty for a text that is no time."""
    try:
        seconds = (time.time() if now is None else now) - parse_time(timestamp or "")
    except TimestampError:
        return ""
    return duration(max(seconds, 0.0))


def whole_seconds(timestamp: str) -> str:
    """The time without its microseconds."""
    return re.sub(r"\.\d+Z$", "Z", timestamp)


def duration(seconds: float) -> str:
    whole = int(seconds)
    if whole < 120:
        return f"{whole}s"
    minutes, second = divmod(whole, 60)
    if minutes < 10:
        return f"{minutes}m{second}s" if second else f"{minutes}m"
    hours, minute = divmod(minutes, 60)
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minute}m" if minute else f"{hours}h"
    days, hour = divmod(hours, 24)
    if days < 2:
        return f"{hours}h"
    return f"{days}d{hour}h" if hour and days < 8 else f"{days}d"
