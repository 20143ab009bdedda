"""Hostile inputs, on a real API server, with kube-scheduler and kscheduler in turn.

\b
    make adversary                                           all of them, at 100 and 1,000 nodes
    make adversary ARGS="--small"                            a few, at 100 nodes: two minutes
    make adversary ARGS="--rows 'spread-*,annotations'"      some; patterns as a shell has them
    make adversary ARGS="--schedulers kscheduler --results build/adversary/1.jsonl"

Each input is created in the name of a tenant, decided about, and deleted again. Measured are the
time until its pod is decided (bound, or told that it fits nowhere), the time until an innocent pod
created right after it is bound, the same for one created after all was deleted, and the scheduler's
memory before and after. Ours may take a second or twice as long as the original, an innocent pod
two seconds more, and memory comes back to within 32 MB; or else the run ends with code 1 and a
list.

Every outcome goes to a file as soon as it is known. Name the same file again with --results, and
outcomes of an earlier run stand beside the new ones: with --missing only what is not there yet is
measured, and with --schedulers one of the two is measured anew. When every input is there for both
schedulers, at all sizes asked for, the table in docs/reliability.md is written.
"""

import asyncio
import fnmatch
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from tests.adversary.comparison import Cluster, NotReadyError, Scheduler, sightings
from tests.adversary.inputs import ROWS, SELECTION, Hostile
from tests.adversary.outcomes import Outcomes, section
from tests.bench.contestants import OURS, THEIRS
from tests.bench.images import SERVER_FLAGS, administration
from tests.bench.results import this_run
from tests.controlplane.build import build_unless_named
from tests.controlplane.plane import ControlPlane, ControlPlaneError
from tests.kit.pages import replaced

NODES = (100, 1000)
PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
MARK = "adversary"


@contextmanager
def control_plane() -> Iterator[ControlPlane]:
    folder = Path(tempfile.mkdtemp(prefix="adversary-"))
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
    """All inputs, one after the other, with one scheduler after the other on one cluster."""

    def __init__(self, outcomes: Outcomes, rows: Sequence[Hostile], patience: float) -> None:
        self._outcomes = outcomes
        self._rows = rows
        self._patience = patience
        self._began = time.monotonic()

    async def run(
        self, plane: ControlPlane, nodes: int, who: Sequence[str], *, again: bool
    ) -> None:
        async with sightings(administration(plane)) as seen:
            cluster = Cluster(plane, nodes, seen)
            self._tell(f"{nodes:,} nodes: filling")
            await cluster.fill()
            for name in who:
                async with Scheduler(name, cluster, self._patience) as scheduler:
                    await self._attack(scheduler, nodes, again=again)

    async def _attack(self, scheduler: Scheduler, nodes: int, *, again: bool) -> None:
        for number, row in enumerate(self._rows, 1):
            if not again and self._outcomes.get(row.name, nodes, scheduler.who):
                continue
            outcome = await scheduler.attack(row, number)
            self._outcomes.add(outcome)
            at = f"{number}/{len(self._rows)}"
            self._tell(f"{nodes:,} nodes, {scheduler.who}, {at} {row.name}: {outcome.told()}")

    def _tell(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self._began:6.0f} s  {text}", err=True)


def chosen(patterns: str) -> list[Hostile]:
    wanted = [pattern.strip() for pattern in patterns.split(",") if pattern.strip()]
    for pattern in wanted:
        if not fnmatch.filter(ROWS, pattern):
            raise click.BadParameter(f"no input is called {pattern}; there are {', '.join(ROWS)}")
    return [
        row
        for name, row in ROWS.items()
        if any(fnmatch.fnmatch(name, pattern) for pattern in wanted)
    ]


@click.command(help=__doc__)
@click.option("--rows", "patterns", default="*", show_default=True, help="By name, with commas.")
@click.option("--nodes", "sizes", multiple=True, type=int, help="May be repeated. [100 and 1000]")
@click.option(
    "--schedulers",
    multiple=True,
    type=click.Choice([THEIRS, OURS]),
    help="May be repeated. [both, the original first]",
)
@click.option("--small", is_flag=True, help=f"100 nodes and only: {', '.join(SELECTION)}.")
@click.option("--missing", is_flag=True, help="Measure only what --results does not have.")
@click.option(
    "--patience",
    default=60.0,
    show_default=True,
    help="Seconds until an input counts as never decided, and its scheduler is started anew.",
)
@click.option("--results", "path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--list", "listing", is_flag=True, help="Tell what there is, and do nothing.")
def main(
    patterns: str,
    sizes: tuple[int, ...],
    schedulers: tuple[str, ...],
    small: bool,
    missing: bool,
    patience: float,
    path: Path | None,
    listing: bool,
) -> None:
    rows = [ROWS[name] for name in SELECTION] if small else chosen(patterns)
    if listing:
        for row in rows:
            click.echo(f"{row.name} ({row.by}, {row.size:,}): {row.attacks}")
        return
    sizes = (NODES[0],) if small else sizes or NODES
    build_unless_named()
    # Whoever is ended ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    path = path or Path("build", "adversary", f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    outcomes = Outcomes(path)
    outcomes.add(this_run())
    runner = Runner(outcomes, rows, patience)
    try:
        for nodes in sizes:
            with control_plane() as plane:
                who = schedulers or (THEIRS, OURS)
                asyncio.run(runner.run(plane, nodes, who, again=not missing))
    except (ControlPlaneError, NotReadyError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; go on with --missing --results {path}") from None
    finish(outcomes, rows, sizes, path)


def finish(outcomes: Outcomes, rows: Sequence[Hostile], sizes: Sequence[int], path: Path) -> None:
    names = [row.name for row in rows]
    if len(rows) == len(ROWS) and outcomes.complete(names, sizes):
        PAGE.write_text(replaced(PAGE.read_text(), MARK, section(outcomes)))
        click.echo(f"{PAGE} has the table")
    click.echo(f"{path} has the outcomes")
    problems = outcomes.problems(names)
    if problems:
        told = "\n  ".join(problems)
        raise click.ClickException(f"{len(problems)} times not as it must be:\n  {told}")


if __name__ == "__main__":
    main()
