"""PodTopologySpread: matching pods evenly spread over topology domains.

In: a pod's constraints, or the default ones, and matching pods by row from the pod index. Out:
nodes whose domain would have too many, and scores by how few there are.

    plugin        the extension points, and the events that wake a rejected pod
    constraints   constraints compiled; the default ones and the pods they are about
    domains       the domains of a constraint, and the nodes whose pods count
    filtering     hard constraints (DoNotSchedule)
    scoring       soft constraints (ScheduleAnyway)

Open `plugin`, then `filtering`.
"""

from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
