"""kube-scheduler and kscheduler beside each other: the same clusters, the same API server.

    make bench ARGS="--targets"                            what this project means to reach
    make bench ARGS="--workload affinity --nodes 5000"     one shape
    make bench ARGS="--decisions"                          what keeping decisions costs
    make bench ARGS="--small"                              does it work at all? about a minute

Each measurement has a control plane of its own, started from the same data; both schedulers take
turns, and medians are told. Etcd, the API server, the scheduler and this program share the
machine's cores, so ratios say more than numbers. Every measurement goes to a file as soon as it is
made: name the same file again with --results, and only what is missing is measured.
"""

import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from tests.bench import plan, tables
from tests.bench.chart import chart
from tests.bench.images import image
from tests.bench.measurement import MeasurementError, explained, measure
from tests.bench.progress import Teller, case_title, telling, title
from tests.bench.results import Case, Entry, Failed, Measured, Results, load, now, this_run
from tests.bench.scenarios import SCENARIOS
from tests.bench.summary import Target, judge_all, slower_rate, standings
from tests.controlplane.binaries import MissingProgramError
from tests.controlplane.build import build_unless_named

SMALL_WORKLOADS = ("mixed", "churn")
SMALL_NODES, SMALL_PODS = 100, 500
PIPED_WIDTH = 160


class Runner:
    """Measures what is missing, batch by batch."""

    def __init__(self, results: Results, teller: Teller) -> None:
        self._results = results
        self._teller = teller

    def run(self, batch: plan.Batch) -> None:
        entries = self._results.missing(batch.entries)
        self._teller.begin(f"{case_title(batch.case)}: filling")
        try:
            with explained(), image(SCENARIOS[batch.case.scenario], batch.image_size) as folder:
                self._teller.end(plan.seconds_to_fill(batch))
                for entry in entries:
                    self._teller.begin(title(entry), batch.case.pods)
                    self._add(self._measure(folder, entry))
                    self._teller.end(plan.seconds_to_measure(entry))
        except MeasurementError as error:
            for entry in self._results.missing(entries):
                self._add(Failed(entry, f"the cluster was not filled: {error}", now(), load()))

    def _measure(self, folder: Path, entry: Entry) -> Measured | Failed:
        at, before = now(), load()
        try:
            rate = self._rate(entry.case)
            figures = measure(folder, entry, rate, self._teller.bound)
        except MeasurementError as error:
            return Failed(entry, str(error), at, before)
        return Measured(entry, figures, at, before)

    def _rate(self, case: Case) -> float:
        """Half of what the slower one gets through, for both; or as was said."""
        if case.rate != plan.HALF:
            return float(case.rate or 0)
        rate = slower_rate(standings(self._results.measured), case)
        if rate is None:
            raise MeasurementError("half of what? There is no backlog measured to tell the rate")
        return rate / 2

    def _add(self, line: Measured | Failed) -> None:
        self._results.add(line)
        self._teller.tell(line)


def chosen_cases(
    workloads: Sequence[str], nodes: Sequence[int], pods: int | None, rates: Sequence[str]
) -> Iterator[Case]:
    """Backlogs first, since rates may depend on them."""
    for workload in workloads:
        for size in nodes:
            yield plan.case(workload, size, pods)
    for size in nodes:
        yield from plan.steady_state(rates, workloads, size, pods)


def run_all(batches: Sequence[plan.Batch], results: Results, console: Console) -> None:
    todo = [batch for batch in batches if results.missing(batch.entries)]
    weights = sum(
        plan.seconds_to_fill(batch)
        + sum(map(plan.seconds_to_measure, results.missing(batch.entries)))
        for batch in todo
    )
    if todo:
        minutes = weights / 60
        console.print(f"{len(todo)} clusters to fill; about {minutes:.0f} minutes on two cores")
        results.add(this_run())
    with telling(console, weights) as teller:
        for batch in todo:
            Runner(results, teller).run(batch)


def show(results: Results, targets: Sequence[Target], console: Console) -> None:
    found = standings(results.measured)
    for sheet in tables.sheets(found):
        console.print(tables.for_terminal(sheet))
    if targets:
        verdicts = judge_all(targets, plan.WEIGHED, found)
        console.print(tables.for_terminal(tables.verdict_sheet(verdicts)))


@click.command(help=__doc__)
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    type=click.Choice([*SCENARIOS]),
    help="May be repeated.",
)
@click.option("--nodes", multiple=True, type=int, help="May be repeated. [default: 5000]")
@click.option("--pods", type=int, help="At most; all find a place. [default: as upstream, or 3000]")
@click.option("--rounds", default=3, show_default=True, help="Of both schedulers, in turn.")
@click.option(
    "--targets",
    "aim",
    is_flag=False,
    flag_value="pods",
    type=click.Choice([*plan.TARGETS, "all"]),
    help="Measure what there are targets for, and tell which are reached. [default: pods]",
)
@click.option(
    "--small",
    is_flag=True,
    help="100 nodes, 500 pods, one round, of what is chosen or of two shapes: fails if pods do.",
)
@click.option("--steady", "rates", multiple=True, help="Also create pods at this rate, or `half`.")
@click.option("--stock", is_flag=True, help="Also measure at stock client limits.")
@click.option(
    "--decisions",
    is_flag=True,
    help="What keeping decisions costs ours, which does it for every other few hundred pods: plain "
    "and affinity, or what is chosen.",
)
@click.option("--results", "path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="An SVG file.")
def main(
    workloads: tuple[str, ...],
    nodes: tuple[int, ...],
    pods: int | None,
    rounds: int,
    aim: str | None,
    small: bool,
    rates: tuple[str, ...],
    stock: bool,
    decisions: bool,
    path: Path | None,
    plot: Path | None,
) -> None:
    targets = [one for key, some in plan.TARGETS.items() if aim in (key, "all") for one in some]
    if small:
        chosen = workloads or tuple(dict.fromkeys(one.scenario for one in targets))
        workloads, targets = chosen or SMALL_WORKLOADS, []
        nodes, pods, rounds = (SMALL_NODES,), SMALL_PODS, 1
    if decisions:
        workloads = workloads or (plan.PLAIN, "affinity")
        pods = pods or plan.DECISION_PODS
    if targets:
        cases = [*plan.of_targets(targets, pods)]
        stock = stock or aim in ("pods", "all")
    elif workloads or nodes or rates:
        cases = [*chosen_cases(workloads or (plan.PLAIN,), nodes or (5000,), pods, rates)]
    else:
        cases = [*plan.everything(pods)]
    if stock and plan.stock() not in cases:
        cases.append(plan.stock())
    build_unless_named()
    # Whoever is ended ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    path = path or Path("build", "bench", f"{time.strftime('%Y%m%d-%H%M%S')}.jsonl")
    results = Results(path)
    batch = plan.decisions_batch if decisions else plan.batch
    wanted = [batch(case, rounds) for case in cases]
    console = Console(stderr=True)
    try:
        run_all(wanted, results, console)
    except MissingProgramError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise click.ClickException(f"interrupted; go on with --results {path}") from None
    finish(results, targets, path, plot)
    missing = [entry for batch in wanted for entry in results.missing(batch.entries)]
    if missing:
        raise click.ClickException(f"{len(missing)} measurements failed, see above")


def finish(results: Results, targets: Sequence[Target], path: Path, plot: Path | None) -> None:
    # Tables are wider than what a pipe is taken for.
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
    show(results, targets, console)
    plot = plot or path.with_suffix(".svg")
    plot.write_text(chart(standings(results.measured)))
    console.print(f"load average {load():.1f}; {path}, {plot}", markup=False)


if __name__ == "__main__":
    main()
