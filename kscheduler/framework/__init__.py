"""The contract with plugins, and the runtime that keeps it.

In flow plugins (made by `profile` from configuration and a registry), and per attempt one pod and a
view of the nodes. Out flow verdicts: which nodes are feasible and why the others are not, how much
each is liked, whether the pod may be bound.

    plugin            what a plugin can implement        verdict        what it can answer
    cycle_state       what it may remember               cluster_event  what may change its mind
    row_memo          … and between two attempts         per_node       a simpler, slower way
                                                         node_info      … and what it sees
    handle, listers   what it may use                    outside        plugins that others wrote

    runtime           the Framework: one profile at work, the sum of the stages
      enqueueing, signing                                  before an attempt
      pre_filtering, filtering, nominated_pods, scoring    deciding
      post_filtering, preemption                           when nothing fits
      reserving, binding                                   when something does
    waiting_pods, pods_in_pre_bind                         pods between decision and binding

Invariant: a plugin is asked about all nodes at once and never sees them change; whatever it does,
including raising, ends in a verdict. Only pre_bind and bind may wait, and pods that Permit holds.

The names exported here are the contract with plugins from outside (`docs/plugins/`): they change
only with a major version. Everything else in the package may change at any time.
"""

from kscheduler.api import resources
from kscheduler.api.core import ConfigMap, Node, Pod
from kscheduler.api.meta import ApiObject, ApiStruct, ObjectMeta
from kscheduler.api.resources import Resource
from kscheduler.errors import ConfigError, KschedulerError, MissingError
from kscheduler.framework.cluster_event import Action, ClusterEvent, EventWithHint, Hint
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.handle import (
    Followed,
    PluginClient,
    PluginHandle,
    PluginMetrics,
    WaitingPodsView,
    WaitingPodView,
)
from kscheduler.framework.node_column import NodeColumn
from kscheduler.framework.node_info import NodeInfo
from kscheduler.framework.plugin import NodeNames, PostFilterResult, PreFlight, Wait
from kscheduler.framework.public import (
    BindPlugin,
    EnqueueExtensions,
    FilterNodePlugin,
    FilterPlugin,
    NormalizeScore,
    OutsidePlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreScorePlugin,
    QueuedPodView,
    QueueSortPlugin,
    ReservePlugin,
    ScoreNodePlugin,
    ScorePlugin,
    SignPlugin,
)
from kscheduler.framework.status import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SKIP,
    Charge,
    Code,
    Diagnosis,
    Mask,
    Rejection,
    Scores,
    Status,
    failed,
    rejected,
    rejected_for_good,
    unresolvable,
    unschedulable,
)
from kscheduler.framework.views import NodesView, PodView

__all__ = [
    "MAX_NODE_SCORE",
    "MIN_NODE_SCORE",
    "SKIP",
    "Action",
    "ApiObject",
    "ApiStruct",
    "BindPlugin",
    "Charge",
    "ClusterEvent",
    "Code",
    "ConfigError",
    "ConfigMap",
    "CycleState",
    "Diagnosis",
    "EnqueueExtensions",
    "EventWithHint",
    "FilterNodePlugin",
    "FilterPlugin",
    "Followed",
    "Hint",
    "KschedulerError",
    "Mask",
    "MissingError",
    "Node",
    "NodeColumn",
    "NodeInfo",
    "NodeNames",
    "NodesView",
    "NormalizeScore",
    "ObjectMeta",
    "OutsidePlugin",
    "PermitPlugin",
    "PluginClient",
    "PluginHandle",
    "PluginMetrics",
    "Pod",
    "PodView",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterResult",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterExtensions",
    "PreFilterPlugin",
    "PreFlight",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueuedPodView",
    "Rejection",
    "ReservePlugin",
    "Resource",
    "ScoreNodePlugin",
    "ScorePlugin",
    "Scores",
    "SignPlugin",
    "Status",
    "Wait",
    "WaitingPodView",
    "WaitingPodsView",
    "failed",
    "rejected",
    "rejected_for_good",
    "resources",
    "unresolvable",
    "unschedulable",
]
