"""DynamicResources: claims get devices together with the pod's node.

In: a pod's claims and extended resources; slices, classes and claims as `kscheduler.dra` tracks
them. Out: by node whether the pod can have its devices there, and for the chosen node the writes
that allocate and reserve the claims.

    plugin               the extension points
    state                the claims of one pod during one attempt
    claims               … found, checked and judged
    extended_resources   the claim that is made for a pod's extended resources
    pre_bind             writes, and waiting for devices
    events               events that wake a rejected pod
    args                 DynamicResourcesArgs

Open `plugin`, then `state`. Invariants: what an attempt has reserved no other gets, until it is
written or given up; a decision loops over the pod's claims, never over nodes, devices or all claims
of the cluster.
"""

from kscheduler.plugins.dynamic_resources.plugin import DynamicResources

__all__ = ["DynamicResources"]
