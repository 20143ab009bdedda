"""One attempt at one pod: decide, assume, bind; or find out why not.

In: pods popped from the queue and a snapshot of the cache. Out: a Placement that is assumed at
once and bound by a task beside the loop, or a failure that goes into the pod's status, an event
and back into the queue. Invariants: a decision (`schedule.py`) is one synchronous call; where
extenders have a say (`extended.py`) it waits for them, and the cache waits with it; every popped
pod ends in exactly one of `bind.py` and `failure.py`, or is postponed untried because decisions on
pods like it take too long (`slow_decisions.py`).
"""
