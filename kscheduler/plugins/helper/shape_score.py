"""Scores by utilisation along a curve that the user draws: points with straight lines between them.

Mirrors pkg/scheduler/framework/plugins/helper/shape_score.go. Differs: the curve is drawn once, at
every whole percentage, which is all that utilisation is ever rounded to.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


def broken_linear_function(shape: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """The score at each utilisation from 0 to 100 percent, [101].

    `shape`: (utilisation in percent, score) by rising utilisation; flat before the first point and
    after the last.
    """
    (first, score), (_, last_score) = shape[0], shape[-1]
    scores = np.full(101, last_score, np.int64)
    scores[: max(first, 0) + 1] = score
    for (x0, y0), (x1, y1) in pairwise(shape):
        for percent in range(max(x0, -1) + 1, min(x1, 100) + 1):
            # int() truncates toward zero on falling segments, which // would not.
            scores[percent] = y0 + int((y1 - y0) * (percent - x0) / (x1 - x0))
    return scores
