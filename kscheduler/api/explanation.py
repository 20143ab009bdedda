"""kscheduler.dev/v1alpha1: what the scheduler tells about its decisions.

Decision, PendingPod and SchedulerStatus are read-only; a PlacementReview is a question that is
answered in its status and not stored. Lists of scores run parallel to a list of plugin names, so
that 500 nodes and eight plugins stay readable and small.

Whoever may not list nodes gets counts instead of node names; whoever may not get pods in a
namespace does not get names of pods there. `partial` is then set.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct
from kscheduler.api.resources import Resource

GROUP = "kscheduler.dev"
VERSION = "v1alpha1"

# Outcomes of an attempt.
SCHEDULED = "Scheduled"
UNSCHEDULABLE = "Unschedulable"
ERROR = "Error"

# The configuration is read once, at the start.
CONFIGURATION_GENERATION = 1


class Shortage(ApiStruct):
    """Numbers of a reason that has them, in the resource's own notation: `250m`, `3Gi`."""

    resource: str = ""
    asked: str = ""
    # On the rejected node that has most of it left.
    most_free: str = ""
    least_short_by: str = ""
    node: str = ""


class RejectionDetail(ApiStruct):
    """What a reason leaves out, and for how many of its nodes that holds: the taint, the port, the
    term, the constraint with its counts. A node may count under several.
    """

    text: str = ""
    count: int = 0


class RejectedNodes(ApiStruct):
    """Nodes that one plugin rejected for one reason."""

    plugin: str = ""
    reason: str = ""
    count: int = 0
    # Whether room could be made by evicting pods.
    preemption_might_help: bool = False
    # Left out by PreFilter; no Filter plugin was asked about them.
    by_pre_filter: bool = False
    nodes: tuple[str, ...] = ()
    shortage: Shortage | None = None
    # The largest first.
    details: tuple[RejectionDetail, ...] = ()


class ScorePlugin(ApiStruct):
    name: str = ""
    weight: int = 0


class NodeScore(ApiStruct, omit_defaults=False):
    """One feasible node; the lists have an entry per plugin of the table. Weighted is normalized
    times weight.
    """

    node: str
    total: int
    raw: tuple[int, ...]
    normalized: tuple[int, ...]
    # What extenders added to the total.
    from_extenders: int = 0


class ScoreTable(ApiStruct):
    """Feasible nodes, the best first; among equals in the order in which they were found."""

    plugins: tuple[ScorePlugin, ...] = ()
    nodes: tuple[NodeScore, ...] = ()
    # Scores of extenders are in the totals only.
    extenders_scored: bool = False
    # The total of the best node that was not chosen, and how far it is behind.
    runner_up: str = ""
    margin: int | None = None
    # How many nodes shared the highest total, the first ones of the table; one of them is drawn.
    ties: int = 0


class Victim(ApiStruct):
    """A pod evicted to make room, or that would be."""

    namespace: str = ""
    name: str = ""
    priority: int = 0
    # Whether a disruption budget is violated by it.
    violates_budget: bool = False
    # Names of the disruption budgets that select it.
    budgets: tuple[str, ...] = ()
    # In a review: the node that would take it next, "" if none would.
    next_node: str = ""


class QueueWait(ApiStruct, omit_defaults=False):
    """A stretch of waiting: "Gated", "Unschedulable", "BackingOff" or "Active"."""

    queue: str = ""
    seconds: float = 0.0


class ExtenderAnswer(ApiStruct):
    """What an extender said to Filter, Prioritize or Bind."""

    extender: str = ""
    verb: str = ""
    # Nodes that it was asked about, and those it let pass, or gave a score.
    asked: int = 0
    passed: int = 0
    # Why there is no answer; `ignored` if the attempt went on without it.
    error: str = ""
    ignored: bool = False


class PluginFault(ApiStruct):
    """An out-of-tree plugin that did not keep to the contract during the attempt."""

    plugin: str = ""
    point: str = ""
    # "exception", "timeout", "answer", "score" or "mutation".
    kind: str = ""
    message: str = ""


class Step(ApiStruct):
    """An answer after the decision: of Reserve, Permit, PreBind or Bind. `plugin` is the one that
    ended the attempt there, or the extender that bound the pod.
    """

    point: str = ""
    plugin: str = ""
    code: str = ""
    message: str = ""


class NodeCounts(ApiStruct, omit_defaults=False):
    """`notEvaluated` nodes were never looked at: enough others had been found (sampling), or the
    nominated node took the pod.
    """

    total: int = 0
    evaluated: int = 0
    feasible: int = 0
    not_evaluated: int = 0


class AttemptRecord(ApiStruct):
    """One attempt, whole."""

    number: int = 0
    time: str = ""
    # In the queue before this attempt, since the last one or since it was created; where; and the
    # event that ended the wait for one.
    waited_seconds: float = 0.0
    waits: tuple[QueueWait, ...] = ()
    woken_by: str = ""
    duration_seconds: float = 0.0
    snapshot_generation: int = 0
    configuration_generation: int = 0
    outcome: str = ""
    # The sentence that the pod's condition and event have.
    message: str = ""
    nodes: NodeCounts = NodeCounts()
    # Set if one node was tried alone and took the pod: "nominated", or "batch" where the pod before
    # could not be told from this one.
    only_tried: str = ""
    rejections: tuple[RejectedNodes, ...] = ()
    scores: ScoreTable | None = None
    node: str = ""
    # Nominated for the pod when the attempt began, and when it ended.
    nominated_before: str = ""
    nominated_node: str = ""
    victims: tuple[Victim, ...] = ()
    steps: tuple[Step, ...] = ()
    extenders: tuple[ExtenderAnswer, ...] = ()
    faults: tuple[PluginFault, ...] = ()


class OutcomeCount(ApiStruct):
    """Attempts that ended alike."""

    outcome: str = ""
    message: str = ""
    count: int = 0
    first_time: str = ""
    last_time: str = ""


class Decision(ApiObject):
    """Why a pod is where it is, or is not anywhere; named like the pod."""

    # The answer in one sentence.
    summary: str = ""
    outcome: str = ""
    node: str = ""
    scheduler_name: str = ""
    pod_uid: str = ""
    attempts: int = 0
    outcomes: tuple[OutcomeCount, ...] = ()
    # The first is left out where it is the last.
    first: AttemptRecord | None = None
    last: AttemptRecord | None = None
    # True if node names or pods of others are left out because the asker may not see them.
    partial: bool = False


class WakingEvent(ApiStruct):
    """An event that makes the queue try the pod again, if the plugin's hint agrees."""

    plugin: str = ""
    # As upstream labels it: "NodeAdd", "AssignedPodDelete".
    event: str = ""
    # In words: "a node is added".
    description: str = ""


class PendingPod(ApiObject):
    """A pod that the scheduling queue knows; named like the pod."""

    # In one sentence.
    summary: str = ""
    # "Active", "BackingOff", "Unschedulable", "Gated", "InFlight" or "Binding".
    queue: str = ""
    since: str = ""
    first_attempt_time: str = ""
    attempts: int = 0
    backoff_until: str = ""
    scheduler_name: str = ""
    pod_uid: str = ""
    priority: int = 0
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    gating_plugin: str = ""
    scheduling_gates: tuple[str, ...] = ()
    nominated_node: str = ""
    # What the last attempt said.
    message: str = ""
    wakes_on: tuple[WakingEvent, ...] = ()


class PluginHealth(ApiStruct):
    name: str = ""
    profile: str = ""
    healthy: bool = True
    faults: int = 0
    message: str = ""


class SchedulerStatus(ApiObject):
    """One instance of the scheduler; named like its identity."""

    version: str = ""
    kubernetes_version: str = ""
    identity: str = ""
    leader: bool = False
    started: str = ""
    profiles: tuple[str, ...] = ()
    configuration_hash: str = ""
    configuration_generation: int = 0
    snapshot_generation: int = 0
    # By queue: active, backoff, unschedulable, gated.
    queue: Mapping[str, int] = EMPTY
    # Nodes, pods, assumedPods.
    cache: Mapping[str, int] = EMPTY
    # Decisions kept, their bytes, and how many fell out.
    decisions: Mapping[str, int] = EMPTY
    # Per second over the last minute: scheduled, unschedulable, error.
    rates: Mapping[str, float] = EMPTY
    plugins: tuple[PluginHealth, ...] = ()


class NodesToAdd(ApiStruct):
    """Nodes of one shape: like a node that exists, or as written."""

    count: int = 1
    like: str = ""
    # A Node of core/v1.
    node: msgspec.Raw | None = None


class PlacementReviewSpec(ApiStruct):
    # Pods of core/v1, in the order in which they are placed.
    pods: tuple[msgspec.Raw, ...] = ()
    # Each is placed this many times.
    replicas: int = 1
    add_nodes: tuple[NodesToAdd, ...] = ()
    remove_nodes: tuple[str, ...] = ()
    cordon_nodes: tuple[str, ...] = ()
    # Their pods, but those of DaemonSets, are placed anew.
    drain_nodes: tuple[str, ...] = ()
    # A KubeSchedulerConfiguration to decide by instead of the one in force.
    configuration: str = ""
    allow_preemption: bool = False
    # "Summary", "Candidates" or "All": how much is told per placement.
    detail: str = "Summary"


class ReviewedPlacement(ApiStruct):
    namespace: str = ""
    name: str = ""
    node: str = ""
    outcome: str = ""
    message: str = ""
    explanation: AttemptRecord | None = None
    victims: tuple[Victim, ...] = ()
    # The nodes that had the highest score, if there are several: the scheduler draws one of them.
    # At most 100.
    ties: tuple[str, ...] = ()


class BudgetLeft(ApiStruct, omit_defaults=False):
    """A disruption budget of evicted or drained pods: disruptions allowed now, and after them.
    Below zero, the budget is violated.
    """

    namespace: str = ""
    name: str = ""
    allowed: int = 0
    left: int = 0


class Remedy(ApiStruct):
    """A single change, and how many more nodes could take the pod then."""

    change: str = ""
    more_nodes: int = 0


class PlacementReviewStatus(ApiStruct):
    summary: str = ""
    fits: bool = False
    placed: int = 0
    total: int = 0
    placements: tuple[ReviewedPlacement, ...] = ()
    # What stops the rest, and what would help, the smallest change first.
    message: str = ""
    remedies: tuple[Remedy, ...] = ()
    budgets: tuple[BudgetLeft, ...] = ()
    snapshot_generation: int = 0
    duration_seconds: float = 0.0
    partial: bool = False


class PlacementReview(ApiObject):
    """What if: pods are placed on a copy of the cluster with some changes."""

    spec: PlacementReviewSpec = PlacementReviewSpec()
    status: PlacementReviewStatus = PlacementReviewStatus()


DECISIONS = Resource(GROUP, VERSION, "decisions", "Decision", Decision)
PENDING_PODS = Resource(GROUP, VERSION, "pendingpods", "PendingPod", PendingPod)
SCHEDULER_STATUSES = Resource(
    GROUP, VERSION, "schedulerstatuses", "SchedulerStatus", SchedulerStatus, namespaced=False
)
PLACEMENT_REVIEWS = Resource(
    GROUP, VERSION, "placementreviews", "PlacementReview", PlacementReview, namespaced=False
)
