"""NodeResourcesFit and NodeResourcesBalancedAllocation: cpu, memory and extended resources.

In: a pod's requests, and the columns of nodes for allocatable and requested amounts. Out: nodes
where something is insufficient, and scores by how full and how balanced a node would be.

    fit                   the Filter and the scores by strategy
    resource_allocation   the strategies: LeastAllocated, MostAllocated, RequestedToCapacityRatio
    balanced_allocation   the balance between resources

Both plugins keep their answers by row (`RowMemo`): between two attempts few rows change.
"""

from kscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources.fit import NodeResourcesFit

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesFit"]
