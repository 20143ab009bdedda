"""Installing from a checkout: the package and the example plugins; and what a release makes."""

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from kscheduler.version import __version__

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "docs" / "plugins"
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
OFFLINE = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet")


def run(*command, **options):
    done = subprocess.run(
        [sys.executable, *map(str, command)], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheels")
    sources = (ROOT, EXAMPLES / "node-load", EXAMPLES / "gang")
    run("-m", "pip", "wheel", *OFFLINE, "--wheel-dir", folder, *sources)
    return folder


@pytest.mark.slow
def test_the_wheel_has_the_package_and_nothing_else(wheels):
    (wheel,) = wheels.glob("kscheduler-*.whl")
    assert wheel.name == f"kscheduler-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"kscheduler", f"kscheduler-{__version__}.dist-info"}
    assert "kscheduler/py.typed" in names
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "kscheduler").rglob("*.py")}
    assert modules <= names


@pytest.mark.slow
def test_what_was_installed_runs_and_finds_the_example_plugins(wheels, tmp_path):
    site = tmp_path / "site"
    run("-m", "pip", "install", *OFFLINE, "--target", site, *wheels.glob("*.whl"))
    env = {**os.environ, "PYTHONPATH": str(site)}
    program = site / "bin" / "kscheduler"
    assert __version__ in run(program, "--version", cwd=tmp_path, env=env)
    listed = run(program, "plugin", "list", cwd=tmp_path, env=env)
    for name in ("NodeLoad", "Gang"):
        assert f"entry point {name} = " in listed
    placed = run(program, "sandbox", "--once", "--nodes=2", cwd=tmp_path, env=env)
    assert placed.splitlines()[-1].endswith("placed, 0 waiting")


def test_the_release_is_made_of_files_and_targets_that_exist():
    text = WORKFLOW.read_text()
    jobs = yaml.safe_load(text)["jobs"]
    assert set(jobs) == {"wheel", "image", "chart", "release"}
    assert set(jobs["release"]["needs"]) == set(jobs) - {"release"}
    for path in re.findall(r"\b(?:deploy|tests|kscheduler)/[\w./-]+", text):
        assert (ROOT / path).exists(), path
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"\bmake ([a-z-]+)", text)) <= set(targets)


def test_the_release_has_a_pinned_base_a_bill_of_materials_and_provenance():
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["image"]["steps"]
    (build,) = [step["with"] for step in steps if "build-push" in step.get("uses", "")]
    assert build["sbom"] is True
    assert build["provenance"] == "mode=max"
    assert build["build-args"] == "PYTHON_IMAGE=${{ steps.base.outputs.image }}"
    (base,) = [step["run"] for step in steps if step.get("id") == "base"]
    assert "@$digest" in base
    assert re.search(r"^ARG PYTHON_IMAGE=\S+$", (ROOT / "deploy/Dockerfile").read_text(), re.M)
