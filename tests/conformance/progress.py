"""How far a run has come, read off what Ginkgo prints with `-v`."""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path

RULE = "-" * 30
TOTAL = re.compile(r"Will run (\d+) of \d+ specs")
# `• [4.069 seconds]`, `• [FAILED] [12.001 seconds]`, `S [SKIPPED] [0.012 seconds]`.
ENDED = re.compile(r"\S (?:\[([A-Z ]+)\] )?\[(\d+)\.\d+ seconds\]$")
# Labels, which stand in a spec's name and once more behind it.
LABELS = re.compile(r" ?\[[^\]]*\]")


class Progress:
    """A log that is being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        # A character, like a line, may be there by half.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._unfinished = ""
        self._last = self._spec = ""
        self._total = self._done = 0

    def news(self) -> Iterator[str]:
        """A line for each spec that has ended since the last time."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            content = log.read()
        self._read += len(content)
        *lines, self._unfinished = (self._unfinished + self._decoder.decode(content)).split("\n")
        for line in lines:
            yield from self._take(line)

    def _take(self, line: str) -> Iterator[str]:
        if self._last == RULE:
            self._spec = plain(line)
        self._last = line
        if found := TOTAL.match(line):
            self._total = int(found[1])
        elif found := ENDED.match(line):
            self._done += 1
            state = (found[1] or "passed").lower()
            yield f"{self._done} of {self._total}, {state} in {found[2]} s: {self._spec}"


def plain(name: str) -> str:
    """A spec's name without its labels."""
    return LABELS.sub("", name).strip()
