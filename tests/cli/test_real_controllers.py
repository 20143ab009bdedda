"""kube-controller-manager in a sandbox: found or not, at work, and ended with it."""

import os
import subprocess
import sysconfig
from pathlib import Path

import click
import pytest

from kscheduler.cli.real_controllers import PROGRAM, find_program
from tests.conformance.programs import CLUSTER_PROGRAMS
from tests.controlplane.binaries import cache_folder
from tests.sandbox.manifests.state import CLUSTER, HERE

BUILT = cache_folder(CLUSTER_PROGRAMS.folder) / PROGRAM
KSCHEDULER = Path(sysconfig.get_path("scripts")) / "kscheduler"


def executable(path, text="#!/bin/sh\nexit 0\n"):
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_the_sandbox_has_controllers_of_its_own():
    assert find_program("builtin") is None


def test_the_real_one_is_found_on_the_path_or_by_its_file(tmp_path, monkeypatch):
    program = executable(tmp_path / PROGRAM)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_program("real") == program
    assert find_program(str(program)) == program


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        ("real", "needs kube-controller-manager on PATH; --controllers=FILE names it elsewhere"),
        ("realy", "there is no such program; use builtin, real, or the file name"),
    ],
)
def test_where_it_is_not_a_sentence_says_what_would_do(wanted, told, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(click.UsageError, match=told):
        find_program(wanted)


def once(program, *args):
    command = [KSCHEDULER, "sandbox", "--once", f"--controllers={program}", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_one_that_ends_is_told_with_its_last_words(tmp_path):
    program = executable(tmp_path / PROGRAM, "#!/bin/sh\necho unknown flag: --x\nexit 3\n")
    done = once(program, f"--filename={HERE / '01-web.yaml'}")
    assert done.returncode == 1
    assert done.stderr == f"Error: {program} ended with code 3: unknown flag: --x\n"


@pytest.mark.slow
@pytest.mark.skipif(
    not os.access(BUILT, os.X_OK),
    reason="kube-controller-manager, which `make manifests` builds",
)
def test_workloads_get_their_pods_from_it():
    files = (f"--filename={HERE / name}.yaml" for name in ("01-web", "08-database", "15-inference"))
    done = once(BUILT, f"--nodes-file={CLUSTER}", *files)
    assert done.returncode == 0, done.stderr
    # Twelve of a Deployment, three of a StatefulSet with claims, eight with devices.
    assert "23 pods placed, 0 waiting\n" in done.stdout
    assert "default/postgres-2 -> large-" in done.stdout
