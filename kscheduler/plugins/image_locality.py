"""ImageLocality: prefers nodes that have the pod's images already.

Mirrors pkg/scheduler/framework/plugins/imagelocality. Differs: node counts per image are always
current; upstream's may lag behind for nodes that have not changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kscheduler.caches import BoundedCache, size_of
from kscheduler.framework.cycle_state import CycleState
from kscheduler.framework.declaration import plugin
from kscheduler.framework.status import MAX_NODE_SCORE, Scores
from kscheduler.state.columns import read_only
from kscheduler.state.images import ImageOnNodes
from kscheduler.state.nodes_view import Nodes
from kscheduler.state.pod_info import PodInfo

MEBIBYTE = 1024 * 1024
LEAST_BYTES = 23 * MEBIBYTE
MOST_BYTES_PER_IMAGE = 1000 * MEBIBYTE


# Scores are kept until a Node changes; at 5,000 nodes those of one list of images are 40 kB.
MAX_BYTES = 4 << 20


@plugin(weight=1)
class ImageLocality:
    name = "ImageLocality"

    def __init__(self) -> None:
        self._scores: BoundedCache[tuple[str, ...], Scores] = BoundedCache(
            "image_scores", MAX_BYTES
        )
        self.caches = (self._scores,)
        self._nodes_as_of = 0

    def score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Scores:
        if nodes.node_generation != self._nodes_as_of:
            self._scores.clear()
            self._nodes_as_of = nodes.node_generation
        names = pod.template.image_names
        scores = self._scores.get(names)
        if scores is None:
            scores = read_only(self._score_all(names, nodes.whole))
            cost = scores.nbytes + size_of(names, self._scores.largest)
            self._scores.put(names, scores, cost)
        return scores if nodes.whole is nodes else scores.take(nodes.rows)

    def _score_all(self, names: Sequence[str], nodes: Nodes) -> Scores:
        images = [image for name in names if (image := nodes.image(normalized(name))) is not None]
        if not images:
            return np.zeros(len(nodes), np.int64)
        most_bytes = MOST_BYTES_PER_IMAGE * len(names)
        if len(images) == 1:
            # The usual case, without arrays of bytes: one score for all nodes that have the image.
            counted = _counted_bytes(images[0], nodes.total)
            within = min(max(counted, LEAST_BYTES), most_bytes) - LEAST_BYTES
            return images[0].mask * (within * MAX_NODE_SCORE // (most_bytes - LEAST_BYTES))
        present = np.zeros(len(nodes), np.int64)
        for image in images:
            present += image.mask * _counted_bytes(image, nodes.total)
        present = np.minimum(np.maximum(present, LEAST_BYTES), most_bytes) - LEAST_BYTES
        return present * MAX_NODE_SCORE // (most_bytes - LEAST_BYTES)

    def sign(self, pod: PodInfo) -> Mapping[str, object]:
        spec = pod.pod.spec
        containers = (*spec.init_containers, *spec.containers)
        names = {normalized(container.image) for container in containers}
        return {"v1.Pod.Spec.CanonicalImageNames()": sorted(names)}


def _counted_bytes(image: ImageOnNodes, total_nodes: int) -> int:
    """An image that few nodes have counts less, so that pods do not pile up there."""
    return int(image.size * (image.node_count / total_nodes))


def normalized(name: str) -> str:
    """Images without a tag mean `:latest`; a colon before the last slash belongs to a port."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
