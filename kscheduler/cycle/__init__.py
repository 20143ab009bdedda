"""One attempt at one pod: decide, assume, bind; or find out why not.

In: pods popped from the queue and a snapshot of the cache. Out: a pod that is assumed at once and
bound by a task beside the loop, or a failure that goes into the pod's status, an event and back
into the queue. Between the modules travels an `Attempt` (`attempt.py`).

Open `loop.py` first: it is the story of schedule_one.go. It calls, in this order, `schedule.py`
(the scheduling algorithm, with `node_sampling.py` and `batching.py`), then either `bind.py` (the
binding cycle) or `failure.py` (the failure handler, with `status_writer.py`).

Invariants: nothing changes while a decision is made; it is one synchronous call, except where
extenders take part, and then informers and failing bindings wait until it is made. Every popped pod
ends in exactly one of `bind.py` and `failure.py`, or is postponed untried because decisions on pods
like it take too long (`slow_decisions.py`).
"""
