"""Preemption: which pods of lower priority to evict so that a pod fits, and their eviction.

In: a pod that no node takes, the state its plugins prepared, and why each node was rejected. Out: a
node to nominate the pod to, and requests to the API server that evict the victims there.

    evaluator           the story: eligible? → candidate nodes → dry run → extenders → one candidate
    potential_victims   pods that may be evicted from each node, in the order they are reprieved
    dry_run             the victims on each node, found by Filter over nodes without them
    dry_run_cache       … and kept for the next replica of the same workload
    candidate           a node with its victims, and which of several candidates is best
    executor            the evictions themselves

Open `evaluator` first. Nothing before `executor` waits or changes anything.
"""
