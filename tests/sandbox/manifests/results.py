"""Placements on all clusters: kept as lines of JSON, compared, and as a table."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from tests.bench.contestants import OURS, THEIRS
from tests.sandbox.manifests.clusters import REAL, SANDBOX
from tests.sandbox.manifests.state import Counts


class Case(msgspec.Struct, frozen=True):
    """A server, and the scheduler on it; `again` tells the second run of the same."""

    server: str
    who: str
    again: bool = False

    def __str__(self) -> str:
        return f"{self.server}/{self.who}{'/again' if self.again else ''}"


TRUTH, TRUTH_AGAIN = Case(REAL, THEIRS), Case(REAL, THEIRS, again=True)
OTHERS = (Case(SANDBOX, OURS), Case(SANDBOX, THEIRS), Case(REAL, OURS))
CASES = (*OTHERS[:2], TRUTH, TRUTH_AGAIN, OTHERS[2])


class Line(msgspec.Struct):
    case: Case
    manifest: str
    counts: Counts


class Results:
    """A file of lines; of two about the same the later one counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[tuple[Case, str], Counts] = {}
        if path.exists():
            for text in path.read_bytes().splitlines():
                line = msgspec.json.decode(text, type=Line)
                self._known[line.case, line.manifest] = line.counts

    def add(self, case: Case, manifest: str, counts: Counts) -> None:
        self._known[case, manifest] = counts
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(Line(case, manifest, counts)) + b"\n")

    def complete(self, manifests: Iterable[str]) -> bool:
        return all((case, name) in self._known for case in CASES for name in manifests)

    def truth(self, manifest: str) -> Counts | None:
        """What the original does on the real server; None where two runs differ, or are unknown."""
        first, second = (self._known.get((one, manifest)) for one in (TRUTH, TRUTH_AGAIN))
        return first if first == second else None

    def expected(self, manifests: Iterable[str]) -> dict[str, Counts | None]:
        return {name: self.truth(name) for name in manifests}

    def verdict(self, case: Case, manifest: str) -> str:
        """`same`, or where the pods are instead; "" if it is unknown, or there is no truth."""
        truth, found = self.truth(manifest), self._known.get((case, manifest))
        if truth is None or found is None:
            return ""
        return "same" if found == truth else shown(found)

    def differences(self, manifests: Iterable[str]) -> list[str]:
        return [
            f"{name} on {case}: {verdict}; the original: {shown(self.truth(name) or {})}"
            for name in manifests
            for case in OTHERS
            if (verdict := self.verdict(case, name)) not in ("", "same")
        ]


def shown(counts: Counts) -> str:
    """`general-a 2, general-b 2, waiting 1`, under the workload's name if there are several."""
    told = {
        workload: ", ".join(f"{group} {count}" for group, count in groups.items())
        for workload, groups in counts.items()
    }
    if len(told) == 1:
        return next(iter(told.values()))
    return "; ".join(f"{workload}: {text}" for workload, text in told.items())


def section(results: Results, manifests: Sequence[Path]) -> str:
    """The table for the page."""
    heads = ["manifest", f"{THEIRS} on {REAL}", *(f"{one.who} on {one.server}" for one in OTHERS)]
    rows = [heads, ["---"] * len(heads)]
    for path in manifests:
        truth = results.truth(path.stem)
        link = f"[{path.stem}](../tests/sandbox/manifests/{path.name})"
        told = "varies from run to run" if truth is None else shown(truth)
        rows.append([link, told, *(results.verdict(case, path.stem) or "-" for case in OTHERS)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
