"""ImageLocality: prefers nodes that have the pod's images already.
 Mirrors pkg/scheduler/framework/plugins/imagelocality. Differs: node counts per image are always
current; upstream's may lag behind for nodes that have not changed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.verdict import MAX_NODE_SCORE, Scores
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

MEBIBYTE = 1024 * 1024
LEAST_BYTES = 23 * MEBIBYTE
MOST_BYTES_PER_IMAGE = 1000 * MEBIBYTE


class ImageLocality:
    name = "ImageLocality"

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        spec = pod.pod.spec
        names = [container.image for container in (*spec.init_containers, *spec.containers)]
        names += [volume.image.reference for volume in spec.volumes if volume.image is not None]
        present = np.zeros(len(nodes), np.int64)
        for name in names:
            image = nodes.image(normalized(name))
            if image is not None:
                # An image that few nodes have counts less, so that pods do not pile up there.
                counted = int(float(image.size) * (float(image.node_count) / float(nodes.total)))
                present += np.where(image.mask, counted, 0)
        most = MOST_BYTES_PER_IMAGE * len(names)
        if most <= LEAST_BYTES:
            return present * 0
        return (
            (np.clip(present, LEAST_BYTES, most) - LEAST_BYTES)
            * MAX_NODE_SCORE
            // (most - LEAST_BYTES)
        )

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        spec = pod.pod.spec
        containers = (*spec.init_containers, *spec.containers)
        names = {normalized(container.image) for container in containers}
        return {"v1.Pod.Spec.CanonicalImageNames()": sorted(names)}


def normalized(name: str) -> str:
    """Images without a tag mean `:latest`; a colon before the last slash belongs to a port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
