"""Results of both schedulers: as lines of JSON, judged, and as tables."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.bench.contestants import OURS, THEIRS
from tests.bench.report import about
from tests.bench.results import Run
from tests.conformance.progress import plain
from tests.conformance.reports import PASSED, Spec
from tests.conformance.suites import SUITES, Suite

UNKNOWN = "-"


class Result(msgspec.Struct, tag="result", tag_field="kind"):
    suite: str
    who: str
    spec: Spec


Line = Run | Result
_decode = msgspec.json.Decoder(Line).decode


class Results:
    """A file of lines; of two about the same the later one counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs: list[Run] = []
        # Suite and name of the spec → scheduler → result.
        self._known: dict[tuple[str, str], dict[str, Spec]] = {}
        if path.exists():
            for text in path.read_bytes().splitlines():
                self._note(_decode(text))

    def add(self, line: Line) -> None:
        self._note(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")

    def _note(self, line: Line) -> None:
        if isinstance(line, Run):
            self.runs.append(line)
        else:
            self._known.setdefault((line.suite, line.spec.name), {})[line.who] = line.spec

    def rows(self, suite: str) -> Iterator[tuple[str, Spec | None, Spec | None]]:
        """Name of a spec, what it said about the original, what about ours."""
        for (where, name), known in sorted(self._known.items()):
            if where == suite:
                yield name, known.get(THEIRS), known.get(OURS)

    def problems(self, suites: Iterable[Suite]) -> list[str]:
        """Specs that ours does not pass, unless the original does not either."""
        return [
            f"{name}\n  {ours.state}: {ours.reason}"
            for suite in suites
            for name, theirs, ours in self.rows(suite.name)
            if ours is not None
            and ours.state != PASSED
            and (theirs is None or theirs.state == PASSED)
        ]

    @property
    def complete(self) -> bool:
        """Whether every spec of all suites is known of both."""
        return all(
            sum(bool(theirs and ours) for _, theirs, ours in self.rows(suite.name)) == suite.specs
            for suite in SUITES
        )


def summary(results: Results, suite: Suite) -> str:
    """`[sig-scheduling]`: kube-scheduler 28 of 28, kscheduler 28 of 28"""
    rows = [*results.rows(suite.name)]
    counts = (
        (THEIRS, [theirs for _, theirs, _ in rows if theirs]),
        (OURS, [ours for _, _, ours in rows if ours]),
    )
    told = [
        f"{who} {sum(spec.state == PASSED for spec in specs)} of {len(specs)}"
        for who, specs in counts
        if specs
    ]
    return f"{suite.about}: {', '.join(told)}"


def table(results: Results, suite: Suite) -> list[list[str]]:
    """A head, and a row for each spec."""
    return [
        ["spec", THEIRS, OURS],
        *(
            [plain(name), _cell(theirs), _cell(ours)]
            for name, theirs, ours in results.rows(suite.name)
        ),
    ]


def _cell(spec: Spec | None) -> str:
    return UNKNOWN if spec is None else f"{spec.state}, {spec.seconds:.0f} s"


def section(results: Results, suites: Sequence[Suite] = SUITES) -> str:
    """The tables for the page."""
    parts = [about(results.runs)] if results.runs else []
    for suite in suites:
        head, *rows = table(results, suite)
        lines = [head, ["---", "---", "---"], *rows]
        parts += [
            f"{summary(results, suite)}.",
            "\n".join(f"| {' | '.join(cells)} |" for cells in lines),
        ]
    return "\n\n".join(parts)
