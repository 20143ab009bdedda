"""Explanations against the recordings of kube-scheduler: the record of a decision tells the truth.

    python -m tests.parity.records [FILE…]

Every recorded pod is decided by the scheduler's own algorithm, the decision is kept and explained,
and what the explanation tells is compared: per node who rejects it and why, per plugin the raw and
normalised scores, the totals, the ties, and the victims of preemption.
"""

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from kscheduler.api.explanation import AttemptRecord
from kscheduler.cycle.attempt import Failed, Placement, Unschedulable, at_once
from kscheduler.cycle.failure import Failure
from kscheduler.decisions.decision_log import DecisionLog
from kscheduler.decisions.explain import attempt_of, decision_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.status import Code, Status
from tests.parity.run import VECTORS, follow, lines, silenced
from tests.parity.vector_attempt import Attempt
from tests.parity.vector_cluster import Cluster

TRIED = ("scheduled", "reserveFailed", "unschedulable")


def main(paths: list[str]) -> int:
    failed = 0
    for path in paths or sorted(VECTORS.glob("*.jsonl.*")):
        told, found = differences(Path(path))
        failed += bool(found)
        print(f"{Path(path).name}: {told} decisions explained, {len(found)} differences")
        for line in found[:20]:
            print(f"  {line}")
    return 1 if failed else 0


def differences(path: Path, every: int = 1) -> tuple[int, list[str]]:
    """How many decisions were explained, and what is not as recorded."""
    count, found = 0, []
    with silenced():
        for line in islice(lines(path), 0, None, every):
            scenario = line["scenario"]
            cluster = Cluster(scenario)
            for recorded in line["result"]["pods"]:
                attempt = Attempt(cluster, cluster.pending[recorded["pod"]])
                if recorded["outcome"] in TRIED and attempt.framework is not None:
                    count += 1
                    where = f"{scenario['name']} {recorded['pod']}"
                    found += [f"{where}: {one}" for one in _compared(recorded, attempt)]
                    # The attempt's own state, as `follow` goes on from it.
                    attempt.find()
                applied = scenario.get("preemptionMode") == "apply"
                for _ in follow(recorded, attempt, applied=applied):
                    """Not of interest here."""
    return count, found


def _compared(recorded: dict, attempt: Attempt) -> Iterator[str]:
    decided = attempt._attempt(CycleState())
    outcome = at_once(attempt.cluster.algorithm.schedule_pod(decided))
    log = DecisionLog()
    log.decided(decided, outcome, now=1.0)
    if isinstance(outcome, Failed):
        yield f"failed: {outcome.status.message}"
        return
    if decided.record is None:
        yield "not recorded"
        return
    told = attempt_of(decided.record)
    if isinstance(outcome, Placement):
        log.ended(decided, None, now=2.0)
        yield from _scores(recorded, told)
    else:
        yield from _victims(recorded, attempt, decided, outcome, log)
    # Nodes that were not visited, because one was enough, are not told about.
    is_whole = isinstance(outcome, Unschedulable) or told.nodes.not_evaluated == 0
    rejected = recorded["preFilter"].get("status")
    if rejected is not None:
        (told_of,) = told.rejections
        wanted = (rejected["plugin"], ", ".join(rejected["reasons"]), told.nodes.total)
        if (told_of.plugin, told_of.reason, told_of.count) != wanted:
            yield f"PreFilter: wanted {wanted}, told {told_of}"
    is_judged = rejected is None and not recorded.get("nominatedOnly")
    if is_judged and is_whole:
        yield from _rejections(recorded, told)
    (entry,) = log.all()
    if not decision_of(entry).summary:
        yield "no summary"


def _rejections(recorded: dict, told: AttemptRecord) -> Iterator[str]:
    found: dict[str, dict] = {}
    for one in told.rejections:
        if one.shortage is not None and one.shortage.least_short_by.startswith(("-", "0")):
            yield f"{one.reason}: short by {one.shortage.least_short_by} on {one.shortage.node}"
        if any(not 0 < detail.count <= one.count for detail in one.details):
            yield f"{one.reason}: of {one.count} nodes, {one.details}"
        if one.by_pre_filter:
            continue
        if len(one.nodes) != one.count:
            yield f"{one.reason}: {one.count} nodes, {len(one.nodes)} names"
        for node in one.nodes:
            status = found.setdefault(node, {"plugin": one.plugin, "reasons": []})
            status["reasons"].append(one.reason)
    wanted = {
        node: {"plugin": status["plugin"], "reasons": sorted(status["reasons"])}
        for node, status in recorded.get("rejected", {}).items()
    }
    for status in found.values():
        status["reasons"].sort()
    for node in sorted(wanted.keys() | found.keys()):
        if wanted.get(node) != found.get(node):
            yield f"{node}: wanted {wanted.get(node)}, told {found.get(node)}"


def _scores(recorded: dict, told: AttemptRecord) -> Iterator[str]:
    table = told.scores
    if table is None:
        return
    # Without plugins that score the first node found ends the search.
    names = recorded["feasible"]
    if told.nodes.feasible != len(table.nodes):
        yield f"{told.nodes.feasible} feasible nodes, {len(table.nodes)} of them scored"
    by_name = {one.node: one for one in table.nodes}
    if sorted(names) != sorted(by_name):
        yield f"feasible: wanted {names}, told {sorted(by_name)}"
        return
    totals = [by_name[name].total for name in names]
    if recorded["total"] != totals:
        yield f"total: wanted {recorded['total']}, told {totals}"
    tied = sorted(one.node for one in table.nodes[: table.ties])
    if tied != sorted(recorded["ties"]) or told.node not in tied:
        yield f"ties: wanted {recorded['ties']}, told {tied} and {told.node}"
    others = [(total, name) for total, name in zip(totals, names, strict=True) if name != told.node]
    best = max(total for total, _ in others)
    if table.margin != by_name[told.node].total - best or (best, table.runner_up) not in others:
        yield f"runner-up: {table.runner_up} by {table.margin}, wanted one with {best}"
    wanted = recorded.get("scores") or {}
    told_plugins = [one.name for one in table.plugins]
    if sorted(wanted) != sorted(told_plugins):
        yield f"plugins: wanted {sorted(wanted)}, told {sorted(told_plugins)}"
        return
    for index, plugin in enumerate(table.plugins):
        weighted = sum(one.weight for one in table.plugins if one.name == plugin.name)
        if weighted != plugin.weight:
            yield f"{plugin.name} is told twice"
        for kind in ("raw", "normalized"):
            got = [getattr(by_name[name], kind)[index] for name in names]
            if wanted[plugin.name][kind] != got:
                yield f"{plugin.name} {kind}: wanted {wanted[plugin.name][kind]}, told {got}"


def _victims(
    recorded: dict, attempt: Attempt, decided, outcome: Unschedulable, log: DecisionLog
) -> Iterator[str]:
    nominated = ""
    answer = recorded.get("postFilter")
    if answer:
        attempt.cycle = decided.cycle
        nominated = attempt.post_filter(outcome.diagnosis).nominated_node or ""
    failure = Failure(Status(Code.UNSCHEDULABLE, (outcome.message,)), nominated_node=nominated)
    log.ended(decided, failure, now=2.0)
    (entry,) = log.all()
    told = decision_of(entry).last
    victims = [f"{one.namespace}/{one.name}" for one in told.victims]
    wanted = (answer or {}).get("victims", [])
    if victims != wanted:
        yield f"victims: wanted {wanted}, told {victims}"
    violations = sum(one.violates_budget for one in told.victims)
    if violations != (answer or {}).get("pdbViolations", 0):
        yield f"budgets violated: wanted {answer.get('pdbViolations', 0)}, told {violations}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
