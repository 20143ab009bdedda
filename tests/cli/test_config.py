"""`kscheduler config`: defaults, mistakes and completed files."""

from importlib.metadata import EntryPoint

import pytest
import yaml
from click.testing import CliRunner

from kscheduler import logs
from kscheduler.cli.config import config
from kscheduler.runtime.out_of_tree import registration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture(autouse=True)
def _default_logging():
    yield
    logs.configure(logs.Logging())


@pytest.fixture
def file(tmp_path):
    return tmp_path / "scheduler.yaml"


def run(*args):
    return CliRunner().invoke(config, [str(arg) for arg in args])


def test_defaults_are_a_whole_configuration():
    outcome = run("print-defaults")
    assert outcome.exit_code == 0
    document = yaml.safe_load(outcome.output)
    assert document["kind"] == "KubeSchedulerConfiguration"
    assert document["parallelism"] == 16


def test_defaults_depend_on_gates():
    outcome = run("print-defaults", "--feature-gates=GenericWorkload=true")
    assert "GangScheduling" in outcome.output
    assert "GangScheduling" not in run("print-defaults").output


def test_a_good_file_is_said_to_be_good(file):
    file.write_text(HEAD)
    outcome = run("validate", file)
    assert (outcome.exit_code, outcome.output) == (0, f"{file}: valid\n")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            HEAD + "parallelism: 0\npodInitialBackoffSeconds: 0\n",
            [
                "parallelism: Invalid value: 0: should be an integer value greater than zero",
                "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
            ],
            id="violated rules",
        ),
        pytest.param(
            HEAD + "foo: 1\nbar: 2\n",
            ['unknown field "bar"', 'unknown field "foo"'],
            id="unknown fields",
        ),
        pytest.param("a: [\n", None, id="not YAML"),
        pytest.param(
            HEAD + "profiles: [{plugins: {filter: {enabled: [{name: Nope}]}}}]\n",
            [
                "initializing profiles: creating profile for scheduler name default-scheduler: "
                'FilterPlugin "Nope" does not exist'
            ],
            id="a plugin nobody has",
        ),
    ],
)
def test_every_mistake_is_told_with_the_files_name(file, text, want):
    file.write_text(text)
    outcome = run("validate", file)
    assert outcome.exit_code == 1
    lines = outcome.stderr.splitlines()
    assert all(line.startswith(f"{file}: ") for line in lines[:1])
    if want is not None:
        assert lines == [f"{file}: {mistake}" for mistake in want]


def test_a_missing_file_is_a_mistake_too(file):
    for command in ("validate", "show"):
        outcome = run(command, file)
        assert outcome.exit_code == 1
        assert outcome.stderr == f"{file}: open {file}: no such file or directory\n"


def test_show_marks_what_was_filled_in(file):
    file.write_text(HEAD + "parallelism: 4\n")
    lines = run("show", file).output.splitlines()
    assert "parallelism: 4" in lines
    assert "podMaxBackoffSeconds: 10  # default" in lines


def test_unknown_gates_are_refused(file):
    outcome = run("show", "--feature-gates=Nope=true", file)
    assert outcome.exit_code == 2
    assert "unrecognized feature gate: Nope" in outcome.stderr


OWN = """
class Own:
    name = "Own"

    def __init__(self, args, handle):
        pass

    def score_node(self, cycle, pod, node):
        return 1
"""


def test_plugins_from_outside_are_listed_and_known_to_validate(file, tmp_path):
    module = tmp_path / "own_plugin.py"
    module.write_text(OWN)
    spec = f"{module}:Own"
    listed = run("plugins", "--plugin", spec).output.splitlines()
    own = next(line for line in listed if line.startswith("Own "))
    assert own.split(maxsplit=2) == ["Own", "score", f"(--plugin {spec})"]
    assert sum(line.endswith("(in-tree)") for line in listed) == len(listed) - 1
    file.write_text(f"{HEAD}profiles: [{{plugins: {{score: {{enabled: [{{name: Own}}]}}}}}}]\n")
    assert run("validate", file).exit_code == 1
    assert run("validate", file, "--plugin", spec).exit_code == 0


def test_an_installed_package_that_is_broken_does_not_hide_the_others(monkeypatch):
    broken = EntryPoint("Broken", "no_such_module:Broken", registration.GROUP)
    monkeypatch.setattr(registration, "installed", lambda: [broken])
    outcome = run("plugins")
    assert outcome.exit_code == 1
    *listed, told = outcome.output.splitlines()
    assert listed[0].startswith("DefaultBinder ")
    assert told == (
        "entry point Broken = no_such_module:Broken: cannot be imported: "
        "ModuleNotFoundError: No module named 'no_such_module'"
    )


def test_a_plugin_that_is_none_is_told():
    outcome = run("plugins", "--plugin", "json:Nobody")
    assert outcome.exit_code == 1
    assert outcome.output == "--plugin json:Nobody: json has no Nobody\n"
