"""Kinds: what each kind of object defaults, refuses and derives when it is written.

In flow objects as clients sent them, out flow objects as the API server would have stored them, or
the list of everything wrong with them. One Strategy per kind; `STRATEGIES` is the table the
registry reads. Depth follows use: pods and nodes are treated as the real server treats them
wherever a scheduler could notice, other kinds get the defaults that schedulers and kubectl read.
"""

from kscheduler.sandbox.kinds import (
    events,
    namespaces,
    nodes,
    pods,
    small_kinds,
    volumes,
    workloads,
)
from kscheduler.sandbox.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    "pods": pods.STRATEGY,
    "nodes": nodes.STRATEGY,
    "namespaces": namespaces.STRATEGY,
    "events": events.STRATEGY,
    **volumes.STRATEGIES,
    **workloads.STRATEGIES,
    **small_kinds.STRATEGIES,
}
