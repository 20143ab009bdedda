"""What was measured, as tables for a terminal or a page: the same rows for both."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.table import Table

from tests.bench.contestants import ALTERNATING, FLOOR, OURS, THEIRS
from tests.bench.results import BACKLOG, STEADY, STOCK_LIMITS, TURNOVER
from tests.bench.summary import Standing, Verdict, floor_rate

# Left out where nothing was measured.
NOTHING = "-"


class Sheet(NamedTuple):
    title: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    # Columns of words; the others are numbers, and stand to the right.
    words: int = 1


def backlog_sheets(found: Sequence[Standing]) -> list[Sheet]:
    """Two tables of the same cases: how fast, and at what cost."""
    cases = [one for one in found if one.case.mode == BACKLOG and ALTERNATING not in one.medians]
    if not cases:
        return []
    speed = Sheet(
        "A backlog: pods per second, from the first binding to the last",
        ("pods", "nodes", "backlog", THEIRS, OURS, "ratio", FLOOR, "share of it"),
        [_speed(one, floor_rate(found, one.case.scenario, one.case.nodes)) for one in cases],
    )
    return [speed, cost_sheet(cases)]


def turnover_sheets(found: Sequence[Standing]) -> list[Sheet]:
    """Of pods that are replaced as soon as they are bound."""
    cases = [one for one in found if one.case.mode == TURNOVER]
    if not cases:
        return []
    speed = Sheet(
        f"Pods replaced when bound: pods per second, and ms until one is bound, {THEIRS} / {OURS}",
        ("pods", "nodes", "at a time", THEIRS, OURS, "ratio", "p50 ms", "p90 ms", "p99 ms"),
        [_turnover(one) for one in cases],
    )
    return [speed, cost_sheet(cases)]


# What the README tells: a shape, in a reader's words.
IN_SHORT = {
    ("plain", 5000): "plain pods, 5,000 nodes",
    ("plain", 15000): "plain pods, 15,000 nodes",
    ("hard-spread", 5000): "topology spread, 5,000 nodes",
    ("affinity", 5000): "pod affinity, 5,000 nodes",
    ("mixed", 5000): "a mix of all rules, 5,000 nodes",
    ("csi-pvs", 5000): "a CSI volume each, 5,000 nodes",
    ("preemption-basic", 5000): "each evicts four others, 5,000 nodes",
    ("extended-25", 500): "a device each, as an extended resource, 500 nodes",
    ("gpus", 5000): "a device each, by claim, 5,000 nodes",
}


def short_sheet(found: Sequence[Standing]) -> Sheet:
    """The most telling cases, in the README's order."""
    cases = {(one.case.scenario, one.case.nodes): one for one in found if one.case.mode == BACKLOG}
    return Sheet(
        "",
        ("pods per second", THEIRS, OURS, "times", "CPU per pod"),
        [
            (
                words,
                _number(one.medians[THEIRS].pods_per_second, 0),
                _number(one.medians[OURS].pods_per_second, 0),
                _number(one.ratio("pods_per_second"), 1),
                _number(one.ratio("scheduler_cpu_ms"), 2),
            )
            for case, words in IN_SHORT.items()
            if (one := cases.get(case)) and one.complete
        ],
    )


def cost_sheet(cases: Sequence[Standing]) -> Sheet:
    return Sheet(
        f"The same: {THEIRS} / {OURS}",
        (
            "pods",
            "nodes",
            "CPU ms per pod",
            "ratio",
            "API server's",
            "etcd's",
            "peak MB",
            "ratio",
            "first binding after s",
        ),
        [_cost(one) for one in cases],
    )


def _speed(one: Standing, floor: float | None) -> tuple[str, ...]:
    ours = one.medians.get(OURS)
    share = ours.pods_per_second / floor if ours and floor else None
    return (
        one.case.scenario,
        f"{one.case.nodes:,}",
        f"{one.case.pods:,}",
        _figure(one, THEIRS, "pods_per_second", 0),
        _figure(one, OURS, "pods_per_second", 0),
        _ratio(one.ratio("pods_per_second")),
        _number(floor, 0),
        _number(share, 2),
    )


def _turnover(one: Standing) -> tuple[str, ...]:
    return (
        one.case.scenario,
        f"{one.case.nodes:,}",
        f"{one.case.pods:,}",
        _figure(one, THEIRS, "pods_per_second", 0),
        _figure(one, OURS, "pods_per_second", 0),
        _ratio(one.ratio("pods_per_second")),
        *(_pair(one, figure, 0) for figure in ("p50_ms", "p90_ms", "p99_ms")),
    )


def _cost(one: Standing) -> tuple[str, ...]:
    return (
        one.case.scenario,
        f"{one.case.nodes:,}",
        _pair(one, "scheduler_cpu_ms", 2),
        _ratio(one.ratio("scheduler_cpu_ms")),
        _pair(one, "apiserver_cpu_ms", 2),
        _pair(one, "etcd_cpu_ms", 2),
        _pair(one, "peak_megabytes", 0),
        _ratio(one.ratio("peak_megabytes")),
        _pair(one, "start_seconds", 1),
    )


def steady_sheets(found: Iterable[Standing]) -> list[Sheet]:
    cases = [one for one in found if one.case.mode == STEADY]
    rows = [_latency(one) for one in cases]
    columns = ("pods", "nodes", "created per second", "p50 ms", "p90 ms", "p99 ms", "CPU ms")
    title = f"A steady rate: from creation to binding, {THEIRS} / {OURS}"
    return [Sheet(title, columns, rows)] if rows else []


def _latency(one: Standing) -> tuple[str, ...]:
    known = one.medians.get(THEIRS) or one.medians.get(OURS)
    rate = f"{known.pods_per_second:,.0f} ({one.case.rate})" if known else one.case.rate
    return (
        one.case.scenario,
        f"{one.case.nodes:,}",
        one.case.rate if one.case.rate.isdigit() else rate,
        *(_pair(one, figure, 0) for figure in ("p50_ms", "p90_ms", "p99_ms")),
        _pair(one, "scheduler_cpu_ms", 2),
    )


def stock_sheets(found: Iterable[Standing]) -> list[Sheet]:
    rows = [
        (
            one.case.scenario,
            f"{one.case.nodes:,}",
            f"{one.case.pods:,}",
            _figure(one, THEIRS, "pods_per_second", 1),
            _figure(one, OURS, "pods_per_second", 1),
        )
        for one in found
        if one.case.mode == STOCK_LIMITS
    ]
    columns = ("pods", "nodes", "backlog", THEIRS, OURS)
    return [Sheet("At stock client limits: pods per second", columns, rows)] if rows else []


def decision_sheets(found: Iterable[Standing]) -> list[Sheet]:
    """The cost of keeping decisions."""
    rows = [
        (
            one.case.scenario,
            f"{one.case.nodes:,}",
            f"{one.case.pods:,}",
            f"{figures.scheduler_cpu_ms:.3f}",
            f"{1000 * figures.keeping_cpu_ms:.0f}",
            f"{figures.keeping_cpu:+.1%}",
            f"{-figures.keeping_seconds / (1 + figures.keeping_seconds):+.1%}",
        )
        for one in found
        if (figures := one.medians.get(ALTERNATING)) is not None
    ]
    measured = ("CPU ms per pod", "keeping it, µs", "CPU", "pods per second")
    columns = ("pods", "nodes", "backlog", *measured)
    return [Sheet("Keeping decisions, block by block in one process", columns, rows)] * bool(rows)


def verdict_sheet(verdicts: Iterable[Verdict]) -> Sheet:
    columns = ("what", "wanted", "measured", "verdict")
    return Sheet("Targets", columns, [tuple(one) for one in verdicts], words=4)


def sheets(found: Sequence[Standing]) -> list[Sheet]:
    return [
        *backlog_sheets(found),
        *decision_sheets(found),
        *turnover_sheets(found),
        *stock_sheets(found),
        *steady_sheets(found),
    ]


def for_terminal(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left")
    for number, name in enumerate(sheet.columns):
        table.add_column(name, justify="left" if number < sheet.words else "right")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def for_page(sheet: Sheet) -> str:
    """In Markdown."""
    rules = ["---" if number < sheet.words else "---:" for number in range(len(sheet.columns))]
    rows = [sheet.columns, *sheet.rows]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    lines.insert(1, f"|{'|'.join(rules)}|")
    title = f"**{sheet.title}**\n\n" if sheet.title else ""
    return title + "\n".join(lines) + "\n"


def _figure(one: Standing, who: str, figure: str, digits: int) -> str:
    known = one.medians.get(who)
    return _number(getattr(known, figure) if known else None, digits)


def _pair(one: Standing, figure: str, digits: int) -> str:
    return " / ".join(_figure(one, who, figure, digits) for who in (THEIRS, OURS))


def _ratio(ratio: float | None) -> str:
    return _number(ratio, 2)


def _number(value: float | None, digits: int) -> str:
    return NOTHING if value is None else f"{value:,.{digits}f}"
