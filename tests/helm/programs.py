"""Builds helm once, from the Go module registry.

    python -m tests.helm.programs

It has a go.mod and a folder of the cache to itself, so that nobody else waits for it: five minutes
of CPU time.
"""

import os
import shutil
import sys
from pathlib import Path

from tests.controlplane import build
from tests.controlplane.binaries import cache_folder

INSTEAD = "Run `make helm` where Go and a module registry can be reached, or put helm 3 on PATH."
PROGRAMS = build.Module(
    Path(__file__).parent,
    {"helm": "helm.sh/helm/v3/cmd/helm"},
    INSTEAD,
    tells_version=False,
)


def helm() -> str | None:
    """The program: our own build, or the one on PATH; None if there is neither."""
    built = cache_folder(PROGRAMS.folder) / "helm"
    return str(built) if os.access(built, os.X_OK) else shutil.which("helm")


def main() -> int:
    try:
        print(build.build(PROGRAMS))
    except build.BuildError as error:
        build.tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
