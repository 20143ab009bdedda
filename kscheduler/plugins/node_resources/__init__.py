"""NodeResourcesFit and NodeResourcesBalancedAllocation: what nodes have left.

`fit` and `balanced_allocation` are the plugins; they share the columns and formulas beside them.
"""

from kscheduler.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kscheduler.plugins.node_resources.fit import NodeResourcesFit

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesFit"]
