"""Kubelet features that a node can declare, as bits.

Mirrors component-helpers/nodedeclaredfeatures. Differs: nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

# Sorted, as upstream's registry is; the position is the bit.
KNOWN_FEATURES = (
    "DRANodeAllocatableResources",
    "DRAOptionalNodeOperations",
    "ExtendWebSocketsToKubelet",
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "InPlacePodVerticalScalingMemoryBackedVolumes",
    "RestartAllContainersOnContainerExits",
    "UserNamespacesHostNetworkSupport",
    "VolumeBindMountOptions",
)


def feature_bits(declared: Iterable[str]) -> int:
    """The known ones of a node's features, a sorted list; what breaks the order may be lost."""
    bits = 0
    position = 0
    for name in declared:
        while position < len(KNOWN_FEATURES) and KNOWN_FEATURES[position] < name:
            position += 1
        if position < len(KNOWN_FEATURES) and KNOWN_FEATURES[position] == name:
            bits |= 1 << position
            position += 1
    return bits
