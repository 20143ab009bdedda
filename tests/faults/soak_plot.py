"""The figures of a soak over time, one panel above the other, in an SVG that needs nothing else."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

WIDTH, LEFT, RIGHT, HEAD, PANEL, GAP, FOOT = 900, 70, 20, 40, 110, 34, 30
# Readable on a light page and on a dark one.
TEXT, GRID = "#7a8190", "#7a8190"
COLORS = ("#2563eb", "#b91c1c")


class Panel(NamedTuple):
    title: str
    lines: dict[str, Callable[[Any], float]]


PANELS = (
    Panel("memory, MB", {"resident": lambda one: one.megabytes}),
    Panel(
        "time until bound, ms",
        {"p50": lambda one: 1000 * one.p50, "p99": lambda one: 1000 * one.p99},
    ),
    Panel(
        "tasks, file descriptors",
        {"tasks": lambda one: one.tasks, "files": lambda one: one.descriptors},
    ),
    Panel("pods that have gone, thousands", {"pods": lambda one: one.pods / 1000}),
)


def plot(samples: Sequence[Any], title: str) -> str:
    height = HEAD + len(PANELS) * (PANEL + GAP) + FOOT
    parts = [_text(LEFT, 20, title, bold=True)]
    last = max(one.seconds for one in samples)
    for number, panel in enumerate(PANELS):
        parts += _panel(panel, samples, last, HEAD + number * (PANEL + GAP))
    bottom = HEAD + len(PANELS) * (PANEL + GAP)
    for tenth in range(0, 11, 2):
        parts.append(
            _text(_x(last * tenth / 10, last), bottom, _minutes(last * tenth / 10), "middle")
        )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="system-ui, sans-serif" font-size="12">\n'
        f"<title>{escape(title)}</title>\n{body}\n</svg>\n"
    )


def _panel(panel: Panel, samples: Sequence[Any], last: float, top: float) -> list[str]:
    values = {name: [read(one) for one in samples] for name, read in panel.lines.items()}
    most = _round_top(max(value for some in values.values() for value in some))
    parts = [_text(LEFT, top + 12, panel.title)]
    floor = top + PANEL
    for share in (0.0, 0.5, 1.0):
        y = floor - share * (PANEL - 20)
        parts.append(
            f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="{GRID}" '
            'stroke-opacity="0.25"/>'
        )
        parts.append(_text(LEFT - 8, y + 4, f"{most * share:,g}", "end"))
    for number, (name, some) in enumerate(values.items()):
        points = " ".join(
            f"{_x(one.seconds, last):.1f},{floor - value / most * (PANEL - 20):.1f}"
            for one, value in zip(samples, some, strict=True)
        )
        color = COLORS[number]
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>'
        )
        parts.append(_text(WIDTH - RIGHT - 60 * number, top + 12, name, "end", color=color))
    return parts


def _round_top(value: float) -> float:
    """The next number of one digit, so that half of it is a short one, too."""
    step = 10.0 ** math.floor(math.log10(max(value, 1e-9)))
    return step * math.ceil(value / step) or 1.0


def _x(seconds: float, last: float) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * seconds / max(last, 1e-9)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _text(
    x: float, y: float, text: str, anchor: str = "start", *, bold: bool = False, color: str = TEXT
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{weight}>'
        f"{escape(text)}</text>"
    )
