"""VolumeBinding: claims get their volumes together with the pod's node.

In: a pod's claims, and volumes, classes, drivers and capacities as listers know them. Out: by node
whether the pod can have its volumes there, and for the chosen node the writes that bind existing
volumes to claims or have new ones provisioned.

    plugin           the extension points, and the events that wake a rejected pod
    binder           claims of a pod; volumes assumed, written and waited for
    find_volumes     the volumes a pod would use, for every node at once
    volumes_by_size  … the free ones of a class, in order of size
    volume_traits    volumes and claims compiled; nodes a volume can be used from
    capacity         room for new volumes, as drivers publish it
    scorer           how well the volumes fit, by node
    assume_cache     volumes and claims as they will be once written

Open `plugin`, then `binder`. Invariants: what an attempt assumes, later attempts see, until it is
undone or the API server reports another version; no decision loops over nodes or volumes.
"""

from kscheduler.plugins.volume_binding.plugin import VolumeBinding

__all__ = ["VolumeBinding"]
