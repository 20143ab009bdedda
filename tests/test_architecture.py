"""What holds for the whole tree: imports, docstrings, launchers, the files that ship with it."""

import ast
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml
from importlinter import cli as import_linter

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config_file
from kscheduler.config.validation import validate
from kscheduler.plugins import catalog

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kscheduler"
MODULES = sorted(PACKAGE.rglob("*.py"))
MANIFESTS = sorted(ROOT.glob("deploy/**/*.yaml"))

# Names that a module has when it has not found its idea.
VAGUE = {"base", "common", "helper", "helpers", "manager", "misc", "tools", "util", "utils"}


def name_of(path):
    return str(path.relative_to(ROOT))


def contracts():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["tool"]["importlinter"]["contracts"]


def python(*args):
    return subprocess.run(
        [sys.executable, *args], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )


class TestImports:
    def test_the_contracts_are_kept(self, capsys, monkeypatch):
        monkeypatch.chdir(ROOT)
        code = import_linter.lint_imports(
            config_filename=str(ROOT / "pyproject.toml"), no_cache=True
        )
        assert code == import_linter.EXIT_STATUS_SUCCESS, capsys.readouterr().out

    def test_every_part_of_the_package_has_its_layer(self):
        [layers] = [contract["layers"] for contract in contracts() if contract["type"] == "layers"]
        named = {name.strip("() ") for layer in layers for name in layer.split("|")}
        parts = {
            path.stem
            for path in PACKAGE.iterdir()
            if path.name != "__init__.py"
            and (path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py"))))
        }
        assert parts <= named

    def test_nobody_below_the_command_line_knows_click_or_rich(self):
        users = {
            name_of(path)
            for path in MODULES
            if "cli" not in path.relative_to(PACKAGE).parts and {"click", "rich"} & imported(path)
        }
        assert users == set()


@cache
def parsed(path):
    return ast.parse(path.read_text())


def imported(path):
    """The top-level names of what a module imports."""
    found = set()
    for statement in ast.walk(parsed(path)):
        if isinstance(statement, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.ImportFrom):
            found.add((statement.module or "").partition(".")[0])
    return found


class TestModules:
    def test_every_module_says_what_it_is(self):
        silent = [name_of(path) for path in MODULES if not ast.get_docstring(parsed(path))]
        assert silent == []

    def test_no_module_has_a_name_that_says_nothing(self):
        assert [name_of(path) for path in MODULES if path.stem.strip("_") in VAGUE] == []


class TestLaunchers:
    def test_they_are_no_package(self):
        assert list(ROOT.glob("cmd/**/__init__.py")) == []

    def test_the_standard_library_is_still_there(self):
        outcome = python("-c", "import cmd, pdb; print(cmd.Cmd.__module__, cmd.__file__)")
        assert outcome.returncode == 0, outcome.stderr
        assert str(ROOT / "cmd") not in outcome.stdout

    @pytest.mark.parametrize("folder", sorted(ROOT.glob("cmd/*/")), ids=lambda path: path.name)
    def test_they_start(self, folder):
        outcome = python(str(folder), "--version")
        assert (outcome.returncode, outcome.stderr) == (0, "")
        assert outcome.stdout.startswith("Kubernetes v1.37.")


# They are read by programs and never become objects of a cluster.
NAMELESS = ("Component", "Kustomization", "KubeSchedulerConfiguration")


class TestShippedFiles:
    @pytest.mark.parametrize("path", sorted(ROOT.glob("config/*")), ids=lambda path: path.name)
    def test_configurations_are_accepted(self, path):
        gates = FeatureGates.defaults()
        config = load_config_file(str(path), catalog(), gates=gates)
        assert validate(config, catalog(), gates) == []

    def test_manifests_are_objects(self):
        for path in MANIFESTS:
            documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
            assert documents, path
            for document in documents:
                named = document["kind"] in NAMELESS or document["metadata"]["name"]
                assert document["apiVersion"], path
                assert named, path
