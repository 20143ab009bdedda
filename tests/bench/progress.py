"""What runs now, how far it is, and how long the rest will take."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tests.bench.results import (
    STEADY,
    STOCK_LIMITS,
    TURNOVER,
    Case,
    Entry,
    Failed,
    Figures,
    Measured,
)

# Drawing costs processor time that is being measured.
DRAWINGS_PER_SECOND = 1
# Of what was measured, the whole run tells how long the rest takes, not the last few minutes.
ESTIMATE_SECONDS = 86_400.0


class Teller:
    """Of a run whose steps have weights: seconds, as far as anybody knows."""

    def __init__(self, progress: Progress, weights: float) -> None:
        self._progress = progress
        self._whole = progress.add_task("", total=weights)
        self._now = progress.add_task("", total=None)
        self._console = progress.console

    def begin(self, what: str, pods: int | None = None) -> None:
        self._progress.update(self._whole, description=what)
        self._progress.reset(self._now, total=pods, description="")

    def bound(self, pods: int) -> None:
        self._progress.update(self._now, completed=pods, description=f"{pods:,} pods are bound")

    def end(self, weight: float) -> None:
        self._progress.advance(self._whole, weight)

    def tell(self, line: Measured | Failed) -> None:
        if isinstance(line, Failed):
            told = f"FAILED: {line.why}"
        else:
            told = in_short(line.entry.case, line.figures)
        text = f"{title(line.entry)}: {told}"
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def telling(console: Console, weights: float) -> Iterator[Teller]:
    columns = (
        TextColumn("{task.description:44.44}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns,
        console=console,
        refresh_per_second=DRAWINGS_PER_SECOND,
        speed_estimate_period=ESTIMATE_SECONDS,
    ) as progress:
        yield Teller(progress, weights)


def title(entry: Entry) -> str:
    return f"{case_title(entry.case)}, round {entry.round}, {entry.who}"


def case_title(case: Case) -> str:
    mode = {
        STEADY: f", at {case.rate} per second",
        STOCK_LIMITS: ", stock limits",
        TURNOVER: " at a time",
    }
    return f"{case.scenario}, {case.nodes:,} nodes, {case.pods:,} pods{mode.get(case.mode, '')}"


def in_short(case: Case, figures: Figures) -> str:
    told = [
        f"{figures.pods_per_second:,.0f} pods/s",
        f"{figures.scheduler_cpu_ms:.2f} ms CPU per pod",
        f"{figures.peak_megabytes:.0f} MB",
        f"first after {figures.start_seconds:.1f} s",
    ]
    if case.mode in (STEADY, TURNOVER):
        told.append(f"p50 {figures.p50_ms:.0f} ms, p99 {figures.p99_ms:.0f} ms")
    return ", ".join(told)
