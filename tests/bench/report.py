"""Puts what was measured into a page: all its numbers come from a file of results.

    python -m tests.bench.report docs/performance/results.jsonl

Writes the chart beside the file, the tables into docs/performance.md between two marks, and the
most telling rows into the README; what stands around them is for people to write.
"""

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import click

from tests.bench import tables
from tests.bench.chart import chart
from tests.bench.contestants import OURS, THEIRS
from tests.bench.plan import TARGETS, WEIGHED
from tests.bench.results import Measured, Results, Run
from tests.bench.summary import UNKNOWN, Standing, judge_all, standings
from tests.kit.pages import UnmarkedPageError, replaced

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
MARK, SHORT_MARK = "measured", "speed"


def section(results: Results, picture: str) -> str:
    found = standings(results.measured)
    parts = [
        *([about(results.runs)] if results.runs else []),
        loads(results.measured),
        f"![pods per second]({picture})",
        *map(tables.for_page, tables.sheets(found)),
        *verdicts(found),
    ]
    return "\n\n".join(part.strip() for part in parts)


def in_short(results: Results) -> str:
    run = results.runs[-1]
    told = (
        f"Measured on {days(results.runs)}, on {run.cores} cores that scheduler, API server, etcd "
        "and the\nmeasuring program share."
    )
    return f"{tables.for_page(tables.short_sheet(standings(results.measured)))}\n{told}"


def days(runs: Sequence[Run]) -> str:
    return " and ".join(dict.fromkeys(run.at[:10] for run in runs))


def about(runs: Sequence[Run]) -> str:
    """When they were made, where the last of them was, and which states of this program they are
    about.
    """
    run = runs[-1]
    # Without a remark in brackets that may follow it.
    numbers = {who: told.partition(" (")[0].split()[-1] for who, told in run.versions.items()}
    versions = ", ".join(f"{who} {number}" for who, number in numbers.items())
    states = dict.fromkeys(run.commit or "an unknown state" for run in runs)
    return (
        f"Measured on {days(runs)}: {run.cores} cores ({run.processor}), "
        f"{run.memory_gigabytes:.0f} GB, {run.system}, Python {run.python}; {versions}; "
        f"this program at {', '.join(states)}."
    )


def loads(measured: Sequence[Measured]) -> str:
    """How quiet the machine was; the measurements themselves are part of it."""
    values = sorted(line.load for line in measured)
    if not values:
        return "Nothing was measured."
    rounds = Counter((line.entry.case, line.entry.who) for line in measured).values()
    fewest, most = min(rounds), max(rounds)
    told = f"{most} rounds" if fewest == most else f"{fewest} to {most} rounds"
    return (
        f"Medians of {told}, {THEIRS} and {OURS} in turn. Load average before each of the "
        f"{len(values)} measurements: {values[0]:.1f} to {values[-1]:.1f}, "
        f"median {values[len(values) // 2]:.1f}."
    )


def verdicts(found: Sequence[Standing]) -> list[str]:
    """Of all targets that anything is known about."""
    targets = [one for some in TARGETS.values() for one in some]
    known = [one for one in judge_all(targets, WEIGHED, found) if one.verdict != UNKNOWN]
    return [tables.for_page(tables.verdict_sheet(known))] if known else []


@click.command(help=__doc__)
@click.argument("path", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--page", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=PAGE)
@click.option(
    "--readme", type=click.Path(exists=True, dir_okay=False, path_type=Path), default=README
)
def main(path: Path, page: Path, readme: Path) -> None:
    results = Results(path)
    picture = path.with_suffix(".svg")
    picture.write_text(chart(standings(results.measured)))
    where = os.path.relpath(picture, page.parent)
    written = {page: (MARK, section(results, where)), readme: (SHORT_MARK, in_short(results))}
    for target, (mark, text) in written.items():
        try:
            target.write_text(replaced(target.read_text(), mark, text))
        except UnmarkedPageError as error:
            raise click.ClickException(f"{target}: {error}") from error


if __name__ == "__main__":
    main()
