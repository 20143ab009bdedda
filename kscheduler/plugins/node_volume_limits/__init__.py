"""NodeVolumeLimits: a driver attaches only so many volumes to a node.

In: pods, their claims, and what drivers publish about nodes. Out: nodes where one more volume is
too many, or the driver is missing.

    plugin             the extension points, and the events that wake a rejected pod
    volumes            the volumes that drivers attach for a pod
    attached_volumes   how many of them each row has, brought up to date as objects change

Open `plugin` first. Invariant: the columns of `attached_volumes` equal those worked out from
scratch, for any order of changes.
"""

from kscheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits

__all__ = ["NodeVolumeLimits"]
