"""PostFilter against the recording: its answer, and which pods would have to go on which node."""

import time
from collections.abc import Iterator

import numpy as np

from kscheduler.api.small_groups import PodDisruptionBudget
from kscheduler.cycle.attempt import Unschedulable
from kscheduler.extension_points import Point
from kscheduler.framework.status import Code, Diagnosis
from kscheduler.runtime.preemption.candidate import pick_nodes_for_preemption
from kscheduler.runtime.preemption.dry_run import DryRun
from kscheduler.runtime.preemption.potential_victims import DisruptionBudgets
from tests.parity.vector_attempt import Attempt, as_recorded
from tests.parity.vector_difference import Difference, differ


def compare_post_filter(
    record: dict, attempt: Attempt, found: Unschedulable
) -> Iterator[Difference]:
    """For an attempt that found no node; what PostFilter writes is written."""
    if not attempt.effective[Point.POST_FILTER]:
        yield from differ("message", record["message"], found.message)
        return
    wanted = record["postFilter"]
    diagnosis = found.diagnosis
    result = attempt.post_filter(diagnosis)
    yield from differ("postFilter.status", wanted["status"], as_recorded(result.status))
    yield from differ("postFilter.message", wanted["message"], result.status.message)
    yield from differ(
        "postFilter.hasResult", wanted["hasResult"], result.nominated_node is not None
    )
    node = result.nominated_node or ""
    yield from differ("postFilter.nominatedNode", wanted["nominatedNode"], node)
    yield from _compare_dry_run(wanted, attempt, diagnosis)
    diagnosis.post_filter_message = result.status.message
    yield from differ("message", record["message"], found.message)


def _compare_dry_run(wanted: dict, attempt: Attempt, diagnosis: Diagnosis) -> Iterator[Difference]:
    if "candidates" not in wanted and "rejected" not in wanted:
        return
    now_ns = time.time_ns()
    budgets = DisruptionBudgets(attempt.cluster.listers.lister(PodDisruptionBudget).items())
    dry_run = DryRun(
        attempt.framework,
        attempt.cycle,
        attempt.pod,
        attempt.nodes,
        budgets=budgets,
        now_ns=now_ns,
    )
    rows = _worth_trying(attempt, diagnosis)
    tried = dry_run.run(rows, len(rows))
    candidates = {
        one.node: {
            "victims": [victim.key for victim in one.victims],
            "pdbViolations": one.num_pdb_violations,
        }
        for one in tried.candidates
    }
    recorded, rejected = wanted.get("candidates", {}), attempt.by_node(tried.charges)
    for node in recorded.keys() | candidates.keys():
        one, other = recorded.get(node), candidates.get(node)
        yield from differ("postFilter.candidates", one, other, node=node)
    for node in wanted.get("rejected", {}).keys() | rejected.keys():
        one, other = wanted.get("rejected", {}).get(node), rejected.get(node)
        yield from differ("postFilter.rejected", one, _without_empty(other), node=node)
    ties = [one.node for one in pick_nodes_for_preemption(tried.candidates, now_ns)]
    yield from differ("postFilter.ties", wanted.get("ties", []), ties)
    chosen = candidates.get(wanted["nominatedNode"], {})
    yield from differ("postFilter.victims", wanted.get("victims", []), chosen.get("victims", []))
    yield from differ(
        "postFilter.pdbViolations",
        wanted.get("pdbViolations", 0),
        chosen.get("pdbViolations", 0),
    )


def _worth_trying(attempt: Attempt, diagnosis: Diagnosis) -> np.ndarray:
    """Rows whose rejection evictions may lift."""
    statuses = diagnosis.status_by_row()
    rows = [
        row
        for row in attempt.nodes.order.tolist()
        if statuses.get(row, diagnosis.absent).code is Code.UNSCHEDULABLE
    ]
    return np.array(rows, np.intp)


def _without_empty(status: dict | None) -> dict | None:
    return status and {key: value for key, value in status.items() if value}
