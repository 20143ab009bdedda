"""Listeners without TLS: off, on loopback, and for reading only."""

import socket

import pytest

from kscheduler.config.options import Options
from kscheduler.errors import ConfigError
from kscheduler.serving import endpoints, gate
from kscheduler.serving.health import PING
from kscheduler.serving.plain_listener import open_listeners, read_only, split_address


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
