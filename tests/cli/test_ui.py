"""`kscheduler ui`: what it says at start, and how it ends."""

import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-c", "import kscheduler.cli as cli; cli.main()")


def spawn(*args):
    return subprocess.Popen(
        [*PROGRAM, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def address_in(process):
    for line in process.stdout:
        if found := re.search(r"page: +(http://\S+)", line):
            return found[1]
    raise AssertionError(process.stderr.read())


@pytest.fixture
def sandbox(tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    process = spawn("sandbox", "--nodes=2", f"--kubeconfig={kubeconfig}")
    process.kubeconfig = kubeconfig
    with process:
        yield process
        process.terminate()  # killed, it would leave its folder behind
        process.communicate(timeout=30)


def text_of(address):
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    with opener.open(address, timeout=60) as answer:
        return answer.read().decode()


def test_the_sandbox_prints_its_address_and_the_command_serves_the_same_page(sandbox):
    own = address_in(sandbox)
    assert "<title>Overview" in text_of(own)
    flags = [f"--kubeconfig={sandbox.kubeconfig}", "--aggregated", "--no-browser", "--port=0"]
    with spawn("ui", *flags) as process:
        address = address_in(process)
        assert "<title>Overview" in text_of(address)
        with pytest.raises(urllib.error.HTTPError, match="403"):
            text_of(address)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert process.stderr.read() == ""


def test_a_port_that_is_taken_is_named(sandbox):
    address_in(sandbox)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        flags = [f"--kubeconfig={sandbox.kubeconfig}", "--aggregated", "--no-browser"]
        with spawn("ui", *flags, f"--port={port}") as process:
            assert process.wait(timeout=60) == 2
            assert process.stderr.read() == f"Error: port {port}: Address already in use\n"


def test_no_cluster_is_said_in_a_sentence(tmp_path):
    with spawn("ui", f"--kubeconfig={tmp_path}/none", "--no-browser") as process:
        assert process.wait(timeout=60) == 2
        [line] = process.stderr.read().splitlines()
        assert line.startswith("Error: ")
        assert "Traceback" not in line
