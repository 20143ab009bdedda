"""The life of a control plane: how it starts, what it leaves in its folder, how it ends.

The programs are stand-ins that answer what they are asked before a control plane counts as ready.
"""

import os
import signal
import ssl
import subprocess
import sys
import urllib.request

import pytest
import yaml

from tests.controlplane import binaries, down
from tests.controlplane.plane import alive
from tests.kit.polling import block_until
from tests.kit.ports import free_port

pytestmark = pytest.mark.slow

UP = "tests.controlplane.up"
DOWN = "tests.controlplane.down"
PATIENCE_SECONDS = 60.0
STAND_IN = """#!{python}
import http.server, os, pathlib, ssl, sys
flags = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
with open(os.environ["STARTS"], "a") as starts:
    print(pathlib.Path(sys.argv[0]).name, file=starts)

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

port = flags.get("secure-port") or flags["listen-client-urls"].rpartition(":")[2]
server = http.server.HTTPServer(("127.0.0.1", int(port)), Answer)
if "tls-cert-file" in flags:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(flags["tls-cert-file"], flags["tls-private-key-file"])
    server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
"""


@pytest.fixture
def environ(tmp_path):
    assets = tmp_path / "assets"
    assets.mkdir()
    for name in binaries.NEEDED:
        (assets / name).write_text(STAND_IN.format(python=sys.executable))
        (assets / name).chmod(0o755)
    named = {binaries.ASSETS_VARIABLE: str(assets), "STARTS": str(tmp_path / "starts")}
    return {**os.environ, **named}


@pytest.fixture
def folder(tmp_path):
    yield tmp_path / "plane"
    down.end(tmp_path / "plane")


def run(environ, module, *arguments):
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env=environ,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )


def pids(folder):
    return {path.stem: int(path.read_text()) for path in folder.glob("*.pid")}


def all_end(pids):
    block_until(lambda: not any(alive(pid) for pid in pids), "all processes have ended")


def test_it_says_that_it_is_ready_and_stays_until_it_is_asked_to_end(environ, folder):
    port = free_port()
    command = [sys.executable, "-m", UP, "--dir", folder, "--port", str(port)]
    process = subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    running = pids(folder)
    assert running.keys() == {"up", "etcd", "kube-apiserver"}
    cluster = yaml.safe_load((folder / "kubeconfig").read_text())["clusters"][0]["cluster"]
    assert cluster["server"] == f"https://127.0.0.1:{port}"
    trusted = ssl.create_default_context(cafile=cluster["certificate-authority"])
    with urllib.request.urlopen(f"{cluster['server']}/readyz", context=trusted) as answer:
        assert answer.status == 200

    process.send_signal(signal.SIGTERM)

    assert process.wait(PATIENCE_SECONDS) == 0
    process.stdout.close()
    assert pids(folder) == {}
    all_end(running.values())


def test_what_nobody_else_may_read_nobody_else_can(environ, folder):
    assert run(environ, UP, "--dir", folder, "--detach").returncode == 0
    secrets = [folder / "tokens.csv", *folder.glob("*kubeconfig"), *folder.glob("*.key")]
    assert len(secrets) > 5
    assert {path.stat().st_mode & 0o777 for path in secrets} == {0o600}
    assert folder.stat().st_mode & 0o777 == 0o700


def test_detached_it_stays_until_it_is_taken_down(environ, folder):
    done = run(environ, UP, "--dir", folder, "--detach")
    assert (done.returncode, done.stdout) == (0, "ready\n")
    running = pids(folder)
    assert all(alive(pid) for pid in running.values())

    assert run(environ, DOWN, "--dir", folder).returncode == 0

    all_end(running.values())
    assert pids(folder) == {}
    assert run(environ, DOWN, "--dir", folder).returncode == 0


def test_what_a_killed_one_leaves_behind_is_taken_down(environ, folder):
    run(environ, UP, "--dir", folder, "--detach")
    running = pids(folder)
    os.kill(running["up"], signal.SIGKILL)
    all_end([running["up"]])
    assert alive(running["etcd"])

    down.end(folder)

    all_end(running.values())
    assert pids(folder) == {}


def test_when_one_program_ends_so_does_the_rest(environ, folder):
    run(environ, UP, "--dir", folder, "--detach")
    running = pids(folder)
    os.kill(running["kube-apiserver"], signal.SIGKILL)

    all_end([running["up"], running["etcd"]])

    assert "kube-apiserver ended" in (folder / "up.log").read_text()


def test_one_that_cannot_start_says_why(environ, folder, tmp_path):
    (tmp_path / "assets" / "etcd").write_text("#!/bin/sh\necho no disk left\nexit 3\n")
    done = run(environ, UP, "--dir", folder)
    assert done.returncode == 1
    assert "etcd ended:\nno disk left" in done.stderr
    assert pids(folder) == {}


def test_a_pid_that_belongs_to_somebody_else_by_now_is_left_alone(tmp_path):
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "etcd.pid").write_text(f"{bystander.pid}\n")
    down.end(tmp_path)
    assert bystander.poll() is None
    assert not (tmp_path / "etcd.pid").exists()
    bystander.communicate(b"\n", timeout=PATIENCE_SECONDS)


TESTS = """
import pathlib, pytest

@pytest.mark.parametrize("number", range(4))
def test_it_is_there(control_plane, worker_id, number):
    pid = (control_plane / "etcd.pid").read_text()
    with pathlib.Path({seen!r}).open("a") as seen:
        print(worker_id, pid.strip(), file=seen)
"""


def test_all_processes_of_a_run_share_one_and_it_ends_with_them(environ, tmp_path):
    seen = tmp_path / "seen"
    tests = tmp_path / "shared" / "test_shared.py"
    tests.parent.mkdir()
    tests.write_text(TESTS.format(seen=str(seen)))
    options = ("-n", "2", "-p", "tests.controlplane.fixtures", "--rootdir", tests.parent)
    where = ("--basetemp", tmp_path / "run", "--override-ini", "addopts=")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, *where, tests],
        env={name: value for name, value in environ.items() if "PYTEST" not in name},
        cwd=binaries.HERE.parents[1],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    rows = [line.split() for line in seen.read_text().splitlines()]
    assert {worker for worker, _ in rows} == {"gw0", "gw1"}
    (pid,) = {pid for _, pid in rows}
    assert (tmp_path / "starts").read_text().split() == ["etcd", "kube-apiserver"]
    all_end([int(pid)])
