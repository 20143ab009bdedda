"""Dynamic resource allocation: devices of a cluster, and who gets them.

In: ResourceSlices, DeviceClasses and DeviceTaintRules from listers, allocations of claims. Out: for
the unallocated claims of a pod, the nodes on which they can be allocated, and for the chosen node
the allocations.

    device_manager  DeviceManager: all of this, one for all profiles
    claims          ClaimTracker: claims as the next decision must see them
    device_classes  classes, by name and by extended resource
    allocated       AllocatedDevices: devices in use, shares, consumed capacity
    allocator       Allocator: what the plugin talks to
    features        AllocatorFeatures: which of upstream's allocators is imitated

What the cluster has:

    slices          SliceTracker: slices with the taints of rules, by pool and node
    devices         devices, and their types: a device without its name
    pools           the pools that a node can reach, in the order of the search
    row_pools       … of all nodes by row, and which of them have changed

What a pod asks for:

    shape           AllocationShape: claims compiled; equal specs have one shape
    selectors       CEL expressions, evaluated once for devices that look alike to them
    kinds           what the devices of a type are to the requests of a shape

How the two come together:

    candidates      the devices of a node that requests could take
    search          depth first, in upstream's order, pruned where nothing can be found
    partial         … the devices taken so far, and what they leave
    capacity, counters, constraints    … what limits a choice of devices
    results         the devices found, written as allocations
    verdicts        for all nodes at once, kept until something changes

Open `allocator` first, then `verdicts` and `search`.
"""
