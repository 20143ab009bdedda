"""NodeVolumeLimits: a driver attaches only so many volumes to a node.

In: pods, their claims, and what drivers say about nodes. Out: where one more volume is too many, or
the driver is missing.

    volumes     the volumes of a driver that a pod brings along
    attached    how many of them each row has, brought up to date as objects change
    plugin      what follows for a pod

Invariant: the columns of `attached` equal those worked out from scratch, for any order of changes.
"""

from kscheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
