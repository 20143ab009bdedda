"""Placement reviews: pods on a changed copy of the cluster, by the scheduler's own algorithm.

In flows a PlacementReview with its spec, out flows the same with its status. Open `reviewer` first.

    question    the spec, read and checked: changed nodes, pods that have to move, pods to place
    fork        a cache, plugins and listers of their own, made from those of the living scheduler
    listers     objects of the living scheduler, and those that only the review has
    made_claims    claims that controllers would make for the pods
    claims      volumes bound and devices reserved on the fork, as if pods were bound
    reviewer    places pod after pod on the fork, makes room by preemption if that is allowed
    remedies    single changes that would let a pod fit that does not
    summary     the answer in one sentence

Invariant: a review changes nothing of the living scheduler, writes nothing, and holds the event
loop for one decision or one slice of copying at a time. The nodes and pods that it begins with are
those of one moment; what plugins read from listers is as it is when they read it.

A copy is made per review instead of a what-if (`state.what_if`) over the live columns: a what-if is
good only while its base does not change, and a review of many pods outlives many decisions.

Differs from what would happen: extenders are not asked; out-of-tree plugins judge nodes, but do not
reserve, permit or bind; nodes that are added as written, not like another, have no CSINode and no
devices; volumes and devices that are promised in memory to pods being bound are not known. Pods
that wait in the queue already are not placed, and of several pods of the review that wait for the
same room the most important is tried first, where the scheduler goes by their back-off as well.
Pods that share a decision in the scheduler (opportunistic batching) are decided one by one, so that
ties are told.
"""

from kscheduler.what_if.errors import ReviewError, ReviewLimitError
from kscheduler.what_if.fork import LiveScheduler
from kscheduler.what_if.reviewer import NamespacesSeen, Reviewer

__all__ = ["LiveScheduler", "NamespacesSeen", "ReviewError", "ReviewLimitError", "Reviewer"]
