"""kscheduler: kube-scheduler's start-up and scheduling path, in Python.

Read the packages from the bottom up and you follow a pod: bytes (client) become objects (api),
objects become columns (state), a pod waits (queue), is decided (cycle, runtime, plugins) and
bound (cycle). What waits for the network lives at the edge (client, cycle.bind, serving,
leader_election, app); a decision is one synchronous call.
"""
