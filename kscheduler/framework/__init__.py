"""The contract with plugins: everything that plugins import, and nothing that runs them.

Mirrors k8s.io/kube-scheduler/framework; the runtime is beside it (`kscheduler.runtime`). The names
exported here are the contract with out-of-tree plugins (`docs/plugins/`): they change only with a
major version. Everything else in the package may change at any time. Open `plugin` first.

    plugin            methods that a plugin can have, and their answers; with `status`
    views, node_info, node_column   pods and nodes as an out-of-tree plugin sees them; read-only
    cycle_state       the memory of one attempt
    cluster_event     events that may make a rejected pod schedulable
    handle, listers   the scheduler as a plugin may use it

    in_tree           the narrower contract of plugins that are part of this project

Invariant: a plugin is asked about all nodes at once and never sees them change; whatever it does,
including raising, ends in a status of that one attempt.
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
from kscheduler.framework.plugin import (
    BindPlugin,
    EnqueueExtensions,
    FilterNodePlugin,
    FilterPlugin,
    NodeNames,
    NormalizeScore,
    OutOfTreePlugin,
    OutsidePlugin,
    PermitPlugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterExtensions,
    PreFilterPlugin,
    PreFlight,
    PreScorePlugin,
    QueuedPodView,
    QueueSortPlugin,
    ReservePlugin,
    ScoreNodePlugin,
    ScorePlugin,
    SignPlugin,
    Wait,
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
    "OutOfTreePlugin",
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
