"""The scheduling queue: which pod is tried next, and when one that failed is worth another try.

In flow pods from the event handlers (add, update, delete), failures from the cycle, and cluster
events (`move_all_to_active_or_backoff_queue`). Out flow pods, one at a time (`pop`), and the pods
that are nominated to a node which must first be emptied (`nominator`).

    add ──► active ──pop──► in flight ──done──► bound
              ▲  ▲               │ failed
              │  └── backoff ◄───┤ an event during the attempt may help, or it was an error
              │        ▲         ▼
              └────────┴── unschedulable (and gated): until an event, a timeout or an activation

Invariant: a pod is in exactly one of active, backoff, unschedulable and in flight, and every
cluster event reaches every pod it may help: the waiting ones at once (in slices where they are
many), those in flight when they come back.

Everything is synchronous, and the time is an argument. Upstream walks all waiting pods for each
event; here they are indexed by the plugins that rejected them, so an event costs only the pods it
may concern.

Open `scheduling_queue.py` first. Its parts: `sub_queues.py` (where pods wait), `backoff_queue.py`
and `heap.py`; `in_flight.py`; `queueing_hints.py` and `events.py` (which event may help which pod),
`move_requests.py` (many pods at once); `nominator.py`; `pending.py` and
`event_descriptions.py` (waiting pods explained).
"""

from kscheduler.queue.backoff_queue import Backoff
from kscheduler.queue.queued_pod_info import QueuedPodInfo
from kscheduler.queue.scheduling_queue import SchedulingQueue
from kscheduler.queue.sub_queues import Profile

__all__ = ["Backoff", "Profile", "QueuedPodInfo", "SchedulingQueue"]
