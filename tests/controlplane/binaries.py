"""Where the programs of a control plane come from: a folder somebody names, or our own build.

`KUBEBUILDER_ASSETS` names a folder as envtest has them (etcd, kube-apiserver, kubectl). Without it
the pinned versions of `go.mod` are built once, into a folder of the user's cache.
"""

import hashlib
import os
import platform
from pathlib import Path

HERE = Path(__file__).parent
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
CACHE_VARIABLE = "KSCHEDULER_CACHE"
# What a run of the tests needs; more is built, to be compared with.
NEEDED = ("etcd", "kube-apiserver")
INSTEAD = (
    f"Set {ASSETS_VARIABLE} to a folder that holds {', '.join(NEEDED)} and kubectl "
    "(setup-envtest makes one), or run `make controlplane` where Go and a module registry can "
    "be reached."
)


class MissingProgramError(Exception):
    """A program of the control plane is not there; the text says what to do about it."""


def cache_folder(module: Path = HERE) -> Path:
    """Where our build of what a module's go.mod pins is kept: outside the work tree, a folder per
    version of it.
    """
    root = os.environ.get(CACHE_VARIABLE) or os.environ.get("XDG_CACHE_HOME")
    base = Path(root) if root else Path.home() / ".cache"
    pinned = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes())
    system = f"{platform.system()}-{platform.machine()}".lower()
    return base / "kscheduler" / module.name / f"{system}-{pinned.hexdigest()[:12]}"


def folder() -> Path:
    """The folder in use."""
    named = os.environ.get(ASSETS_VARIABLE)
    return Path(named).absolute() if named else cache_folder()


def program(name: str) -> Path:
    path = folder() / name
    if os.access(path, os.X_OK):
        return path
    if os.environ.get(ASSETS_VARIABLE):
        raise MissingProgramError(
            f"{ASSETS_VARIABLE} names {folder()}, which has no {name}. {INSTEAD}"
        )
    raise MissingProgramError(f"{name} has not been built yet. {INSTEAD}")


def missing() -> list[str]:
    """What a run of the tests needs and cannot have."""
    return [name for name in NEEDED if not os.access(folder() / name, os.X_OK)]
