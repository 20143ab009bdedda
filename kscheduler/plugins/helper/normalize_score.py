"""The usual way to bring raw scores into 0..100: the best node gets 100, others their share."""

from __future__ import annotations

from kscheduler.framework.status import MAX_NODE_SCORE, Scores


def share_of_best(scores: Scores, *, reverse: bool = False) -> Scores:
    """Reversed, the highest raw score is the worst; where all are zero that makes everyone best."""
    best = int(scores.max(initial=0))
    if best == 0:
        return scores + MAX_NODE_SCORE if reverse else scores
    shares = scores * MAX_NODE_SCORE // best
    return MAX_NODE_SCORE - shares if reverse else shares
