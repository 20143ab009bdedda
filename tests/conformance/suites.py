"""The specs of Kubernetes' e2e.test that a cluster of played nodes can run, in two suites.

A spec that needs a kubelet to do something, or a feature gate that is off by default, bears a label
that begins with `Feature:`; those are left out, except one whose feature is on by default.
"""

from typing import NamedTuple


class Suite(NamedTuple):
    name: str
    about: str
    # Ginkgo's own expressions; a spec is run if both select it.
    labels: str
    focus: str
    # How many there are.
    specs: int


SUITES = (
    Suite(
        "scheduling",
        "`[sig-scheduling]`",
        "sig-scheduling && Feature: isSubsetOf { SchedulerAsyncPreemption }",
        ".*",
        28,
    ),
    # Others with this label are about the API server alone.
    Suite(
        "dra", "`[sig-node] [DRA] control plane`", "DRA && Feature: isEmpty", "control plane", 22
    ),
)
