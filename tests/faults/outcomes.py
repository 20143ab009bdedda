"""Outcomes of the matrix: as lines of JSON, judged, and as a table for a page."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec

from tests.bench.contestants import OURS, THEIRS
from tests.bench.report import about
from tests.bench.results import Run
from tests.faults.row import Row
from tests.faults.verdict import Outcome

NOTHING = "-"
# Chance has a share in when a pod's pause ends, and Python starts slower than Go: ours may take so
# much longer.
SLACK_SECONDS = 0.25
SLACK_TIMES = 1.2

Line = Run | Outcome
Key = tuple[int, str, int]
_decode = msgspec.json.Decoder(Line).decode


class Outcomes:
    """A file of lines; of two about the same row, scheduler and seed the later one counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs: list[Run] = []
        self._known: dict[Key, Outcome] = {}
        content = path.read_bytes() if path.exists() else b""
        # A run that was cut off may have left half a line; it is overwritten.
        self._length = content.rfind(b"\n") + 1
        for text in content[: self._length].splitlines():
            self._note(_decode(text))

    def add(self, line: Line) -> None:
        self._note(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.truncate(self._length)
            self._length += file.write(msgspec.json.encode(line) + b"\n")

    def _note(self, line: Line) -> None:
        if isinstance(line, Run):
            self.runs.append(line)
        else:
            self._known[line.row, line.who, line.seed] = line

    def has(self, row: int, who: str, seed: int) -> bool:
        """Whether it is known and was run to its end."""
        known = self._known.get((row, who, seed))
        return known is not None and not known.failed

    def of(self, row: int, who: str) -> list[Outcome]:
        return [
            one for (number, name, _), one in self._known.items() if (number, name) == (row, who)
        ]

    @property
    def seeds(self) -> list[int]:
        return sorted({seed for _, _, seed in self._known})

    def problems(self, rows: Iterable[Row]) -> list[str]:
        """What must not be, with the command that shows it again."""
        return [f"row {row.number}: {problem}" for row in rows for problem in self._judged(row)]

    def _judged(self, row: Row) -> Iterator[str]:
        for one in self.of(row.number, OURS):
            for problem in one.problems:
                yield f"seed {one.seed}: {problem}"
        ours, theirs = (recovery(self.of(row.number, who)) for who in (OURS, THEIRS))
        if ours is not None and theirs is not None:
            limit = max(theirs + SLACK_SECONDS, theirs * SLACK_TIMES)
            if ours > limit:
                yield f"recovered after {ours:.1f} s, the original after {theirs:.1f} s"


def recovery(outcomes: Sequence[Outcome]) -> float | None:
    """The median of all rounds; None if there is one in which pods were lost."""
    known = [one.recovery for one in outcomes]
    return median(known) if known and None not in known else None  # type: ignore[type-var]


def section(outcomes: Outcomes, rows: Iterable[Row]) -> str:
    """The table for the page, one line per row, cells as `original / ours`."""
    head = [
        "row",
        "fault",
        "rounds",
        "pods",
        "lost",
        "twice",
        "overcommitted",
        "leaked",
        "recovered after, s",
        "exits",
        "besides",
    ]
    rules = ["---:", "---", *["---:"] * (len(head) - 3), "---"]
    lines = [head, rules, *(_cells(row, outcomes) for row in rows if outcomes.of(row.number, OURS))]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    told = f"Seeds: {', '.join(map(str, outcomes.seeds))}."
    return "\n\n".join([*([about(outcomes.runs)] if outcomes.runs else []), told, table])


def _cells(row: Row, outcomes: Outcomes) -> list[str]:
    both = {who: outcomes.of(row.number, who) for who in (THEIRS, OURS)}
    figures: dict[str, list[str]] = defaultdict(list)
    for some in both.values():
        took = recovery(some)
        figures["recovered"].append(
            NOTHING if not some else "never" if took is None else f"{took:.1f}"
        )
        for name in ("pods", "lost", "twice"):
            figures[name].append(_sum(some, name))
        figures["over"].append(_total([one.overcommitted + len(one.violations) for one in some]))
        figures["leaked"].append(_total([len(one.leaks) for one in some]))
        figures["exits"].append(_total([len(one.exits) for one in some]))
    rounds = "/".join(str(len(some)) for some in both.values())
    columns = ("pods", "lost", "twice", "over", "leaked", "recovered", "exits")
    told = [" / ".join(figures[name]) for name in columns]
    return [str(row.number), row.title, rounds, *told, _besides(both)]


def _besides(both: dict[str, list[Outcome]]) -> str:
    """Figures of this row alone, the medians of all rounds."""
    names = dict.fromkeys(name for some in both.values() for one in some for name in one.notes)
    parts = []
    for name in names:
        pair = [[one.notes[name] for one in some if name in one.notes] for some in both.values()]
        told = " / ".join(f"{median(values):g}" if values else NOTHING for values in pair)
        parts.append(f"{name}: {told}")
    return "; ".join(parts)


def _sum(outcomes: Sequence[Outcome], name: str) -> str:
    return _total([getattr(one, name) for one in outcomes])


def _total(values: Sequence[int]) -> str:
    return f"{sum(values):,}" if values else NOTHING
