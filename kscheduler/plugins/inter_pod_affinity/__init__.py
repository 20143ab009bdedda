"""InterPodAffinity: pods that must, must not or prefer to be near others. Start at `plugin`."""

from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
