"""`kscheduler plugin`: the list of plugins, and a package that works as it is written."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from click.testing import CliRunner

from kscheduler.cli.new_plugin import PluginNames
from kscheduler.cli.plugin import plugin
from kscheduler.plugins import not_built
from kscheduler.runtime.out_of_tree import registration

OWN = """
class Own:
    name = "Own"

    def __init__(self, args, handle):
        pass

    def score_node(self, cycle, pod, node):
        return 1
"""


def run(*args):
    return CliRunner().invoke(plugin, [str(arg) for arg in args])


def listed(*args):
    """The rows of the list by name, and the sentences below it."""
    head, *lines = run("list", *args).output.splitlines()
    assert head.split() == ["NAME", "STATE", "FROM", "EXTENSION", "POINTS"]
    notes = [line for line in lines if line.startswith("NOT AVAILABLE: ")]
    return {line.split()[0]: line for line in lines if line not in notes}, notes


def test_the_list_tells_what_is_on_and_what_is_not_available():
    rows, notes = listed()
    assert rows["NodeName"].split() == ["NodeName", "on", "in-tree", "preFilter,filter"]
    unavailable = {name for name, row in rows.items() if "NOT AVAILABLE" in row}
    assert unavailable == set(not_built())
    assert notes[1] == "NOT AVAILABLE: GangScheduling: pod groups are scheduled pod by pod"


def test_the_list_has_plugins_from_outside(tmp_path):
    module = tmp_path / "own_plugin.py"
    module.write_text(OWN)
    rows, _ = listed("--plugin", f"{module}:Own")
    assert rows["Own"].split() == ["Own", "by", "name", "--plugin", f"{module}:Own", "score"]


def test_a_package_that_is_broken_is_marked_and_does_not_hide_the_others(monkeypatch):
    broken = EntryPoint("Broken", "no_such_module:Broken", registration.GROUP)
    monkeypatch.setattr(registration, "installed", lambda: [broken])
    assert run("list").exit_code == 1
    rows, notes = listed()
    assert "NOT AVAILABLE" in rows["Broken"]
    assert "DefaultBinder" in rows
    assert notes[0] == (
        "NOT AVAILABLE: Broken: cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    )


def test_a_plugin_that_is_none_is_told():
    outcome = run("list", "--plugin", "json:Nobody")
    assert outcome.exit_code == 1
    assert outcome.output == "--plugin json:Nobody: json has no Nobody\n"


def test_a_class_like_one_that_exists_is_hinted_at():
    outcome = run("list", "--plugin", "json:JsonDecodr")
    assert outcome.exit_code == 1
    assert outcome.output == (
        "--plugin json:JsonDecodr: json has no JsonDecodr; did you mean JSONDecoder?\n"
    )


@pytest.mark.parametrize("given", ["SpreadByRack", "spread-by-rack", "spread_by_rack"])
def test_a_name_can_be_given_in_any_spelling(given):
    assert PluginNames.of(given) == PluginNames("SpreadByRack", "spread_by_rack", "spread-by-rack")


def test_initialisms_stay_words():
    assert PluginNames.of("GPUSharing").module == "gpu_sharing"
    assert PluginNames.of("Rack2Rack").module == "rack2_rack"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("a b", "use letters and digits"),
        ("../x", "use letters and digits"),
        ("2fast", "use letters and digits"),
        ("node-name", "NodeName is a plugin of kube-scheduler"),
        ("Import", "cannot be the name of a module"),
        ("kscheduler", "cannot be the name of a module"),
        ("Json", "there is a module json already"),
        ("numpy", "there is a module numpy already"),
    ],
)
def test_names_that_cannot_be_are_refused(given, why):
    outcome = run("new", given)
    assert outcome.exit_code == 2
    assert why in outcome.stderr


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "kept").write_text("")
    outcome = run("new", "Mine", "--folder", tmp_path)
    assert outcome.exit_code == 1
    assert outcome.stderr == f"Error: {tmp_path} is not empty; choose another --folder\n"
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_to_do_next_begins_with_the_environment_if_it_is_not_active(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", "/venv")
    activate = ". /venv/bin/activate      # where kscheduler is"
    for number, (active, told) in enumerate((("/venv", False), ("/other", True))):
        monkeypatch.setenv("VIRTUAL_ENV", active)
        outcome = run("new", "Mine", "--folder", tmp_path / str(number))
        assert (activate in outcome.output) is told


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    outcome = run("new", "Mine", "--folder", tmp_path / "file" / "below")
    assert outcome.exit_code == 1
    assert "Not a directory" in outcome.stderr


@pytest.mark.slow
def test_the_package_installs_is_found_and_passes_its_tests(tmp_path):
    """Built by its own backend and installed beside this kscheduler, without a network."""
    folder, site = tmp_path / "mine", tmp_path / "site"
    outcome = run("new", "SpreadByRack", "--folder", folder)
    assert outcome.exit_code == 0
    assert f"{folder}/spread_by_rack.py" in outcome.output
    env = {**os.environ, "PYTHONPATH": str(site), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}

    def succeed(*command):
        done = subprocess.run(
            [sys.executable, *command], cwd=folder, env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    offline = ("--no-build-isolation", "--no-deps", "--no-index", "--quiet")
    succeed("-m", "pip", "install", *offline, "--target", site, folder)
    assert "3 passed" in succeed("-m", "pytest", "-q", "-p", "no:asyncio")
    program = "from kscheduler.cli import main; main()"
    found = succeed("-c", program, "plugin", "list")
    assert "entry point SpreadByRack = spread_by_rack:SpreadByRack" in found
    assert "valid" in succeed("-c", program, "config", "validate", "scheduler.yaml")
    placed = succeed("-c", program, "sandbox", "--once", "--nodes=2", "--config=scheduler.yaml")
    assert placed
