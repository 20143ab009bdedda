"""Pods per second as bars, one above the other, in an SVG that needs nothing else."""

from collections.abc import Sequence
from xml.sax.saxutils import escape

from tests.bench.contestants import FLOOR, OURS, THEIRS
from tests.bench.summary import AS_FAST_AS_CAN_BE, Standing, floor_rate

LABEL, BARS, MARGIN, VALUE = 260, 520, 20, 130
BAR, GAP, HEAD = 14, 16, 56
COLORS = {THEIRS: "#9aa5b1", OURS: "#2563eb", FLOOR: "#b91c1c"}
# Readable on a light page and on a dark one.
TEXT = "#7a8190"
STEPS = (50, 100, 200, 250, 500, 1000, 2000)
MOST_STEPS = 6


def chart(found: Sequence[Standing]) -> str:
    cases = [one for one in found if one.case.mode in AS_FAST_AS_CAN_BE]
    floors = [floor_rate(found, one.case.scenario, one.case.nodes) for one in cases]
    rates = [figures.pods_per_second for one in cases for figures in one.medians.values()]
    most = max([*rates, *(floor for floor in floors if floor), 1.0])
    row = 2 * BAR + GAP
    width, height = LABEL + BARS + VALUE + MARGIN, HEAD + row * len(cases) + 2 * MARGIN
    parts = [*_legend(), *_scale(most, height)]
    for number, (one, floor) in enumerate(zip(cases, floors, strict=True)):
        parts += _case(one, floor, HEAD + number * row, most)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="system-ui, sans-serif" font-size="12">\n'
        f"<title>Pods bound per second</title>\n{body}\n</svg>\n"
    )


def _legend() -> list[str]:
    parts = [_text(MARGIN, 18, "pods per second, from the first binding to the last", bold=True)]
    for number, (who, color) in enumerate(COLORS.items()):
        x = LABEL + 130 * number
        parts += [_bar(x, 28, 12, color), _text(x + 18, 39, who)]
    return parts


def _scale(most: float, height: int) -> list[str]:
    step = next((step for step in STEPS if most / step <= MOST_STEPS), STEPS[-1])
    parts = []
    for value in range(0, int(most) + 1, step):
        x = LABEL + BARS * value / most
        parts.append(
            f'<line x1="{x:.1f}" y1="{HEAD - 6}" x2="{x:.1f}" y2="{height - 2 * MARGIN}" '
            f'stroke="{TEXT}" stroke-opacity="0.25"/>'
        )
        parts.append(_text(x, height - MARGIN, f"{value:,}", anchor="middle"))
    return parts


def _case(one: Standing, floor: float | None, top: float, most: float) -> list[str]:
    label = f"{one.case.scenario}, {one.case.nodes:,} nodes"
    parts = [_text(LABEL - 10, top + BAR + 4, label, anchor="end")]
    for number, who in enumerate((THEIRS, OURS)):
        if figures := one.medians.get(who):
            y = top + number * BAR
            length = BARS * figures.pods_per_second / most
            parts.append(_bar(LABEL, y, length, COLORS[who]))
            parts.append(_text(LABEL + length + 6, y + 11, _value(one, who)))
    if floor:
        x = LABEL + BARS * floor / most
        parts.append(
            f'<line x1="{x:.1f}" y1="{top - 2}" x2="{x:.1f}" y2="{top + 2 * BAR + 2}" '
            f'stroke="{COLORS[FLOOR]}" stroke-width="2"/>'
        )
    return parts


def _value(one: Standing, who: str) -> str:
    ratio = one.ratio("pods_per_second") if who == OURS else None
    value = f"{one.medians[who].pods_per_second:,.0f}"
    return f"{value} ({ratio:.1f} times)" if ratio else value


def _bar(x: float, y: float, length: float, color: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{length:.1f}" height="{BAR - 1}" fill="{color}"/>'


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{TEXT}"{weight}>'
        f"{escape(text)}</text>"
    )
