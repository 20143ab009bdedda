"""What was measured, as lines of JSON: written when it is known, read when a run is taken up again.

A file may hold several runs; each begins with a line about the machine and the versions.
"""

import os
import platform
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec

from tests.bench.contestants import OURS, THEIRS, version

BACKLOG, STEADY, STOCK_LIMITS, TURNOVER = "backlog", "steady", "stock limits", "turnover"
HERE = Path(__file__).parent


class Case(msgspec.Struct, frozen=True):
    """What is compared: the same for everybody who is measured."""

    scenario: str
    nodes: int
    pods: int
    mode: str = BACKLOG
    # Pods created per second in steady mode, as it was asked for.
    rate: str = ""


class Entry(msgspec.Struct, frozen=True):
    """One measurement among all."""

    case: Case
    who: str
    round: int


class Figures(msgspec.Struct):
    """From the first binding to the last, unless said otherwise."""

    seconds: float
    pods_per_second: float
    # From the start of the process to the first binding.
    start_seconds: float
    scheduler_cpu_ms: float
    apiserver_cpu_ms: float
    etcd_cpu_ms: float
    # Of the program that measures.
    bench_cpu_ms: float
    # Since the start of the process.
    peak_megabytes: float
    # Until a pod is seen bound, from the moment it is to be created in steady mode, and from the
    # moment it could be bound in turnover.
    p50_ms: float = 0.0
    p90_ms: float = 0.0
    p99_ms: float = 0.0
    # What keeping decisions adds to the scheduler's CPU, and to time as a share; of the contestant
    # that keeps half of them.
    keeping_cpu_ms: float = 0.0
    keeping_seconds: float = 0.0

    @property
    def keeping_cpu(self) -> float:
        """The same as a share of what a pod takes without it, events and all."""
        return self.keeping_cpu_ms / (self.scheduler_cpu_ms - self.keeping_cpu_ms / 2)


class Run(msgspec.Struct, tag="run", tag_field="kind"):
    at: str
    processor: str
    cores: int
    memory_gigabytes: float
    system: str
    python: str
    commit: str
    versions: dict[str, str]
    load: float


class Measured(msgspec.Struct, tag="measured", tag_field="kind"):
    entry: Entry
    figures: Figures
    at: str
    # Load average of the machine before this measurement.
    load: float


class Failed(msgspec.Struct, tag="failed", tag_field="kind"):
    entry: Entry
    why: str
    at: str
    load: float


Line = Run | Measured | Failed
_decode = msgspec.json.Decoder(Line).decode


class Results:
    """A file of lines, and what they say."""

    def __init__(self, path: Path) -> None:
        self._path = path
        content = path.read_bytes() if path.exists() else b""
        # A run that was cut off may have left half a line; it is overwritten.
        self._length = content.rfind(b"\n") + 1
        self.lines: list[Line] = read(path, content[: self._length])

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.truncate(self._length)
            self._length += file.write(msgspec.json.encode(line) + b"\n")

    @property
    def measured(self) -> list[Measured]:
        return [line for line in self.lines if isinstance(line, Measured)]

    @property
    def failed(self) -> list[Failed]:
        """Those that were not measured later on."""
        done = {line.entry for line in self.measured}
        last = {line.entry: line for line in self.lines if isinstance(line, Failed)}
        return [line for entry, line in last.items() if entry not in done]

    @property
    def runs(self) -> list[Run]:
        return [line for line in self.lines if isinstance(line, Run)]

    def missing(self, wanted: Iterable[Entry]) -> list[Entry]:
        """What is still to be measured."""
        done = {line.entry for line in self.measured}
        return [entry for entry in wanted if entry not in done]


def read(path: Path, content: bytes) -> list[Line]:
    lines: list[Line] = []
    for number, text in enumerate(content.splitlines(), 1):
        try:
            lines.append(_decode(text))
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return lines


def this_run() -> Run:
    return Run(
        at=now(),
        processor=_field("/proc/cpuinfo", "model name") or platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gigabytes=round(_kilobytes("MemTotal") / (1 << 20), 1),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        commit=_commit(),
        versions={who: version(who) for who in (OURS, THEIRS, "kube-apiserver", "etcd")},
        load=load(),
    )


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def load() -> float:
    return round(os.getloadavg()[0], 2)


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _kilobytes(name: str) -> int:
    return int(_field("/proc/meminfo", name).split()[0])


def _commit() -> str:
    """Which state of this program; empty outside a work tree."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    told = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
    return told.stdout.strip()
