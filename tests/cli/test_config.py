"""`kscheduler config`: defaults, mistakes and completed files."""

import pytest
import yaml
from click.testing import CliRunner

from kscheduler import logs
from kscheduler.cli.config import config

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


def test_every_mistake_is_told_with_its_place_and_what_it_means(file):
    file.write_text(
        HEAD
        + """\
paralelism: 4
parallelism: many
podInitialBackoffSeconds: 0
leaderElection:
  leaseDuration: 5
profiles:
- plugins:
    score:
      enabled:
      - name: NodeResourceFit
"""
    )
    outcome = run("validate", file)
    assert outcome.exit_code == 1
    no_plugin = (
        "initializing profiles: creating profile for scheduler name default-scheduler: "
        'ScorePlugin "NodeResourceFit" does not exist'
    )
    cannot = "json: cannot unmarshal"
    assert outcome.stderr.splitlines() == [
        f'{file}:3:1: unknown field "paralelism"',
        "    there is no such field here; did you mean parallelism?",
        f"{file}:4:1: {cannot} string into Go struct field "
        "KubeSchedulerConfiguration.parallelism of type int32",
        "    this must be a whole number without quotes, at most 2147483647; it is text",
        f"{file}:5:1: podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        f"{file}:7:3: {cannot} number into Go struct field "
        "LeaderElectionConfiguration.leaderElection.leaseDuration of type string",
        "    this must be a duration in quotes or bare, such as 15s or 1m30s; it is a number",
        f"{file}:12:9: {no_plugin}",
        "    did you mean NodeResourcesFit?",
    ]


def test_an_argument_that_its_plugin_refuses_is_told_with_its_place(file):
    file.write_text(
        HEAD
        + """\
profiles:
- pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: LeastAlocated
"""
    )
    outcome = run("validate", file)
    assert outcome.stderr.startswith(f"{file}:8:9: initializing profiles: ")


def test_several_files_are_each_said_to_be_good_or_not(file, tmp_path):
    bad = tmp_path / "bad.yaml"
    file.write_text(HEAD)
    bad.write_text("a: [\n")
    outcome = run("validate", file, bad, tmp_path / "none.yaml")
    assert outcome.exit_code == 1
    assert outcome.stdout == f"{file}: valid\n"
    first, _, last = outcome.stderr.splitlines()
    assert first.startswith(f"{bad}:2:1: yaml: ")
    assert last == f"{tmp_path}/none.yaml: open {tmp_path}/none.yaml: no such file or directory"


def test_a_missing_file_is_a_mistake_too(file):
    outcome = run("show", file)
    assert outcome.exit_code == 1
    assert outcome.stderr == f"{file}: open {file}: no such file or directory\n"


def test_show_marks_what_was_filled_in(file):
    file.write_text(HEAD + "parallelism: 4\n")
    lines = run("show", file).output.splitlines()
    assert "parallelism: 4" in lines
    assert "podMaxBackoffSeconds: 10  # default" in lines


def test_show_tells_mistakes_as_validate_does(file):
    file.write_text(HEAD + "paralelism: 4\npodMaxBackoffSeconds: ten\n")
    outcome = run("show", file)
    assert (outcome.exit_code, outcome.stdout) == (1, "")
    assert outcome.stderr == run("validate", file).stderr
    assert len(outcome.stderr.splitlines()) == 4


def test_unknown_gates_are_refused(file):
    outcome = run("show", "--feature-gates=Nope=true", file)
    assert outcome.exit_code == 2
    assert "unrecognized feature gate: Nope" in outcome.stderr


def test_a_difference_is_what_a_scheduler_would_do_otherwise(file, tmp_path):
    new = tmp_path / "new.yaml"
    file.write_text(HEAD + "parallelism: 16\n")
    new.write_text(HEAD)
    outcome = run("diff", file, new)
    assert (outcome.exit_code, outcome.output) == (0, "")
    new.write_text(
        HEAD
        + "parallelism: 8\nprofiles: [{plugins: {score: {disabled: [{name: NodeAffinity}]}}}]\n"
    )
    outcome = run("diff", file, new)
    assert outcome.exit_code == 1
    assert outcome.stdout.splitlines() == [
        "parallelism: 16 → 8",
        "profile default-scheduler:",
        "  NodeAffinity: off at score",
    ]


def test_files_that_cannot_be_compared_are_named(file, tmp_path):
    new = tmp_path / "new.yaml"
    file.write_text(HEAD)
    new.write_text(HEAD + "foo: 1\n")
    outcome = run("diff", file, new)
    assert outcome.exit_code == 2
    assert outcome.stderr == (f'{new}:3:1: unknown field "foo"\n    there is no such field here\n')


def test_a_plugin_of_ones_own_is_known_to_validate_and_diff(file, tmp_path):
    module = tmp_path / "own_plugin.py"
    module.write_text(OWN)
    spec = f"{module}:Own"
    file.write_text(f"{HEAD}profiles: [{{plugins: {{score: {{enabled: [{{name: Own}}]}}}}}}]\n")
    assert run("validate", file).exit_code == 1
    assert run("validate", file, "--plugin", spec).exit_code == 0
    plain = tmp_path / "plain.yaml"
    plain.write_text(HEAD)
    assert run("diff", plain, file, "--plugin", spec).stdout.splitlines() == [
        "profile default-scheduler:",
        "  Own: on at score, weight 1",
    ]


OWN = """
class Own:
    name = "Own"

    def __init__(self, args, handle):
        pass

    def score_node(self, cycle, pod, node):
        return 1
"""
