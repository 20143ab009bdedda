"""kscheduler.dev/v1alpha1: what the scheduler tells about its decisions.

Decision, PendingPod, NodeInfo and SchedulerStatus are read-only; a PlacementReview is a question
that is answered in its status and not stored. Lists of scores run parallel to a list of plugin
names, so that 500 nodes and eight plugins stay readable and small.

Whoever may not list nodes gets counts instead of names and amounts of nodes; whoever may not get
pods in a namespace does not get names of pods there. `partial` is then set.

Docstrings and comments here are what `kubectl explain` shows (`serving.explanation.schemas`): every
field has a comment above it.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct
from kscheduler.api.resources import Resource

GROUP = "kscheduler.dev"
VERSION = "v1alpha1"

# Annotations on the Lease, by which the leader says where it can be asked: its pod
# ("namespace/name"), its secure port, host:port where that is reached without a pod, and the hex
# digits of its certificate's SHA-256.
POD_ANNOTATION = f"{GROUP}/pod"
PORT_ANNOTATION = f"{GROUP}/port"
ADDRESS_ANNOTATION = f"{GROUP}/address"
CERTIFICATE_ANNOTATION = f"{GROUP}/certificate-sha256"

# Outcomes of an attempt.
SCHEDULED = "Scheduled"
UNSCHEDULABLE = "Unschedulable"
ERROR = "Error"

# The configuration is read once, at the start.
CONFIGURATION_GENERATION = 1


class Shortage(ApiStruct):
    """Numbers of a reason that has them, in the resource's own notation: `250m`, `3Gi`. Askers that
    may not list nodes are told only what was asked.
    """

    # The resource that is short: cpu, memory, pods, or an extended one.
    resource: str = ""
    # How much of it the pod asks for.
    asked: str = ""
    # On the rejected node that has most of it left.
    most_free: str = ""
    # What the pod asks for beyond that: the least that is missing on any of the nodes.
    least_short_by: str = ""
    # The node that has most of it left.
    node: str = ""


class RejectionDetail(ApiStruct):
    """Part that a reason leaves out, and for how many of its nodes it holds. A node may count under
    several.
    """

    # The taint, the port, the term, or the constraint with its counts.
    text: str = ""
    # Nodes for which it holds.
    count: int = 0


class RejectedNodes(ApiStruct):
    """Nodes that one plugin rejected for one reason."""

    # The Filter plugin.
    plugin: str = ""
    # Its reason, in the words of the pod's event.
    reason: str = ""
    # How many nodes it rejected for it.
    count: int = 0
    # Whether room could be made by evicting pods.
    preemption_might_help: bool = False
    # Left out by PreFilter; no Filter plugin was asked about them.
    by_pre_filter: bool = False
    # Their names. Left out in lists, and for askers that may not list nodes.
    nodes: tuple[str, ...] = ()
    # How much is missing, where the reason is a lack of a resource.
    shortage: Shortage | None = None
    # The largest first.
    details: tuple[RejectionDetail, ...] = ()


class ScorePlugin(ApiStruct):
    """A plugin of a table of scores."""

    # The Score plugin.
    name: str = ""
    # The weight that the profile gives it.
    weight: int = 0


class NodeScore(ApiStruct, omit_defaults=False):
    """One feasible node; the lists have an entry per plugin of the table. Weighted is normalized
    times weight.
    """

    # The node.
    node: str
    # Sum of the weighted scores, and of what extenders added.
    total: int
    # Scores as the plugins gave them.
    raw: tuple[int, ...]
    # Scores from 0 to 100, as the plugins normalized them.
    normalized: tuple[int, ...]
    # What extenders added to the total.
    from_extenders: int = 0


class ScoreTable(ApiStruct):
    """Feasible nodes, the best first; among equals in the order in which they were found."""

    # The plugins that scored, in the order of the lists of each node.
    plugins: tuple[ScorePlugin, ...] = ()
    # The nodes. In lists, and for askers that may not list nodes, only the one that was chosen.
    nodes: tuple[NodeScore, ...] = ()
    # Scores of extenders are in the totals only.
    extenders_scored: bool = False
    # The best node that was not chosen.
    runner_up: str = ""
    # How far its total is behind; 0 if the chosen node was drawn among equals.
    margin: int | None = None
    # How many nodes shared the highest total, the first ones of the table; one of them is drawn.
    ties: int = 0


class Victim(ApiStruct):
    """A pod evicted to make room, or that would be."""

    # The namespace of the pod.
    namespace: str = ""
    # The name of the pod.
    name: str = ""
    # Its priority, which is lower than that of the pod that comes.
    priority: int = 0
    # Whether a disruption budget is violated by it.
    violates_budget: bool = False
    # Names of the disruption budgets that select it.
    budgets: tuple[str, ...] = ()
    # In a review: the node that would take it next, "" if none would.
    next_node: str = ""


class QueueWait(ApiStruct, omit_defaults=False):
    """A stretch of waiting."""

    # Gated, Unschedulable, BackingOff or Active.
    queue: str = ""
    # How long it took.
    seconds: float = 0.0


class ExtenderAnswer(ApiStruct):
    """Answer of an extender."""

    # The extender, by its address.
    extender: str = ""
    # Filter, Prioritize, ProcessPreemption or Bind.
    verb: str = ""
    # Nodes that it was asked about.
    asked: int = 0
    # Nodes that it let pass, gave a score, or left as candidates for preemption.
    passed: int = 0
    # Why there is no answer.
    error: str = ""
    # Whether the attempt went on without it.
    ignored: bool = False


class PluginFault(ApiStruct):
    """An out-of-tree plugin that did not keep to the contract during the attempt."""

    # The plugin.
    plugin: str = ""
    # The extension point at which it was called.
    point: str = ""
    # "exception", "timeout", "answer", "score" or "mutation".
    kind: str = ""
    # What went wrong.
    message: str = ""


class Step(ApiStruct):
    """An answer after the decision: of Reserve, Permit, PreBind or Bind. `plugin` is the one that
    ended the attempt there, or the extender that bound the pod.
    """

    # The extension point.
    point: str = ""
    # The plugin that ended the attempt there, if one did.
    plugin: str = ""
    # Success, Unschedulable or Error.
    code: str = ""
    # What the plugin said.
    message: str = ""


class NodeCounts(ApiStruct, omit_defaults=False):
    """`notEvaluated` nodes were never looked at: enough others had been found (sampling), or the
    nominated node took the pod. Nodes that PreFilter left out are among the rejections.
    """

    # Nodes of the cluster.
    total: int = 0
    # Nodes that filters were asked about.
    evaluated: int = 0
    # Nodes that can take the pod.
    feasible: int = 0
    # Nodes that were never looked at.
    not_evaluated: int = 0


class AttemptRecord(ApiStruct):
    """One attempt, whole."""

    # Counts the attempts of the pod, from 1.
    number: int = 0
    # When the attempt was decided.
    time: str = ""
    # In the queue before this attempt, since the last one or since it was created.
    waited_seconds: float = 0.0
    # Where it waited meanwhile.
    waits: tuple[QueueWait, ...] = ()
    # The event that ended the wait for one.
    woken_by: str = ""
    # From the decision to the end of the attempt: binding and evictions included.
    duration_seconds: float = 0.0
    # Grows with every change of nodes and pods that the scheduler hears of.
    snapshot_generation: int = 0
    # Grows with every change of the configuration.
    configuration_generation: int = 0
    # Scheduled, Unschedulable or Error.
    outcome: str = ""
    # The sentence that the pod's condition and event have.
    message: str = ""
    # How many nodes there were, and how many were looked at.
    nodes: NodeCounts = NodeCounts()
    # Set if one node was tried alone and took the pod: "nominated", or "batch" where the pod before
    # could not be told from this one.
    only_tried: str = ""
    # Nodes that cannot take the pod, by plugin and reason; most nodes first.
    rejections: tuple[RejectedNodes, ...] = ()
    # How the nodes that can take the pod were ranked; not there where there was nothing to choose
    # from.
    scores: ScoreTable | None = None
    # The node that was chosen.
    node: str = ""
    # Nominated for the pod when the attempt began.
    nominated_before: str = ""
    # The node where room is being made for the pod.
    nominated_node: str = ""
    # Pods that are evicted to make room.
    victims: tuple[Victim, ...] = ()
    # Victims that are not named, because the asker may not get pods in their namespaces.
    hidden_victims: int = 0
    # What happened to the decision: Reserve, Permit, PreBind and Bind, as far as it came.
    steps: tuple[Step, ...] = ()
    # What extenders answered, in the order in which they were asked.
    extenders: tuple[ExtenderAnswer, ...] = ()
    # Calls of out-of-tree plugins that failed.
    faults: tuple[PluginFault, ...] = ()


class OutcomeCount(ApiStruct):
    """Attempts that ended alike."""

    # Scheduled, Unschedulable or Error.
    outcome: str = ""
    # The sentence that these attempts ended with.
    message: str = ""
    # How many attempts.
    count: int = 0
    # When the first of them was decided.
    first_time: str = ""
    # When the last of them was decided.
    last_time: str = ""


class Decision(ApiObject):
    """Why a pod is where it is, or is not anywhere; named like the pod.

    Kept in memory by the instance that decided, until its room is needed. Lists and watches leave
    out what there is per node, unless the query has `detail=All`; a single decision is whole.
    """

    # The answer in one sentence.
    summary: str = ""
    # How the last attempt ended: Scheduled, Unschedulable or Error.
    outcome: str = ""
    # The node that the pod was bound to.
    node: str = ""
    # The profile that decided.
    scheduler_name: str = ""
    # The uid of the pod, which is that of the decision.
    pod_uid: str = ""
    # How often it was tried.
    attempts: int = 0
    # Its attempts, counted by how they ended.
    outcomes: tuple[OutcomeCount, ...] = ()
    # The first attempt, whole; left out where it is the last.
    first: AttemptRecord | None = None
    # The last attempt, whole.
    last: AttemptRecord | None = None
    # True if node names or pods of others are left out because the asker may not see them.
    partial: bool = False


class WakingEvent(ApiStruct):
    """An event that makes the queue try the pod again, if the plugin's hint agrees."""

    # The plugin that waits for the event; empty where none does.
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
    # When it came to this queue.
    since: str = ""
    # When it was first tried.
    first_attempt_time: str = ""
    # How often it was tried.
    attempts: int = 0
    # When it leaves the backoff queue.
    backoff_until: str = ""
    # The profile that decides on it.
    scheduler_name: str = ""
    # The uid of the pod.
    pod_uid: str = ""
    # Its priority: pods with a higher one are tried first.
    priority: int = 0
    # Plugins that rejected it in its last attempt.
    unschedulable_plugins: tuple[str, ...] = ()
    # Plugins that keep it waiting for something of their own.
    pending_plugins: tuple[str, ...] = ()
    # The plugin that does not let it be tried.
    gating_plugin: str = ""
    # Scheduling gates of its spec that are not removed yet.
    scheduling_gates: tuple[str, ...] = ()
    # The node where room is being made for it.
    nominated_node: str = ""
    # What the last attempt said.
    message: str = ""
    # Events that would have it tried again.
    wakes_on: tuple[WakingEvent, ...] = ()


class PluginHealth(ApiStruct):
    """An out-of-tree plugin of one profile."""

    # The out-of-tree plugin.
    name: str = ""
    # The profile that runs it.
    profile: str = ""
    # False while it is set aside because of its failures.
    healthy: bool = True
    # How often it failed.
    faults: int = 0
    # What is wrong with it.
    message: str = ""


class ExtensionPointPlugins(ApiStruct):
    """Plugins of one extension point in the order in which they are called. Weights are zero where
    they do not matter.
    """

    # As configuration files name it: `preFilter`.
    point: str = ""
    # In call order, with weights where they matter.
    plugins: tuple[ScorePlugin, ...] = ()


class ProfileStatus(ApiStruct):
    """A profile in force: its plugins once multiPoint is spread over the points."""

    # The name by which pods ask for the profile.
    scheduler_name: str = ""
    # Extension points at which plugins run.
    points: tuple[ExtensionPointPlugins, ...] = ()
    # Arguments by plugin, defaults filled in.
    arguments: Mapping[str, msgspec.Raw] = EMPTY


class SchedulerStatus(ApiObject):
    """One instance of the scheduler; named like its identity."""

    # The version of kscheduler.
    version: str = ""
    # The version of kube-scheduler that it behaves like.
    kubernetes_version: str = ""
    # The identity by which it competes for the lease.
    identity: str = ""
    # Whether this instance schedules.
    leader: bool = False
    # When the process started.
    started: str = ""
    # Names of its profiles, which are the schedulerNames that it answers to.
    profiles: tuple[str, ...] = ()
    # Hash of the configuration in force; equal in replicas that are configured alike.
    configuration_hash: str = ""
    # Grows with every change of the configuration.
    configuration_generation: int = 0
    # Grows with every change of nodes and pods that the scheduler hears of.
    snapshot_generation: int = 0
    # By queue: active, backoff, unschedulable, gated.
    queue: Mapping[str, int] = EMPTY
    # Nodes, pods, assumedPods.
    cache: Mapping[str, int] = EMPTY
    # Decisions kept, their bytes, and how many fell out.
    decisions: Mapping[str, int] = EMPTY
    # Per second over the last minute: scheduled, unschedulable, error.
    rates: Mapping[str, float] = EMPTY
    # Out-of-tree plugins and how they do.
    plugins: tuple[PluginHealth, ...] = ()
    # Profiles in force, with plugins in call order.
    configuration: tuple[ProfileStatus, ...] = ()


class NodeInfo(ApiObject):
    """A node as the scheduler's cache has it: what it offers, and what the pods on it have asked
    for, pods that are being bound included. Named and labelled like the node.
    """

    # By resource, for all pods together.
    allocatable: Mapping[str, str] = EMPTY
    # By resource, the sum of what the pods on it ask for.
    requested: Mapping[str, str] = EMPTY
    # The number of pods; their place is `pods` in allocatable.
    pods: int = 0
    # Whether it is cordoned.
    unschedulable: bool = False
    # As kubectl writes them: "key=value:NoSchedule".
    taints: tuple[str, ...] = ()


class NodesToAdd(ApiStruct):
    """Nodes of one shape: like a node that exists, or as written."""

    # How many of them.
    count: int = 1
    # The name of a node to copy.
    like: str = ""
    # A Node of core/v1.
    node: msgspec.Raw | None = None


class PlacementReviewSpec(ApiStruct):
    """Pods to place, and changes of the cluster to place them in."""

    # Pods of core/v1, in the order in which they are placed.
    pods: tuple[msgspec.Raw, ...] = ()
    # Each is placed this many times.
    replicas: int = 1
    # Nodes that are added.
    add_nodes: tuple[NodesToAdd, ...] = ()
    # Names of nodes that are taken away, with all pods on them.
    remove_nodes: tuple[str, ...] = ()
    # Names of nodes that take no more pods.
    cordon_nodes: tuple[str, ...] = ()
    # Their pods, but those of DaemonSets, are placed anew.
    drain_nodes: tuple[str, ...] = ()
    # A KubeSchedulerConfiguration to decide by instead of the one in force.
    configuration: str = ""
    # Whether pods with a lower priority may be evicted.
    allow_preemption: bool = False
    # "Summary", "Candidates" or "All": how much is told per placement.
    detail: str = "Summary"


class ReviewedPlacement(ApiStruct):
    """A pod and where it would go."""

    # The namespace of the pod.
    namespace: str = ""
    # The name of the pod.
    name: str = ""
    # The node that it would get; left out for askers that may not list nodes.
    node: str = ""
    # Scheduled, Unschedulable or Error.
    outcome: str = ""
    # Why it does not fit, or what is to be known about the placement.
    message: str = ""
    # How it was decided, unless detail is Summary; of large reviews, for the first hundred pods.
    explanation: AttemptRecord | None = None
    # Pods that would be evicted for it.
    victims: tuple[Victim, ...] = ()
    # Victims that are not named, because the asker may not get pods in their namespaces.
    hidden_victims: int = 0
    # The nodes that had the highest score, if there are several: the scheduler draws one of them.
    # At most 100.
    ties: tuple[str, ...] = ()


class BudgetLeft(ApiStruct, omit_defaults=False):
    """A disruption budget of evicted or drained pods: disruptions allowed now, and after them.
    Below zero, the budget is violated.
    """

    # The namespace of the budget.
    namespace: str = ""
    # The name of the budget.
    name: str = ""
    # Disruptions that it allows now.
    allowed: int = 0
    # Disruptions that it would allow afterwards.
    left: int = 0


class Remedy(ApiStruct):
    """A single change, and how many more nodes could take the pod then."""

    # The change, as "with 3.2Gi instead of 8Gi of memory".
    change: str = ""
    # How many more nodes could take the pod then.
    more_nodes: int = 0


class PlacementReviewStatus(ApiStruct):
    """Outcome of a review."""

    # The answer in one sentence.
    summary: str = ""
    # Whether all pods fit.
    fits: bool = False
    # How many pods fit.
    placed: int = 0
    # How many pods were to be placed, those of drained nodes included.
    total: int = 0
    # Every pod with its place, in the order in which they were tried.
    placements: tuple[ReviewedPlacement, ...] = ()
    # What stops the rest, and what would help, the smallest change first.
    message: str = ""
    # Single changes to the first pod that does not fit, by which it would.
    remedies: tuple[Remedy, ...] = ()
    # Disruption budgets of the pods that would be evicted or drained.
    budgets: tuple[BudgetLeft, ...] = ()
    # The state of the cluster that the answer is about.
    snapshot_generation: int = 0
    # How long it took to answer.
    duration_seconds: float = 0.0
    # True if names are left out because the asker may not see them.
    partial: bool = False


class PlacementReview(ApiObject):
    """Question what if: pods are placed on a copy of the cluster with some changes."""

    # The question.
    spec: PlacementReviewSpec = PlacementReviewSpec()
    # The answer; whatever a request says here is ignored.
    status: PlacementReviewStatus = PlacementReviewStatus()


DECISIONS = Resource(GROUP, VERSION, "decisions", "Decision", Decision)
PENDING_PODS = Resource(GROUP, VERSION, "pendingpods", "PendingPod", PendingPod)
SCHEDULER_STATUSES = Resource(
    GROUP, VERSION, "schedulerstatuses", "SchedulerStatus", SchedulerStatus, namespaced=False
)
NODE_INFOS = Resource(GROUP, VERSION, "nodeinfos", "NodeInfo", NodeInfo, namespaced=False)
PLACEMENT_REVIEWS = Resource(GROUP, VERSION, "placementreviews", "PlacementReview", PlacementReview)
