"""Container images that nodes have pulled already.

Mirrors the image states of pkg/scheduler/backend/cache. Differs: the number of nodes having an
image is always the current one; upstream's snapshot of a node that did not change may still show an
older number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kscheduler.api.core import ContainerImage
from kscheduler.state.columns import mask_of_bits

# Answers kept between changes; each is a mask over all rows.
MAX_ANSWERS = 256


class ImageOnNodes(NamedTuple):
    size: int
    node_count: int
    mask: NDArray[np.bool_]  # [rows]


class _Image:
    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        # The size told by the first node that reported the name; others may differ.
        self.size = size
        self.rows = 0


class Images:
    def __init__(self) -> None:
        self._images: dict[str, _Image] = {}
        self._answers: dict[str, ImageOnNodes] = {}

    def __len__(self) -> int:
        return len(self._images)

    def add(self, row: int, images: Iterable[ContainerImage]) -> None:
        bit = 1 << row
        for name, size in _names(images):
            image = self._images.get(name)
            if image is None:
                image = self._images[name] = _Image(size)
            image.rows |= bit
        self._answers.clear()

    def remove(self, row: int, images: Iterable[ContainerImage]) -> None:
        bit = 1 << row
        for name, _ in _names(images):
            image = self._images.get(name)
            if image is not None and image.rows & bit:
                image.rows ^= bit
                if not image.rows:
                    del self._images[name]
        self._answers.clear()

    def find(self, name: str, length: int) -> ImageOnNodes | None:
        """The image by one of its names, over this many rows."""
        answer = self._answers.get(name)
        if answer is not None and len(answer.mask) == length:
            return answer
        image = self._images.get(name)
        if image is None:
            return None
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        mask = mask_of_bits(image.rows, length)
        answer = ImageOnNodes(image.size, image.rows.bit_count(), mask)
        self._answers[name] = answer
        return answer


def _names(images: Iterable[ContainerImage]) -> Iterator[tuple[str, int]]:
    return ((name, image.size_bytes) for image in images for name in image.names)
