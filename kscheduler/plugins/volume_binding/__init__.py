"""VolumeBinding: claims get their volumes together with the pod's node.

In: a pod's claims, and volumes, classes, drivers and capacities as listers know them. Out: per node
whether the pod can have its volumes there, and for the node that was chosen the writes that bind
existing volumes to claims or have new ones made.

    claims        what a pod claims, and which claims are still open
    volumes       which are free, and what they `offer`; `reach`, `migration`: to which nodes
    matching      existing volumes for open claims, from a `shelf`; `capacity`: room for new ones
    findings      all of that for every node at once, `scoring`: how well it fits
    reservation   assumed, written, waited for (`waiting`); `assume_cache`: what is assumed
    hints         what wakes a pod that was rejected

Invariants: what an attempt assumes, later attempts see, until it is undone or the server tells of
the object in another version; no decision loops over nodes or volumes.
"""

from kscheduler.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
