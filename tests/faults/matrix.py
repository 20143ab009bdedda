"""The same faults for kube-scheduler and kscheduler, on a real API server, while pods arrive.

\b
    make faults                                              all rows, three rounds, both schedulers
    make faults ARGS="--small"                               one short round: does it work at all?
    make faults ARGS="--rows 1-4,15 --scheduler kscheduler"
    make faults ARGS="--rows 4 --scheduler kscheduler --seed 2 --rounds 1"     a failing seed alone

Counted per row: pods that were never bound although there was room, pods bound twice, pods that a
kubelet refuses for lack of room, assumptions, claims and volumes that are left over, the time from
the end of the fault until the backlog is gone, and ends of the process. Ours may do none of that,
and may not take longer than the original; or else the run ends with code 1 and a list.

The seed decides which pods come and what chance does to them. The log of the proxy and those of the
schedulers stay in a folder beside the results: they are the evidence. Every outcome goes to a file
as soon as it is known; name the same file again with --results, and only what is missing is run.
When all rows are there for both schedulers, the table in docs/reliability.md is written.
"""

import asyncio
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import click
import uvloop

from tests.bench.contestants import OURS, THEIRS
from tests.bench.images import SERVER_FLAGS
from tests.bench.results import now, this_run
from tests.controlplane.build import build_unless_named
from tests.controlplane.plane import ControlPlane, ControlPlaneError
from tests.faults.outcomes import Outcomes, section
from tests.faults.rig import Rig
from tests.faults.row import Row
from tests.faults.rows import ROWS
from tests.faults.verdict import Outcome
from tests.kit.pages import replaced

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
MARK = "faults"
# All durations of the short form are multiplied by it.
SMALL = 0.3


class Task(NamedTuple):
    """One run of one row with one scheduler."""

    row: Row
    who: str
    round: int
    seed: int


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    plane = ControlPlane(folder, extra_flags=SERVER_FLAGS)
    try:
        plane.start()
        yield plane
    finally:
        # Nobody will read what they would still write.
        for process in plane.processes.values():
            process.kill()
            process.wait()
        shutil.rmtree(folder)


class Runner:
    """Runs what is missing, row by row, on one server; those that wait at once, on their own."""

    def __init__(self, outcomes: Outcomes, evidence: Path, scale: float) -> None:
        self._outcomes = outcomes
        self._evidence = evidence
        self._scale = scale
        self._began = time.monotonic()

    def run(self, tasks: Sequence[Task]) -> None:
        todo = [one for one in tasks if not self._outcomes.has(one.row.number, one.who, one.seed)]
        together = [one for one in todo if one.row.at_once]
        apart = [one for one in todo if not one.row.at_once]
        if apart:
            with control_plane() as plane:
                for task in apart:
                    uvloop.run(self._run(task, plane))
        if together:
            # Most of their time is waiting, so that all their rounds fit beside each other.
            with ExitStack() as planes:
                pairs = [(task, planes.enter_context(control_plane())) for task in together]
                uvloop.run(self._run_at_once(pairs))

    async def _run_at_once(self, pairs: Sequence[tuple[Task, ControlPlane]]) -> None:
        await asyncio.gather(*(self._run(task, plane) for task, plane in pairs))

    async def _run(self, task: Task, plane: ControlPlane) -> None:
        asyncio.get_running_loop().set_exception_handler(tell_of_trouble)
        row, who, number, seed = task
        outcome = Outcome(row.number, who, number, seed, scale=self._scale, at=now())
        folder = self._evidence / f"row-{row.number}-{who}-{seed}"
        shutil.rmtree(folder, ignore_errors=True)
        try:
            async with Rig(plane.folder, folder, who, seed, plane=plane, scale=self._scale) as rig:
                try:
                    await row.run(rig, outcome)
                finally:
                    await rig.workload.clear()
        except Exception as error:
            # One row that cannot be run must not cost the others.
            outcome.failed = f"{type(error).__name__}: {error}"[:500]
            (folder / "traceback").write_text(traceback.format_exc())
        self._outcomes.add(outcome)
        elapsed = time.monotonic() - self._began
        click.echo(
            f"{elapsed:6.0f} s  row {row.number}, {who}, seed {seed}: {outcome.told()}", err=True
        )


def tell_of_trouble(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """As a loop does by itself, but for what it leaves of connections that the proxy has reset."""
    if not str(context.get("message", "")).startswith("Fatal error on SSL protocol"):
        loop.default_exception_handler(context)


def numbers(text: str) -> list[int]:
    """`1-4,15` as numbers of rows."""
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 1-4,15") from None
    return [number for number in found if number in ROWS]


@click.command(help=__doc__)
@click.option("--rows", "chosen", default="1-99", help="By number: 1-4,15.  [default: all]")
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    type=click.Choice([THEIRS, OURS]),
    help="May be repeated. [both, the original first]",
)
@click.option("--rounds", default=3, show_default=True, help="Of each row, with a seed each.")
@click.option("--seed", default=1, show_default=True, help="Of the first round.")
@click.option("--small", is_flag=True, help=f"One round, and all durations times {SMALL}.")
@click.option("--results", "path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--list", "listing", is_flag=True, help="Tell what there is, and do nothing.")
def main(
    chosen: str,
    schedulers: tuple[str, ...],
    rounds: int,
    seed: int,
    small: bool,
    path: Path | None,
    listing: bool,
) -> None:
    rows = [ROWS[number] for number in numbers(chosen)]
    for row in rows:
        if why := row.unavailable():
            click.echo(f"row {row.number} is left out: {why}", err=True)
    rows = [row for row in rows if not row.unavailable()]
    if listing:
        for row in rows:
            click.echo(f"{row.number:3} {row.title}")
        return
    build_unless_named()
    # Whoever is ended ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    path = path or Path("build", "faults", f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    outcomes = Outcomes(path)
    outcomes.add(this_run())
    tasks = [
        Task(row, who, number, seed + number)
        for row in rows
        for number in range(1 if small else rounds)
        for who in (THEIRS, OURS)
        if who in row.schedulers and who in (schedulers or row.schedulers)
    ]
    try:
        Runner(outcomes, path.with_suffix(""), SMALL if small else 1.0).run(tasks)
    except ControlPlaneError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; go on with --results {path}") from None
    finish(outcomes, rows, path, write=not small)


def finish(outcomes: Outcomes, rows: Sequence[Row], path: Path, *, write: bool) -> None:
    text = section(outcomes, ROWS.values())
    click.echo(text)
    can_be_run = [row for row in ROWS.values() if not row.unavailable()]
    complete = all(outcomes.of(row.number, who) for row in can_be_run for who in row.schedulers)
    if write and complete:
        PAGE.write_text(replaced(PAGE.read_text(), MARK, text))
        click.echo(f"{PAGE} has the table")
    click.echo(f"{path} has the outcomes, {path.with_suffix('')} the evidence")
    problems = outcomes.problems(rows)
    if problems:
        told = "\n  ".join(problems)
        raise click.ClickException(f"{len(problems)} times not as it must be:\n  {told}")


if __name__ == "__main__":
    main()
