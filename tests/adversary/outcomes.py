"""Outcomes of hostile inputs: as lines of JSON, judged, and as a table for a page."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from tests.adversary.inputs import ROWS
from tests.bench.contestants import OURS, THEIRS
from tests.bench.report import about
from tests.bench.results import Run

# Ours may always take this long, and otherwise so many times as long as the original.
SECONDS = 1.0
TIMES = 2.0
# For an innocent pod, beyond what the hostile one may take.
INNOCENT_SECONDS = 2.0
MEGABYTES = 32.0
NOTHING = "-"


class Outcome(msgspec.Struct, tag="outcome", tag_field="kind"):
    """Of one input with one scheduler. Seconds are None if it did not happen in time."""

    row: str
    nodes: int
    who: str
    size: int
    # Until the hostile pod, or the plain one after hostile objects, was bound or refused.
    decided: float | None = None
    # Until the innocent pod was bound.
    innocent: float | None = None
    # Until another one was, created when all the others had been deleted.
    afterwards: float | None = None
    # Resident before anything was created, and after all of it was deleted.
    megabytes: float = 0.0
    megabytes_after: float = 0.0
    # None for a scheduler that goes on.
    exit_code: int | None = None
    # What the API server said if it did not admit the input.
    refused: str = ""

    @property
    def kept(self) -> float:
        return self.megabytes_after - self.megabytes

    @property
    def in_time(self) -> bool:
        return None not in (self.decided, self.innocent, self.afterwards)

    @property
    def worst_innocent(self) -> float | None:
        known = (self.innocent, self.afterwards)
        return None if None in known else max(known)  # type: ignore[type-var]

    def told(self) -> str:
        if self.refused:
            return f"not admitted: {self.refused}"
        lived = "" if self.exit_code is None else f", ENDED with code {self.exit_code}"
        return (
            f"decided {_seconds(self.decided)}, innocent {_seconds(self.innocent)}, "
            f"afterwards {_seconds(self.afterwards)}, "
            f"{self.megabytes:.0f} → {self.megabytes_after:.0f} MB{lived}"
        )


Line = Run | Outcome
Pair = tuple[Outcome | None, Outcome | None]
_decode = msgspec.json.Decoder(Line).decode


class Outcomes:
    """A file of lines; of two about the same the later one counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs: list[Run] = []
        self._known: dict[tuple[str, int, str], Outcome] = {}
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
            self._known[line.row, line.nodes, line.who] = line

    def get(self, row: str, nodes: int, who: str) -> Outcome | None:
        return self._known.get((row, nodes, who))

    @property
    def sizes(self) -> list[int]:
        return sorted({nodes for _, nodes, _ in self._known})

    def complete(self, rows: Iterable[str], sizes: Sequence[int]) -> bool:
        return all(
            self.get(row, nodes, who) for row in rows for nodes in sizes for who in (OURS, THEIRS)
        )

    def problems(self, rows: Iterable[str]) -> list[str]:
        """What must not be, of these rows, as far as ours was measured."""
        return [
            f"{row}, {nodes:,} nodes: {problem}"
            for row in rows
            for nodes in self.sizes
            for problem in judged(self.get(row, nodes, OURS), self.get(row, nodes, THEIRS))
        ]


def judged(ours: Outcome | None, theirs: Outcome | None) -> Iterator[str]:
    """`theirs` may be unknown; then only what ours may take in any case is allowed."""
    if ours is None:
        return
    if ours.refused:
        yield f"not admitted: {ours.refused}"
        return
    if ours.exit_code is not None:
        yield f"the process ended with code {ours.exit_code}"
        return
    original = theirs.decided if theirs is not None else None
    limit = max(SECONDS, TIMES * (original or 0.0))
    if ours.decided is None or ours.decided > limit:
        yield f"decided after {_seconds(ours.decided)}, at most {limit:.2f} s allowed"
    most = limit + INNOCENT_SECONDS
    for which in ("innocent", "afterwards"):
        took = getattr(ours, which)
        if took is None or took > most:
            yield f"{which}: bound after {_seconds(took)}, at most {most:.2f} s allowed"
    if ours.kept > MEGABYTES:
        yield f"{ours.kept:.0f} MB kept, at most {MEGABYTES:.0f} MB allowed"


def section(outcomes: Outcomes) -> str:
    """The table for the page, one line per input."""
    sizes = outcomes.sizes
    head = ["input", "created by"]
    for nodes in sizes:
        head += [f"decided, {nodes:,} nodes", f"innocent, {nodes:,} nodes"]
    head.append("MB kept")
    rules = ["---", "---", *["---:"] * (len(head) - 2)]
    lines = [head, rules, *(_cells(name, outcomes) for name in ROWS if _measured(name, outcomes))]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    parts = [*([about(outcomes.runs)] if outcomes.runs else []), table]
    return "\n\n".join(parts)


def _measured(name: str, outcomes: Outcomes) -> bool:
    return any(outcomes.get(name, nodes, OURS) for nodes in outcomes.sizes)


def _cells(name: str, outcomes: Outcomes) -> list[str]:
    """Seconds as `original / ours`."""
    row = ROWS[name]
    cells = [f"`{name}`, {row.size:,}: {row.attacks}", row.by]
    kept = []
    for nodes in outcomes.sizes:
        pair = [outcomes.get(name, nodes, who) for who in (THEIRS, OURS)]
        cells.append(" / ".join(_figure(one, "decided") for one in pair))
        cells.append(" / ".join(_figure(one, "worst_innocent") for one in pair))
        kept += [one.kept for one in pair[1:] if one is not None and one.exit_code is None]
    cells.append(f"{max(kept):.0f}" if kept else NOTHING)
    return cells


def _figure(one: Outcome | None, figure: str) -> str:
    if one is None:
        return NOTHING
    return "ended" if one.exit_code is not None else _seconds(getattr(one, figure)).rstrip(" s")


def _seconds(value: float | None) -> str:
    return "never" if value is None else f"{value:.2f} s"
