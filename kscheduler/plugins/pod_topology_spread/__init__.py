"""PodTopologySpread: matching pods evenly spread over topology domains. Start at `plugin`."""

from kscheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PodTopologySpread"]
