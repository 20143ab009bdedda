"""Builds what the conformance tests need beside a control plane, once, from the Go module registry.

    python -m tests.conformance.programs

That is kube-controller-manager, kwok, which plays nodes, and e2e.test, Kubernetes' own tests. They
have a go.mod and a folder of the cache to themselves, so that nobody else waits for them: seven
minutes of CPU time after `make controlplane`.
"""

import sys
from pathlib import Path

from tests.controlplane import build
from tests.controlplane.build import KUBERNETES, Module

HERE = Path(__file__).parent
INSTEAD = "Run `make conformance` where Go and a module registry can be reached."
# What a cluster takes beside its control plane.
CLUSTER_PROGRAMS = Module(
    HERE,
    {
        "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    },
    INSTEAD,
)
PROGRAMS = Module(
    HERE, {**CLUSTER_PROGRAMS.packages, "e2e.test": f"{KUBERNETES}/test/e2e"}, INSTEAD
)


def build_all(module: Module = PROGRAMS) -> Path:
    """Builds whatever is missing; the folder of the programs that a control plane does not need."""
    build.build_unless_named()
    return build.build(module)


def main() -> int:
    try:
        print(build_all())
    except build.BuildError as error:
        build.tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
