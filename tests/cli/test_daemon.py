"""From the command line to the exit code, as far as nothing is started."""

import json
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from kscheduler import cli, logs
from kscheduler.cli.commands import COMMANDS
from kscheduler.cli.flags import all_flags
from kscheduler.cli.usage import usage_text
from kscheduler.version import __version__

# What a daemon does not import before its first binding.
TOO_EARLY = (
    "prometheus_client",
    "cryptography",
    "aiohttp",
    "multidict",
    "kubernetes",
    "rich",
    "re2",
    "kscheduler.cel",
    "kscheduler.dra.allocator",
)


@pytest.fixture
def run(capfd):
    """Runs the command line; gives exit code, stdout and stderr without log headers."""

    def _run(*args):
        with pytest.raises(SystemExit) as end:
            cli.main(list(args))
        out, err = capfd.readouterr()
        return end.value.code, out, [line.partition("] ")[2] or line for line in err.splitlines()]

    yield _run
    logs.configure(logs.Logging())


@pytest.mark.parametrize("asked", ["--help", "-h"])
def test_help_lists_the_commands_and_where_the_flags_are(run, asked):
    code, out, err = run(asked)
    assert (code, err) == (0, [])
    listed = {line.split()[0] for line in COMMANDS}
    assert listed == set(cli.SUBCOMMANDS)
    for typed, text in COMMANDS.items():
        assert f"\n  {typed} " in out
        assert f" {text}\n" in out
    assert "kscheduler run --help" in out
    assert "--leader-elect" not in out
    assert "_KSCHEDULER_COMPLETE=bash_source" in out
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize("args", [["run", "--help"], ["-h", "--leader-elect=false"]])
def test_help_of_the_daemon_has_every_flag(run, args):
    code, out, err = run(*args)
    assert (code, err) == (0, [])
    assert "\nUsage:\n  kube-scheduler [flags]\n" in out
    for flag in all_flags():
        assert f"--{flag.name}" in out
    assert "`kscheduler --help`" in out


def test_every_command_in_the_help_exists():
    for typed in COMMANDS:
        words = (word for word in typed.split() if word.islower() and word[0] != "-")
        first, *second = words
        command = cli.kscheduler.get_command(click.Context(cli.kscheduler), first)
        assert command is not None
        if second:
            assert second[0] in command.commands


@pytest.mark.parametrize("group", ["config", "plugin"])
def test_help_of_a_group_says_of_its_commands_what_the_whole_help_says(run, group):
    code, out, _ = run(group, "--help")
    assert code == 0
    words = " ".join(out.split())
    for typed, text in COMMANDS.items():
        first, *rest = typed.split()
        if first == group:
            assert f" {rest[0]} {text}" in words


def test_usage_wraps_to_the_terminal():
    assert max(map(len, usage_text(130).splitlines())) <= 130
    narrow = usage_text(80)
    assert "\n" + " " * 16 + "Switch features on or off" in narrow
    assert len(narrow.splitlines()) > len(usage_text(0).splitlines())


def test_a_flag_that_cannot_be_read_shows_the_usage_first(run):
    code, out, err = run("--help", "--nope")
    assert (code, out) == (1, "")
    assert err[0] == "Usage:"
    assert err[-1] == "Error: unknown flag: --nope"


@pytest.mark.parametrize(
    ("args", "complaint", "meant"),
    [
        (["--kubconfig=x"], "unknown flag: --kubconfig", "--kubeconfig"),
        (["--Leader_Election"], "unknown flag: --Leader_Election", "--leader-elect"),
        (["run", "--log-format"], "unknown flag: --log-format", "--logging-format"),
        (["sandbx"], 'does not take any arguments, got ["sandbx"]', "kscheduler sandbox"),
        (["Config"], 'does not take any arguments, got ["Config"]', "kscheduler config"),
        (["help"], 'does not take any arguments, got ["help"]', "kscheduler --help"),
        (["version"], 'does not take any arguments, got ["version"]', "kscheduler --version"),
    ],
)
def test_a_name_like_one_that_exists_is_answered_with_that_one(run, args, complaint, meant):
    code, out, err = run(*args)
    assert (code, out) == (1, "")
    assert err[-2].endswith(complaint)
    assert err[-1] == f"Did you mean {meant}?"


def test_a_plugin_like_one_that_exists_is_hinted_at(run, tmp_path):
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{plugins: {score: {enabled: [{name: NodeResourceFit}]}}}]\n"
    )
    code, _, err = run(f"--config={file}", "--secure-port=0", "--master=http://127.0.0.1:1")
    assert code == 1
    assert err[-1] == (
        '"command failed" err="initializing profiles: creating profile for scheduler name '
        'default-scheduler: ScorePlugin \\"NodeResourceFit\\" does not exist" '
        'hint="did you mean NodeResourcesFit?"'
    )


def test_other_arguments_are_refused(run):
    assert run("foo", "b r") == (
        1,
        "",
        ['Error: "kube-scheduler" does not take any arguments, got ["foo" "b r"]'],
    )


def test_a_subcommand_after_a_flag_is_an_argument(run):
    code, _, err = run("-v=1", "config")
    assert (code, err) == (
        1,
        [
            'Error: "kube-scheduler" does not take any arguments, got ["config"]',
            "Did you mean kscheduler config?",
        ],
    )


def test_versions(run):
    said = f"Kubernetes v1.37.0-rc.1 (kscheduler {__version__} in place of kube-scheduler)\n"
    assert run("--version") == run("run", "--version") == (0, said, [])
    code, out, _ = run("--version=raw")
    assert code == 0
    assert out.startswith('version.Info{Major:"1", Minor:"37", EmulationMajor:"", ')
    assert 'GitVersion:"v1.37.0-rc.1"' in out


def test_the_module_does_what_the_command_does():
    told = subprocess.run(
        [sys.executable, "-m", "kscheduler", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert __version__ in told.stdout


def test_gates_are_checked_before_the_version_is_printed(run):
    assert run("--version", "--feature-gates=Nope=true") == (
        1,
        "",
        ['"command failed" err="unrecognized feature gate: Nope"'],
    )


@pytest.mark.parametrize(
    ("args", "want"),
    [
        (["--logging-format=xml"], 'format: Invalid value: "xml": Unsupported log format'),
        (
            ["--log-flush-frequency=0"],
            'flushFrequency: Invalid value: "0s": Must be greater than zero',
        ),
        (
            ["--log-text-split-stream", "--log-json-info-buffer-size=1"],
            "[options.text.splitStream: Forbidden: Feature LoggingAlphaOptions is disabled, "
            "options.json.infoBufferSize: Forbidden: Feature LoggingAlphaOptions is disabled]",
        ),
        (
            ["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"],
            "format: Forbidden: Log format json is disabled, see LoggingBetaOptions feature",
        ),
    ],
)
def test_logging_options_are_refused_in_plain_text(run, args, want):
    assert run(*args) == (1, "", [want])


def test_flags_are_logged_at_verbosity_one(run, tmp_path):
    code, _, err = run("-v=1", "--secure-port=0", f"--config={tmp_path}/none")
    assert code == 1
    flags = [line for line in err if line.startswith("FLAG: ")]
    assert len(flags) == len(list(all_flags()))
    assert 'FLAG: --v="1"' in flags
    assert 'FLAG: --requestheader-username-headers="[x-remote-user]"' in flags
    assert err[-1] == f'"command failed" err="open {tmp_path}/none: no such file or directory"'


def test_start_up_stays_light():
    """Help must not pay for what only a running scheduler needs."""
    script = (
        "import sys, kscheduler.cli as cli\n"
        "try: cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numpy', 'kubernetes', 'aiohttp', 'rich', 'asyncio') "
        "if m in sys.modules], file=sys.stderr)\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert outcome.stderr == "[]\n"


def test_the_daemon_starts_without_what_only_its_pages_and_devices_need():
    """The first binding waits for every import; `serving.endpoints` comes after it, and what
    evaluates selectors of devices with the first pod that asks for one.
    """
    script = (
        "import sys, kscheduler.app\n"
        "from kscheduler.plugins import catalog\n"
        "catalog()\n"
        f"print([m for m in {TOO_EARLY} if m in sys.modules])\n"
    )
    outcome = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert outcome.stdout == "[]\n"


def test_a_closed_stderr_does_not_swallow_another_file(tmp_path):
    kubeconfig, written = tmp_path / "kc", tmp_path / "out.yaml"
    kubeconfig.write_text(
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
    )
    flags = f"--kubeconfig={kubeconfig} --secure-port=0 --write-config-to={written}"
    program = "import kscheduler.cli as cli; cli.main()"
    command = f"exec {sys.executable} -c '{program}' {flags} 2>&- >&- <&-"
    assert subprocess.run(["/bin/sh", "-c", command], check=False).returncode == 0
    assert written.read_text().startswith("apiVersion: ")


def test_the_program_ends_at_once_with_its_exit_code_and_what_was_to_be_done_at_exit():
    program = (
        "import atexit, sys, threading, time, kscheduler.cli as cli\n"
        "def main():\n"
        "    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    atexit.register(lambda: print('tidy', flush=True))\n"
        "    sys.exit(3)\n"
        "cli.main = main\n"
        "cli.program()\n"
    )
    command = [sys.executable, "-c", program]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (outcome.returncode, outcome.stdout, outcome.stderr) == (3, "tidy\n", "")


def complete(line):
    words = line.split(" ")
    outcome = CliRunner().invoke(
        cli.kscheduler,
        prog_name="kscheduler",
        env={
            "_KSCHEDULER_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
    )
    return [item.partition(",")[2] for item in outcome.output.splitlines()]


@pytest.mark.parametrize(
    ("line", "want"),
    [
        ("kscheduler co", ["config"]),
        ("kscheduler config v", ["validate"]),
        ("kscheduler --logging", ["--logging-format"]),
        ("kscheduler run --logging", ["--logging-format"]),
        ("kscheduler --logging-format ", ["text", "json"]),
        ("kscheduler -v=2 --feature-gates GenericW", ["GenericWorkload="]),
    ],
)
def test_shell_completion_knows_commands_flags_and_values(line, want):
    assert complete(line) == want


def test_json_errors_after_logging_is_configured(run, tmp_path):
    with pytest.raises(SystemExit):
        cli.main(["--logging-format=json", f"--config={tmp_path}/none", "--secure-port=0"])
    _, _, lines = run("--version")
    failed = json.loads(lines[-1])
    assert failed["msg"] == "command failed"
    assert failed["err"] == f"open {tmp_path}/none: no such file or directory"
