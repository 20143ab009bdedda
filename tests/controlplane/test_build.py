"""Building the programs: once for all who want them, and with clear words if it fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.programs import PROGRAMS
from tests.controlplane import binaries, build
from tests.kit.polling import block_until

# A Go client that takes part of a second, or as long as $HOLD is there; $BUILT tells what it made.
GO = """#!/bin/sh
case "$1 $2" in
"list -deps") echo one; echo two; exit ;;
"list -m") echo '{"Version": "v1.37.1"}'; exit ;;
esac
while [ -e "$HOLD" ]; do sleep 0.05; done
for word; do [ "$last" = -o ] && out=$word; last=$word; done
echo "$last" >> "$BUILT"
echo "$last" >&2
[ -n "$out" ] || exit 0
echo program > "$out"
chmod +x "$out"
"""


class Maker:
    """Runs `build.py` with a Go client of our own."""

    def __init__(self, folder):
        self.folder = folder
        self.hold, self.built = folder / "hold", folder / "built"
        self.environ = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            binaries.CACHE_VARIABLE: str(folder / "cache"),
            "HOLD": str(self.hold),
            "BUILT": str(self.built),
        }

    def have_go(self, script):
        (self.folder / "go").write_text(script)
        (self.folder / "go").chmod(0o755)

    def start(self, module="tests.controlplane.build"):
        return subprocess.Popen(
            [sys.executable, "-m", module],
            env=self.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *module):
        process = self.start(*module)
        told, said = process.communicate(timeout=60)
        return process.returncode, told, said


@pytest.fixture
def maker(tmp_path):
    return Maker(tmp_path)


def test_all_programs_are_built_and_nothing_is_left_over(maker):
    maker.have_go(GO)
    code, told, said = maker.run()
    assert code == 0, said
    (target,) = (maker.folder / "cache" / "kscheduler" / "controlplane").iterdir()
    assert told == f"{target}\n"
    assert {path.name for path in target.iterdir()} == {*build.CONTROL_PLANE.packages, "lock"}
    assert "etcd: 1 of at most 2 packages compiled" in said


def test_tests_of_a_package_are_compiled_after_all_they_need(maker):
    maker.have_go(GO)
    code, told, said = maker.run("tests.conformance.programs")
    assert code == 0, said
    made = {path.name for path in Path(told.strip()).iterdir()}
    assert made == {*PROGRAMS.packages, "lock"}
    # `two` is the last of what is needed.
    assert maker.built.read_text().split()[-2:] == ["two", PROGRAMS.packages["e2e.test"]]


def test_two_builds_at_a_time_build_everything_once(maker):
    maker.have_go(GO)
    maker.hold.touch()
    first = maker.start()
    assert first.stderr.readline() == "etcd: fetching modules\n"
    second = maker.start()
    assert second.stderr.readline() == "waiting for another build to finish\n"
    maker.hold.unlink()
    assert [first.communicate(timeout=60)[0], first.returncode] == [
        second.communicate(timeout=60)[0],
        second.returncode,
    ]
    assert first.returncode == 0
    assert maker.built.read_text().split() == list(build.CONTROL_PLANE.packages.values())


def test_what_a_killed_build_has_left_is_cleared_away_and_made_anew(maker):
    maker.have_go(GO)
    maker.hold.touch()
    killed = maker.start()
    block_until(lambda: list((maker.folder / "cache").rglob("building-*")), "the build has begun")
    killed.kill()
    killed.wait()
    maker.hold.unlink()
    killed.communicate()
    code, _, said = maker.run()
    assert code == 0, said
    assert not list((maker.folder / "cache").rglob("building-*"))
    assert len(list((maker.folder / "cache").rglob("etcd"))) == 1


def test_without_go_the_build_says_so_and_what_to_set_instead(maker):
    maker.environ["PATH"] = str(maker.folder)
    code, _, said = maker.run()
    assert code == 1
    assert "cannot build etcd: there is no `go` on PATH" in said
    assert "Set KUBEBUILDER_ASSETS to a folder" in said


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        pytest.param(
            "go: go.mod requires go >= 1.26.0 (running go 1.22.1; GOTOOLCHAIN=local)",
            "This Go is too old",
            id="an old go",
        ),
        pytest.param(
            'Get "https://proxy.example/x.zip": dial tcp: lookup proxy.example: no such host',
            "The module registry cannot be reached",
            id="no network",
        ),
        pytest.param(
            "write /tmp/go-build1/b001/_pkg_.a: no space left on device",
            "The disk is full",
            id="no disk",
        ),
        pytest.param("compile: signal: killed", "Memory is short", id="no memory"),
    ],
)
def test_what_the_go_client_says_is_passed_on_with_what_to_do(maker, words, remedy):
    maker.have_go(f"#!/bin/sh\necho '{words}' >&2\nexit 1\n")
    code, _, said = maker.run()
    assert code == 1
    assert f"cannot build etcd:\n  {words}\n{remedy}" in said
    assert "Set KUBEBUILDER_ASSETS to a folder" in said


def test_a_cache_that_cannot_be_written_is_named(maker):
    maker.have_go(GO)
    (maker.folder / "cache").touch()
    code, _, said = maker.run()
    assert code == 1
    assert f"Not a directory: '{maker.folder}/cache/kscheduler" in said


def test_nothing_is_built_where_programs_are_given(maker, tmp_path):
    maker.environ[binaries.ASSETS_VARIABLE] = str(tmp_path)
    code, _, said = maker.run()
    assert (code, said) == (0, f"nothing to build: {binaries.ASSETS_VARIABLE} names {tmp_path}\n")


def test_a_finished_build_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(binaries.CACHE_VARIABLE, str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: pytest.fail("looked for a compiler"))
    folder = binaries.cache_folder()
    folder.mkdir(parents=True)
    for name in build.CONTROL_PLANE.packages:
        (folder / name).touch(mode=0o755)
    assert build.build() == folder
