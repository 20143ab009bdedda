"""Starts the program with recorded files, flags and environments, and compares what comes out.

    python -m tests.parity.config [FILE…]

Each case of `cases/config-cases.jsonl.gz`, or of the files named, is one start of kube-scheduler:
what it was given, and its exit code, error text, output, log lines, written configuration and
effective plugins. Here every start is a fork of a process that has imported the program, no more.

Different by nature, and therefore not compared: the file and line in log headers, and build facts
(`@BUILD@`) in --version=raw. Different on purpose: --help alone lists the commands, so that the
flags are asked of `kscheduler run`, and --version tells our own version behind kube-scheduler's.
"""

import gc
import gzip
import json
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import yaml

from kscheduler import app, cli
from kscheduler.cli import daemon
from tests.kit.ports import free_port
from tests.parity import config_api_server
from tests.parity import config_output as output

PRELOADED = (app, daemon)

CASES = Path(__file__).parent / "cases" / "config-cases.jsonl.gz"
SECONDS_PER_START = 30.0


class Outcome(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str
    written: object


class Place(NamedTuple):
    """What the placeholders of one start stand for."""

    folder: str
    kubeconfig: str
    busy_port: int
    free_port: int

    def fill(self, value):
        text = json.dumps(value)
        for name, filler in {
            "@DIR@": self.folder,
            "@KUBECONFIG@": self.kubeconfig,
            "@BUSYPORT@": str(self.busy_port),
            "@FREEPORT@": str(self.free_port),
        }.items():
            text = text.replace(name, filler)
        return json.loads(text)


def main(paths: list[str]) -> int:
    cases = [case for path in paths or [CASES] for case in load(Path(path))]
    failed = 0
    for case, found in replay(cases):
        failed += bool(found)
        for line in found:
            print(f"{case['id']}: {line}")
    print(f"{len(cases) - failed}/{len(cases)} cases")
    return 1 if failed else 0


def load(path: Path) -> list[dict]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [json.loads(line) for line in lines]


def replay(cases: list[dict]) -> Iterator[tuple[dict, list[str]]]:
    """Each case with the differences found, in order."""
    gc.freeze()
    workers = multiprocessing.get_context("fork").Pool(os.cpu_count())
    gc.unfreeze()
    with api_server() as kubeconfig, held_port() as busy_port, workers:
        work = [(case, kubeconfig, busy_port) for case in cases]
        yield from zip(cases, workers.imap(differences, work, chunksize=4), strict=True)


def differences(work: tuple[dict, str, int]) -> list[str]:
    case, kubeconfig, busy_port = work
    with tempfile.TemporaryDirectory() as folder:
        place = Place(folder, kubeconfig, busy_port, free_port())
        case = place.fill(case)
        for name, text in case["files"].items():
            Path(folder, name).write_text(text)
        args = ["run", "--help"] if case["args"] == ["--help"] else case["args"]
        outcome = start(args, case.get("env", {}), place)
        return list(compare(case, outcome, place))


def compare(case: dict, outcome: Outcome, place: Place) -> Iterator[str]:
    said = output.read_stderr(outcome.stderr)
    yield from differ("exit code", case["exit_code"], outcome.exit_code)
    yield from differ("error form", case["stderr_form"], said.form)
    want, got = case["stderr_err"], said.error
    if case.get("stderr_err_order_varies"):
        want, got = output.error_set(want), output.error_set(got)
    yield from differ("error", want, got)
    yield from differ("log", case["log"], output.comparable_log(case, said.log))
    yield from differ("written configuration", case["written_config"], outcome.written)
    if "json_log_keys" in case:
        yield from differ("JSON keys", case["json_log_keys"], output.json_keys(outcome.stderr))
    if "stdout_help" in case:
        yield from differ("help", case["stdout_help"], output.read_help(outcome.stdout))
    elif not output.matches(case["stdout"], outcome.stdout):
        yield f"stdout: want {case['stdout']!r}, got {outcome.stdout!r}"
    if "effective_plugins" in case:
        louder = start([*case["args"], "--v=2"], case.get("env", {}), place)
        plugins = output.effective_plugins(louder.stderr + louder.stdout, case)
        yield from differ("plugins", case["effective_plugins"], plugins)


def differ(what: str, want: object, got: object) -> Iterator[str]:
    if want != got:
        yield f"{what}: want {want!r}, got {got!r}"


def start(args: list[str], env: dict[str, str], place: Place) -> Outcome:
    """One start in a process of its own, in which nothing has happened yet."""
    folder = Path(place.folder)
    written = folder / "out.yaml"
    written.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        child = os.fork()
        if child == 0:
            _become_the_program(args, env, stdout.fileno(), stderr.fileno())
        code = _exit_code(child)
        texts = [_content(file) for file in (stdout, stderr)]
    document = yaml.safe_load(written.read_text()) if written.exists() else None
    return Outcome(code, *texts, document)


def _become_the_program(args: list[str], env: dict[str, str], stdout: int, stderr: int) -> None:
    code = 70
    try:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        sys.stdout = os.fdopen(1, "w", closefd=False)
        sys.stderr = os.fdopen(2, "w", closefd=False)
        os.environ.clear()
        os.environ.update({"PATH": os.defpath, "HOME": "/nonexistent"} | env)
        cli.main(args)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code(child: int) -> int:
    deadline = time.monotonic() + SECONDS_PER_START
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _content(file) -> str:
    file.seek(0)
    return file.read().decode()


@contextmanager
def held_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@contextmanager
def api_server() -> Iterator[str]:
    """The kubeconfig of an API server with nothing in it, which runs in a process of its own."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = multiprocessing.get_context("fork").Process(
        target=config_api_server.serve, args=(listener,)
    )
    server.start()
    port = listener.getsockname()[1]
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".kubeconfig") as file:
            file.write(KUBECONFIG % port)
            file.flush()
            yield file.name
    finally:
        server.terminate()
        server.join()
        listener.close()


KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: here, cluster: {server: "http://127.0.0.1:%d"}}]
contexts: [{name: here, context: {cluster: here, user: ""}}]
current-context: here
"""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
