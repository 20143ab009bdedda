"""Where programs are looked for, and what is said when they are not there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.controlplane import binaries, build, down

HERE = Path(__file__).parent


@pytest.fixture
def assets(tmp_path, monkeypatch):
    folder = tmp_path / "assets"
    folder.mkdir()
    monkeypatch.setenv(binaries.ASSETS_VARIABLE, str(folder))
    return folder


def make_program(folder, name):
    path = folder / name
    path.touch(mode=0o755)
    return path


def test_a_folder_that_is_named_is_used(assets):
    etcd = make_program(assets, "etcd")
    assert binaries.program("etcd") == etcd
    assert binaries.missing() == ["kube-apiserver"]


def test_a_program_missing_there_is_told_by_name(assets):
    with pytest.raises(binaries.MissingProgramError, match="has no kube-apiserver") as raised:
        binaries.program("kube-apiserver")
    assert binaries.ASSETS_VARIABLE in str(raised.value)


def test_our_own_build_is_kept_outside_the_work_tree(tmp_path, monkeypatch):
    monkeypatch.delenv(binaries.ASSETS_VARIABLE, raising=False)
    monkeypatch.setenv(binaries.CACHE_VARIABLE, str(tmp_path))
    assert binaries.folder().is_relative_to(tmp_path)
    with pytest.raises(binaries.MissingProgramError, match="make controlplane"):
        binaries.program("etcd")


def test_without_go_the_build_says_so_and_what_to_set_instead(tmp_path):
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = run(HERE / "build.py", environ)
    assert done.returncode == 1
    assert "cannot build etcd: there is no `go` on PATH" in done.stderr
    assert "Set KUBEBUILDER_ASSETS to a folder" in done.stderr


def test_what_the_go_client_says_is_passed_on(tmp_path):
    go = make_program(tmp_path, "go")
    go.write_text("#!/bin/sh\necho 'module lookup disabled' >&2\nexit 1\n")
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = run(HERE / "build.py", environ)
    assert done.returncode == 1
    assert "cannot build etcd; the Go client said:\n  module lookup disabled" in done.stderr
    assert "KUBEBUILDER_ASSETS" in done.stderr


def test_a_finished_build_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(binaries.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: pytest.fail("looked for a compiler"))
    folder = binaries.cache_folder()
    folder.mkdir(parents=True)
    for name in binaries.BUILT:
        make_program(folder, name)
    assert build.build() == folder


def test_a_control_plane_that_cannot_start_says_why(assets, tmp_path):
    make_program(assets, "etcd").write_text("#!/bin/sh\necho no disk left\nexit 3\n")
    environ = {**os.environ, binaries.ASSETS_VARIABLE: str(assets)}
    done = run(HERE / "up.py", environ, "--dir", str(tmp_path / "plane"))
    assert done.returncode == 1
    assert "etcd ended:\nno disk left" in done.stderr
    assert not list((tmp_path / "plane").glob("*.pid"))


def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone(tmp_path):
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "etcd.pid").write_text(f"{bystander.pid}\n")
    down.end(tmp_path)
    assert bystander.poll() is None
    assert not (tmp_path / "etcd.pid").exists()
    bystander.communicate(b"\n", timeout=10)


def run(script, environ, *arguments):
    return subprocess.run(
        [sys.executable, script, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
