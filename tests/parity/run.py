"""Replays recorded decisions of kube-scheduler and compares everything it decided.

    python -m tests.parity.run [FILE…]

A file (by default each of `vectors/`) is a family: a scenario per line, that is a cluster, a
configuration and pending pods, with what kube-scheduler 1.37 made of them. Here the same objects
pass through the real parts of this program: decoding, configuration and profiles, feature gates,
cache, queue order and gating, PreFilter, Filter, scoring, Reserve, and the writes of resource
claims. Compared are the plugins of each profile, the order of the queue, per pod who gates it, per
node who rejects it with which code and reasons (and which later plugins would reject it too), per
plugin whether it steps aside and what it scores, raw and normalised, the totals, the best nodes,
the texts of failures, whom preemption would evict on which node, and which volumes and devices are
reserved.

Among equally good nodes the recording takes the first by name. The replay puts each pod where the
recording put it, and evicts and nominates whom it did, so one difference does not cause others;
except that later pods see the devices which were given to a pod here.
"""

import gzip
import io
import json
import lzma
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from kscheduler import logs
from tests.parity.vector_attempt import Attempt
from tests.parity.vector_cluster import Cluster
from tests.parity.vector_compare import (
    compare_attempt,
    compare_profiles,
    compare_queue_order,
    compare_reserve,
)
from tests.parity.vector_difference import Mismatch

VECTORS = Path(__file__).parent / "vectors"
SHOWN_PER_FAMILY = 20
OPENERS = {".gz": gzip.open, ".xz": lzma.open}


@dataclass
class Family:
    name: str
    scenarios: int = 0
    scenarios_equal: int = 0
    attempts: int = 0
    attempts_different: int = 0
    mismatches: list[tuple[str, Mismatch]] = field(default_factory=list)

    def add(self, scenario: dict, result: dict) -> None:
        """Replays one more scenario."""
        found = []
        try:
            for one in replay(scenario, result):
                if isinstance(one, Mismatch):
                    found.append(one)
                else:
                    self.attempts += 1
        except Exception as error:
            # The scenario is lost, the others need not be.
            where = traceback.format_exception(error)[-2:]
            found.append(Mismatch("", "", "", "replay", "no exception", "".join(where)))
        self.scenarios += 1
        self.scenarios_equal += not found
        self.attempts_different += len({one.pod for one in found} - {""})
        self.mismatches += [(scenario["name"], one) for one in found]

    def report(self) -> Iterator[str]:
        counts = (
            f"{self.scenarios_equal}/{self.scenarios} scenarios, "
            f"{self.attempts - self.attempts_different}/{self.attempts} pods"
        )
        yield f"{self.name}: {counts}"
        for scenario, mismatch in self.mismatches[:SHOWN_PER_FAMILY]:
            yield f"  {told(scenario, mismatch)}"
        hidden = len(self.mismatches) - SHOWN_PER_FAMILY
        if hidden > 0:
            yield f"  … and {hidden} more"


def main(paths: list[str]) -> int:
    families = [replay_family(Path(path)) for path in paths or sorted(VECTORS.glob("*.jsonl.*"))]
    for family in families:
        print("\n".join(family.report()))
    return 1 if any(family.mismatches for family in families) else 0


def replay_family(path: Path, every: int = 1) -> Family:
    """All scenarios of a family, or one of so many."""
    family = Family(path.name.split(".")[0])
    with silenced():
        for line in islice(lines(path), 0, None, every):
            family.add(line["scenario"], line["result"])
    return family


def replay(scenario: dict, result: dict) -> Iterator[Mismatch | Attempt]:
    """Every attempt that was compared, and every difference from what was recorded."""
    cluster = Cluster(scenario)
    yield from compare_profiles(result["profiles"], cluster.completed)
    yield from compare_queue_order(result, cluster.queue_order())
    for record in result["pods"]:
        attempt = Attempt(cluster, cluster.pending[record["pod"]])
        yield attempt
        yield from compare_attempt(record, attempt)
        yield from follow(record, attempt, applied=scenario.get("preemptionMode") == "apply")


def follow(record: dict, attempt: Attempt, *, applied: bool) -> Iterator[Mismatch]:
    """Lets the recorded outcome happen; Reserve is asked on the way."""
    cluster, pod = attempt.cluster, attempt.pod
    if record["outcome"] in ("scheduled", "reserveFailed"):
        status = attempt.reserve(record["chosen"])
        yield from compare_reserve(record, attempt, status)
    elif applied and record["outcome"] in ("unschedulable", "error"):
        answer = record.get("postFilter")
        node = answer.get("nominatedNode", "") if answer else ""
        if node:
            cluster.evict(answer.get("victims", ()))
            cluster.denominate_below(pod.priority, node)
        if answer is None or answer.get("hasResult"):
            cluster.nominate(pod, node)


@contextmanager
def silenced() -> Iterator[None]:
    """What the program logs meanwhile is of no interest: a thousand scenarios say it again."""
    logs.configure(logs.Logging(), stderr=io.BytesIO())
    try:
        yield
    finally:
        logs.configure(logs.Logging())


def told(scenario: str, mismatch: Mismatch) -> str:
    where = " ".join(
        part for part in (scenario, mismatch.pod, mismatch.node, mismatch.plugin) if part
    )
    return f"{where}: {mismatch.what}: wanted {mismatch.wanted!r}, got {mismatch.got!r}"


def lines(path: Path) -> Iterator[dict]:
    with OPENERS.get(path.suffix, open)(path, "rt") as text:
        for line in text:
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
