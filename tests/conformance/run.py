"""Kubernetes' own end-to-end tests, with kube-scheduler and kscheduler in turn.

\b
    make conformance                                       all specs, both: half an hour
    make conformance ARGS="--scheduler kscheduler"         one of the two
    make conformance ARGS="--suite dra --focus 'reusing'"  some specs

Everything is built once, with Go; each suite then gets a cluster of its own: etcd, kube-apiserver,
kube-controller-manager, four nodes that kwok plays, and the scheduler as the default one. The run
ends with code 1 if ours does not pass a spec that the original passes.

Results, and the logs of every program, go to a folder. Name the same one again with --results, and
results of an earlier run stand beside the new ones. When every spec of both suites is there for
both schedulers, the tables in docs/conformance.md are written.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tests.bench.contestants import OURS, THEIRS
from tests.bench.processes import running
from tests.bench.results import this_run
from tests.conformance import reports
from tests.conformance.programs import build_all
from tests.conformance.progress import Progress
from tests.conformance.results import Result, Results, section, summary, table
from tests.conformance.rig import Cluster, cluster
from tests.conformance.suites import SUITES, Suite
from tests.controlplane.plane import LAST_LINES, ControlPlaneError
from tests.kit.pages import replaced

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
MARK = "conformance"
FLAGS = (
    "--provider=skeleton",
    # The order of the specs is the same in each run.
    "--ginkgo.seed=1",
    "--ginkgo.timeout=3h",
    "--ginkgo.no-color",
    "--ginkgo.v",
)
LOOK_SECONDS = 1.0


class Runner:
    """Suites with one scheduler after the other; what they leave behind goes to a folder."""

    def __init__(self, programs: Path, folder: Path, focus: str) -> None:
        self._programs = programs
        self._folder = folder
        self._focus = focus
        self._began = time.monotonic()

    def run(self, who: str, suite: Suite) -> list[reports.Spec]:
        kept = self._folder / f"{who}-{suite.name}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)

        def tell(text: str) -> None:
            click.echo(f"{time.monotonic() - self._began:6.0f} s  {who}: {text}", err=True)

        tell(f"starting a cluster for {suite.about}")
        with cluster(who, self._programs) as made:
            try:
                self._test(made, suite, kept, tell)
            finally:
                for log in made.folder.glob("*.log"):
                    shutil.copy(log, kept)
        specs = reports.read(read_report(kept))
        tell(f"{len(specs)} specs were run")
        return specs

    def _test(self, made: Cluster, suite: Suite, kept: Path, tell: Callable[[str], None]) -> None:
        path = kept / "e2e.log"
        progress = Progress(path)
        with path.open("wb") as log:
            command = [
                str(self._programs / "e2e.test"),
                *FLAGS,
                f"--kubeconfig={made.kubeconfig}",
                f"--ginkgo.label-filter={suite.labels}",
                f"--ginkgo.focus={self._focus or suite.focus}",
                f"--ginkgo.json-report={kept / 'report.json'}",
            ]
            # A Ctrl-C meant for us must not end it before we do.
            options = {"stdout": log, "stderr": subprocess.STDOUT, "start_new_session": True}
            with running(command, cwd=made.folder, **options) as process:
                while process.poll() is None:
                    made.check()
                    time.sleep(LOOK_SECONDS)
                    for line in progress.news():
                        tell(line)


def read_report(kept: Path) -> bytes:
    try:
        return (kept / "report.json").read_bytes()
    except FileNotFoundError:
        last = (kept / "e2e.log").read_text().splitlines()[-LAST_LINES:]
        raise reports.BrokenSuiteError("\n".join(("e2e.test made no report:", *last))) from None


def show(results: Results, suite: Suite, console: Console) -> None:
    head, *rows = table(results, suite)
    shown = Table(*head, title=escape(summary(results, suite)), title_justify="left")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)


@click.command(help=__doc__)
@click.option(
    "--scheduler",
    "schedulers",
    multiple=True,
    type=click.Choice([THEIRS, OURS]),
    help="May be repeated. [both, the original first]",
)
@click.option(
    "--suite",
    "names",
    multiple=True,
    type=click.Choice([suite.name for suite in SUITES]),
    help="May be repeated. [all]",
)
@click.option("--focus", default="", help="A regular expression: only specs whose name it matches.")
@click.option("--results", "folder", type=click.Path(file_okay=False, path_type=Path))
def main(
    schedulers: tuple[str, ...], names: tuple[str, ...], focus: str, folder: Path | None
) -> None:
    suites = [suite for suite in SUITES if suite.name in (names or (suite.name,))]
    # Whoever is ended ends what it has started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    folder = folder or Path("build", "conformance", time.strftime("%Y%m%d-%H%M%S"))
    results = Results(folder / "results.jsonl")
    try:
        runner = Runner(build_all(), folder.absolute(), focus)
        run = this_run()
        for suite in suites:
            for who in schedulers or (THEIRS, OURS):
                specs = runner.run(who, suite)
                # One that broke off is none that results are about.
                for line in (run, *(Result(suite.name, who, spec) for spec in specs)):
                    results.add(line)
    except (ControlPlaneError, reports.BrokenSuiteError) as error:
        raise click.ClickException(str(error)) from error
    for suite in suites:
        if any(results.rows(suite.name)):
            show(results, suite, Console())
    if results.complete:
        PAGE.write_text(replaced(PAGE.read_text(), MARK, section(results)))
    if problems := results.problems(suites):
        raise click.ClickException("\n".join(("not passed:", *problems)))


if __name__ == "__main__":
    main()
