"""Builds etcd, kube-apiserver, kubectl and kube-scheduler once, from the Go module registry.

    python -m tests.controlplane.build

What `go.mod` pins is compiled by the ordinary `go` client, under its own settings (GOPROXY,
GOFLAGS …), into a folder of the user's cache; two builds at a time wait for each other. From
nothing it takes 17 minutes of CPU time and 4 GB in Go's own caches; then never again.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from tests.controlplane.binaries import (
    ASSETS_VARIABLE,
    CACHE_VARIABLE,
    HERE,
    INSTEAD,
    cache_folder,
    folder,
)

KUBERNETES = "k8s.io/kubernetes"
# A program with this ending is the tests of its package.
TESTS = ".test"


@dataclass(frozen=True)
class Module:
    """A folder with a go.mod, and what is built of the modules that it pins."""

    folder: Path
    # Name of the program → its package.
    packages: Mapping[str, str]
    # What to do where they cannot be built.
    instead: str
    # Whether they tell Kubernetes' version as their own.
    tells_version: bool = True


CONTROL_PLANE = Module(
    HERE,
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
        "kubectl": f"{KUBERNETES}/cmd/kubectl",
        "kube-scheduler": f"{KUBERNETES}/cmd/kube-scheduler",
    },
    INSTEAD,
)
# Where Kubernetes programs keep what they tell about themselves.
VERSION_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
# What the Go client says → what is the matter.
REMEDIES = {
    r"requires go >=|toolchain not available": "This Go is too old: install the version it asks "
    "for, or let it fetch that by itself (GOTOOLCHAIN=auto).",
    r"dial tcp|no such host|i/o timeout|TLS handshake|proxyconnect|GOPROXY=off": "The module "
    "registry cannot be reached: GOPROXY names it, HTTPS_PROXY the way to it.",
    r"no space left on device|disk quota exceeded": "The disk is full: GOCACHE, GOMODCACHE, "
    f"GOTMPDIR and {CACHE_VARIABLE} may name folders on another one.",
    r"signal: killed|cannot allocate memory": "Memory is short: GOFLAGS=-p=1 takes less of it.",
}
# Of what `go list -test -deps` names: packages that `go build` takes, too.
OTHER_THAN_TESTS = '{{if not (or .Standard .ForTest (eq .Name "main"))}}{{.ImportPath}}{{end}}'
TOLD_LINES = 15
PROGRESS_SECONDS = 10.0


class BuildError(click.ClickException):
    """The text says what is missing, or what the Go client said, and what to do instead."""


def build_unless_named() -> None:
    """Builds the control plane, unless somebody has named a folder with it."""
    if not os.environ.get(ASSETS_VARIABLE):
        build()


def build(module: Module = CONTROL_PLANE) -> Path:
    """The folder with all programs; whatever it lacks is built."""
    target = cache_folder(module.folder)
    if names := lacking(module, target):
        try:
            target.mkdir(parents=True, exist_ok=True)
            with only_one(target / "lock"):
                build_into(target, module)
        except OSError as error:
            raise failure(module, names[0], [str(error)]) from error
    return target


def build_into(target: Path, module: Module) -> None:
    for interrupted in target.glob("building-*"):
        shutil.rmtree(interrupted)
    for name in lacking(module, target):
        Compiler(module, name).build_into(target)


def lacking(module: Module, target: Path) -> list[str]:
    return [name for name in module.packages if not os.access(target / name, os.X_OK)]


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another build to finish")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


class Compiler:
    """The Go client, at work on one program."""

    def __init__(self, module: Module, name: str) -> None:
        self._module = module
        self._name = name
        self._package = module.packages[name]
        found = shutil.which("go")
        if found is None:
            raise BuildError(f"cannot build {name}: there is no `go` on PATH. {module.instead}")
        self._go = found

    def build_into(self, target: Path) -> None:
        """Made under another name first, so that nobody ever runs half a program."""
        tell(f"{self._name}: fetching modules")
        with tempfile.TemporaryDirectory(dir=target, prefix="building-") as unfinished:
            made = Path(unfinished) / self._name
            result = ("-ldflags", self._link_flags(), "-o", str(made), self._package)
            if self._name.endswith(TESTS):
                # `go test -c` is silent, so all but the tests themselves are compiled before it.
                dependencies = self._dependencies("-test", "-f", OTHER_THAN_TESTS)
                self._compile(len(dependencies), "build", "-v", *dependencies)
                self._compile(1, "test", "-c", *result)
            else:
                self._compile(len(self._dependencies()), "build", "-v", *result)
            made.rename(target / self._name)
        tell(f"{self._name}: done")

    def _dependencies(self, *options: str) -> list[str]:
        return self._output("list", "-deps", *options, self._package).split()

    def _link_flags(self) -> str:
        """Smaller programs that know their version, as released ones do."""
        if not self._module.tells_version:
            return "-s -w"
        version = json.loads(self._output("list", "-m", "-json", KUBERNETES))["Version"]
        major, minor = version.removeprefix("v").split(".")[:2]
        facts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        facts["gitTreeState"] = "clean"
        told = [
            f"-X {place}.{key}={text}" for place in VERSION_PACKAGES for key, text in facts.items()
        ]
        return " ".join(("-s", "-w", *told))

    def _output(self, *arguments: str) -> str:
        done = subprocess.run(
            [self._go, *arguments],
            cwd=self._module.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise failure(self._module, self._name, done.stderr.splitlines())
        return done.stdout

    def _compile(self, total: int, *arguments: str) -> None:
        """`go build -v` names each package as it is compiled; cached ones it passes over."""
        process = subprocess.Popen(
            [self._go, *arguments], cwd=self._module.folder, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        last: deque[str] = deque(maxlen=TOLD_LINES)
        told_at = 0.0
        for count, line in enumerate(process.stderr, 1):
            last.append(line.rstrip())
            if time.monotonic() - told_at > PROGRESS_SECONDS:
                told_at = time.monotonic()
                tell(f"{self._name}: {count} of at most {total} packages compiled")
        if process.wait():
            raise failure(self._module, self._name, last)


def failure(module: Module, name: str, said: list[str] | deque[str]) -> BuildError:
    told = "\n  ".join(list(said)[-TOLD_LINES:])
    remedies = [remedy for pattern, remedy in REMEDIES.items() if re.search(pattern, told)]
    return BuildError("\n".join((f"cannot build {name}:", f"  {told}", *remedies, module.instead)))


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    if os.environ.get(ASSETS_VARIABLE):
        tell(f"nothing to build: {ASSETS_VARIABLE} names {folder()}")
        return 0
    try:
        print(build())
    except BuildError as error:
        tell(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
