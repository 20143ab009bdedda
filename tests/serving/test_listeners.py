"""Listeners: certificates made or read, sockets bound or refused; plain ones for reading only."""

import os
import socket
import stat

import pytest

from kscheduler.config.options import CertKey, Options
from kscheduler.errors import ConfigError
from kscheduler.serving import endpoints, gate
from kscheduler.serving.gate import read_only
from kscheduler.serving.health import PING
from kscheduler.serving.listeners import (
    generate_certificate,
    listen,
    open_listeners,
    open_port,
    split_address,
)
from tests.kit import ports


@pytest.fixture
def free_port():
    return ports.free_port()


def lines(capfd):
    return [line.partition("] ")[2] for line in capfd.readouterr().err.splitlines()]


def test_a_port_switched_off_needs_nothing(capfd):
    options = Options(secure_port=0)
    assert generate_certificate(options) == (options, None)
    assert open_port(options, None) is None
    assert lines(capfd) == []


def test_a_certificate_is_made_in_memory(capfd):
    options, pair = generate_certificate(Options())
    assert options == Options()
    assert pair()[0].startswith(b"-----BEGIN CERTIFICATE-----")
    assert lines(capfd) == ["Generated self-signed cert in-memory"]


def test_a_certificate_is_kept_in_its_folder(capfd, tmp_path):
    folder = tmp_path / "new"
    options, pair = generate_certificate(Options(cert_dir=str(folder)))
    crt, key = f"{folder}/kube-scheduler.crt", f"{folder}/kube-scheduler.key"
    assert (options.tls_cert_file, options.tls_private_key_file, pair) == (crt, key, None)
    assert stat.S_IMODE(os.stat(key).st_mode) == 0o600
    assert lines(capfd) == [f"Generated self-signed cert ({crt}, {key})"]
    assert generate_certificate(Options(cert_dir=str(folder)))[0] == options
    assert lines(capfd) == []


def test_half_a_pair_in_the_folder_is_refused(tmp_path):
    (tmp_path / "kube-scheduler.crt").write_text("x")
    with pytest.raises(ConfigError) as refused:
        generate_certificate(Options(cert_dir=str(tmp_path)))
    assert str(refused.value) == (
        f"error creating self-signed certificates: error reading {tmp_path}/kube-scheduler.key, "
        "certificate and key must be supplied as a pair"
    )


def test_a_key_is_not_written_through_a_link_of_somebody_elses(tmp_path, monkeypatch):
    key = tmp_path / "kube-scheduler.key"
    key.symlink_to(tmp_path / "theirs")
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigError) as refused:
        generate_certificate(Options(cert_dir=str(tmp_path)))
    assert str(refused.value) == (
        f"error creating self-signed certificates: open {key}: "
        "belongs to another user; remove it or choose another name"
    )
    assert not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("below", ["", "/below", "/far/below"])
def test_a_folder_that_cannot_be_made_is_named(tmp_path, below):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError) as refused:
        generate_certificate(Options(cert_dir=f"{tmp_path}/file{below}"))
    assert str(refused.value) == (
        f"error creating self-signed certificates: mkdir {tmp_path}/file: not a directory"
    )


def test_given_files_are_not_replaced(tmp_path):
    options = Options(tls_cert_file="a", cert_dir=str(tmp_path))
    assert generate_certificate(options) == (options, None)


def test_the_port_is_bound_and_listening(free_port):
    options, pair = generate_certificate(Options(bind_address="127.0.0.1", secure_port=free_port))
    port = open_port(options, pair)
    with port.listener, socket.create_connection(("127.0.0.1", free_port)):
        assert port.pair == pair() == pair()
        assert port.listener.getsockname() == ("127.0.0.1", free_port)


def test_an_unspecified_address_takes_both_families(free_port):
    with listen(Options(secure_port=free_port)):
        families = ["127.0.0.1", "::1"] if socket.has_dualstack_ipv6() else ["127.0.0.1"]
        for host in families:
            socket.create_connection((host, free_port)).close()


def test_a_busy_port_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            listen(Options(bind_address="127.0.0.1", secure_port=port))
    address = f"127.0.0.1:{port}"
    assert str(refused.value) == (
        f"failed to create listener: failed to listen on {address}: "
        f"listen tcp {address}: bind: address already in use"
    )


def test_an_address_of_another_machine_is_refused(free_port):
    with pytest.raises(ConfigError, match=r"listen tcp 192\.0\.2\.1:\d+: bind: cannot assign"):
        listen(Options(bind_address="192.0.2.1", secure_port=free_port))


def test_ports_may_be_shared(free_port):
    options = Options(bind_address="127.0.0.1", secure_port=free_port, permit_port_sharing=True)
    with listen(options), listen(options):
        pass


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"tls_cipher_suites": ("foo",)}, "Cipher suite foo not supported or doesn't exist"),
        ({"tls_min_version": "foo"}, 'unknown tls version "foo"'),
        (
            {"tls_sni_cert_key": (CertKey("/nonexistent/a", "/nonexistent/b"),)},
            "failed to load SNI cert and key: open /nonexistent/a: no such file or directory",
        ),
    ],
)
def test_bad_tls_flags_release_the_port(free_port, values, why):
    options = Options(bind_address="127.0.0.1", secure_port=free_port, **values)
    options, pair = generate_certificate(options)
    with pytest.raises(ConfigError) as refused:
        open_port(options, pair)
    assert str(refused.value) == why
    socket.create_server(("127.0.0.1", free_port)).close()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("10251", ("127.0.0.1", 10251)),
        (":10251", ("127.0.0.1", 10251)),
        ("127.0.0.1:0", ("127.0.0.1", 0)),
        ("0.0.0.0:10251", ("0.0.0.0", 10251)),
        ("[::1]:10251", ("::1", 10251)),
    ],
)
def test_addresses(text, where):
    assert split_address(text) == where


@pytest.mark.parametrize("text", ["x", "127.0.0.1", "localhost:1", "127.0.0.1:70000", "1.2.3.4:-1"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(ConfigError, match=r"^--health-listen "):
        open_listeners(Options(health_listen=text))


def test_they_are_off_unless_asked_for():
    listeners = open_listeners(Options())
    assert listeners.health is listeners.metrics is None


def test_a_port_in_use_is_told_as_upstream_tells_it():
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        with pytest.raises(ConfigError) as refused:
            open_listeners(Options(health_listen="0", metrics_listen=str(port)))
    assert str(refused.value) == (
        f"failed to create listener: failed to listen on 127.0.0.1:{port}: "
        f"listen tcp 127.0.0.1:{port}: bind: address already in use"
    )


SOURCES = endpoints.Sources(
    checks={"healthz": [PING], "livez": [PING], "readyz": [PING]},
    collect=list,
    reset=lambda: pytest.fail("nobody may reset"),
    configz=lambda: b"{}",
    pods=list,
    leads=lambda: True,
    flags={"v": "0"},
    emulated=(1, 37),
    profiles=True,
)
HEALTH = ("/healthz", "/livez", "/readyz", "/readyz/ping", "/healthz?verbose")
METRICS = ("/metrics", "/metrics/resources", "/metrics/slis")
OTHERS = ("/configz", "/flagz", "/statusz", "/debug/pprof/", "/debug/flags/v", "/")


@pytest.mark.parametrize(
    ("made", "there"),
    [(endpoints.health_pages, HEALTH), (endpoints.metrics_pages, METRICS)],
    ids=["health", "metrics"],
)
async def test_nothing_else_is_on_them(serving, made, there):
    handler = gate.presented(read_only(made(SOURCES)))
    async with serving(handler) as client:
        for path in (*HEALTH, *METRICS, *OTHERS):
            status, _, _ = await client.ask(path)
            assert status == (200 if path in there else 404), path
            for method in ("PUT", "POST", "DELETE"):
                assert (await client.ask(path, method))[0] == 405


async def test_the_secure_port_has_all_of_them(serving):
    async with serving(gate.presented(endpoints.all_pages(SOURCES))) as client:
        for path in (*HEALTH, *METRICS, *OTHERS[:4]):
            assert (await client.ask(path))[0] == 200, path
