"""Replays recorded decisions of kube-scheduler and compares everything it decided.

    python -m tests.parity.run [FILE…]

A file (by default each of `vectors/`) is a family: a scenario per line, that is a cluster, a
configuration and pending pods, with what kube-scheduler 1.37 made of them. Here the same objects
pass through the real parts of this program: decoding, configuration and profiles, feature gates,
cache, queue order and gating, PreFilter, Filter, scoring and Reserve. Compared are the plugins of
each profile, the order of the queue, per pod who gates it, per node who rejects it with which code
and reasons (and which later plugins would reject it too), per plugin whether it steps aside and
what it scores, raw and normalised, the totals, the best nodes, the texts of failures, whom
preemption would evict on which node, and which volumes are reserved.

Among equally good nodes the recording takes the first by name. The replay puts each pod where the
recording put it, and evicts and nominates whom it did, so one difference does not cause others.

Plugins that are not built (`kscheduler.plugins.not_built`) do not run and their part of the
recording is not compared:

- Where one of them rejected a node, ours must reject it as the recording says the remaining plugins
  do, each on its own; where it held a pod back or ended its PreFilter, what came before it counts.
- Scores are asked for the nodes that were feasible in the recording, whoever made them so. Totals
  are ours plus the recorded contributions of plugins that are not built.
- The text of a failure is compared only if no such plugin had a part in it; PostFilter's answer
  only if, besides, all PostFilter plugins of the profile are built. DynamicResources has nothing to
  say there on pods without claims.
- A pod that asks for a resource behind which there are devices is left out: NodeResourcesFit and
  DynamicResources share the work on it.

A family that is about such plugins is `not yet`: what can be compared is, but it does not pass.
"""

import gzip
import io
import json
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from kscheduler import logs
from kscheduler.plugins import not_built
from tests.parity.vector_attempt import Attempt
from tests.parity.vector_cluster import Cluster
from tests.parity.vector_compare import (
    compare_attempt,
    compare_profiles,
    compare_queue_order,
    compare_reserve,
    compare_volumes,
)
from tests.parity.vector_difference import Mismatch

VECTORS = Path(__file__).parent / "vectors"
SHOWN_PER_FAMILY = 20

VOLUMES = {"VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"}
DEVICES = {"DynamicResources"}
PREEMPTION = {"DefaultPreemption"}
SPREAD = {"PodTopologySpread"}
POD_AFFINITY = {"InterPodAffinity"}
# Which plugins a family is about, besides those that every cluster needs.
SUBJECT = {
    "dra": DEVICES,
    "draadv": DEVICES,
    "gates": DEVICES,
    "mixed": VOLUMES | DEVICES | PREEMPTION | SPREAD | POD_AFFINITY,
    "podaffinity": POD_AFFINITY,
    "preemptapply": PREEMPTION,
    "preemption": PREEMPTION,
    "profiles": SPREAD | POD_AFFINITY,
    "spread": SPREAD,
    "spreaddefaults": SPREAD,
    "volbound": VOLUMES,
    "volwffc": VOLUMES,
}


@dataclass
class Family:
    name: str
    scenarios: int = 0
    scenarios_equal: int = 0
    attempts: int = 0
    attempts_different: int = 0
    mismatches: list[tuple[str, Mismatch]] = field(default_factory=list)

    @property
    def missing(self) -> list[str]:
        """Plugins the family is about that are not built."""
        family = re.split("[^a-z]", self.name)[0]
        return sorted(SUBJECT.get(family, set()) & not_built().keys())

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
        subject = f"not yet ({', '.join(self.missing)}); of the rest " if self.missing else ""
        yield f"{self.name}: {subject}{counts}"
        for scenario, mismatch in self.mismatches[:SHOWN_PER_FAMILY]:
            yield f"  {told(scenario, mismatch)}"
        hidden = len(self.mismatches) - SHOWN_PER_FAMILY
        if hidden > 0:
            yield f"  … and {hidden} more"


def main(paths: list[str]) -> int:
    families = [replay_family(Path(path)) for path in paths or sorted(VECTORS.glob("*.jsonl.gz"))]
    if not_built():
        print(f"not built, therefore left out: {', '.join(sorted(not_built()))}")
    for family in families:
        print("\n".join(family.report()))
    return 1 if any(family.mismatches for family in families) else 0


def replay_family(path: Path) -> Family:
    family = Family(path.name.split(".")[0])
    with silenced():
        for line in _lines(path):
            family.add(line["scenario"], line["result"])
    return family


def replay(scenario: dict, result: dict) -> Iterator[Mismatch | Attempt]:
    """Every attempt that was compared, and every difference from what was recorded."""
    cluster = Cluster(scenario)
    yield from compare_profiles(result["profiles"], cluster.completed)
    yield from compare_queue_order(result, cluster.queue_order())
    for record in result["pods"]:
        attempt = Attempt(cluster, cluster.pending[record["pod"]])
        if not attempt.left_out:
            yield attempt
        yield from compare_attempt(record, attempt)
        yield from follow(record, attempt, applied=scenario.get("preemptionMode") == "apply")


def follow(record: dict, attempt: Attempt, *, applied: bool) -> Iterator[Mismatch]:
    """Lets the recorded outcome happen; Reserve is asked on the way."""
    cluster, pod = attempt.cluster, attempt.pod
    if record["outcome"] in ("scheduled", "reserveFailed"):
        node = record["chosen"]
        placed = cluster.place(pod, node)
        status = attempt.framework.run_reserve(attempt.cycle, placed, node)
        if not attempt.left_out:
            yield from compare_reserve(record, status)
        yield from compare_volumes(record, attempt)
        if record["outcome"] == "reserveFailed":
            attempt.framework.run_unreserve(attempt.cycle, placed, node)
            cluster.take_back(pod)
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


def _lines(path: Path) -> Iterator[dict]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for line in lines:
            yield json.loads(line)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
