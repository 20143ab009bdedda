import asyncio
import os
import ssl
from contextlib import suppress

import pytest
from aiohttp import web

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import TlsError
from kscheduler.client.observation import RestClientMetrics
from kscheduler.client.tls import (
    CHECK_SECONDS,
    RELOAD_SECONDS,
    RETRY_SECONDS,
    TlsConfig,
    TlsContexts,
    check_authority,
    make_context,
)
from kscheduler.client.transport import Transport
from kscheduler.errors import ConfigError
from kscheduler.metrics import Metrics
from tests.client.authority import Authority


@pytest.fixture(scope="module")
def authority():
    return Authority()


@pytest.fixture
async def secure_server(authority, tmp_path):
    """Answers with the name in the client's certificate."""
    certificate, key = authority.issue("server", address="127.0.0.1")
    (tmp_path / "server.pem").write_bytes(certificate + key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.pem.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_cert_chain(tmp_path / "server.pem")

    async def answer(request):
        peer = request.transport.get_extra_info("peercert") or {}
        names = dict(pair for part in peer.get("subject", ()) for pair in part)
        return web.Response(text=names.get("commonName", "nobody"))

    application = web.Application()
    application.router.add_get("/who", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    try:
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def who(url, tls):
    async with Transport(RestConfig(url, tls=tls), agent="x") as transport:
        return await transport.request("GET", "/who")


async def test_client_certificate_from_data_is_presented(secure_server, authority):
    certificate, key = authority.issue("joe")
    tls = TlsConfig(ca_data=authority.pem, cert_data=certificate, key_data=key)
    assert await who(secure_server, tls) == b"joe"


async def test_client_certificate_from_files_is_presented(secure_server, authority, tmp_path):
    certificate, key = authority.issue("jane")
    (tmp_path / "ca").write_bytes(authority.pem)
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    tls = TlsConfig(
        ca_file=str(tmp_path / "ca"),
        cert_file=str(tmp_path / "crt"),
        key_file=str(tmp_path / "key"),
    )
    assert await who(secure_server, tls) == b"jane"


async def test_unknown_authority_is_told_as_go_does(secure_server):
    with pytest.raises(TlsError) as raised:
        await who(secure_server, TlsConfig(ca_data=Authority("other").pem))
    assert str(raised.value) == (
        f'Get "{secure_server}/who": tls: failed to verify certificate: x509: '
        "certificate signed by unknown authority"
    )
    assert "certificate authority" in raised.value.remedy


async def test_wrong_server_name_is_refused(secure_server, authority):
    tls = TlsConfig(ca_data=authority.pem, server_name="elsewhere.example")
    with pytest.raises(TlsError, match="failed to verify certificate"):
        await who(secure_server, tls)


async def test_insecure_takes_any_server(secure_server):
    assert await who(secure_server, TlsConfig(insecure=True)) == b"nobody"


async def test_plain_server_behind_https_is_told(server):
    url = server.url.replace("http:", "https:")
    with pytest.raises(TlsError, match="http: server gave HTTP response to HTTPS client"):
        await who(url, TlsConfig(insecure=True))


@pytest.mark.parametrize(
    ("tls", "want"),
    [
        pytest.param(
            TlsConfig(insecure=True, ca_data=b"x"),
            "specifying a root certificates file with the insecure flag is not allowed",
            id="insecure and authority",
        ),
        pytest.param(
            TlsConfig(ca_data=b"hello"),
            "unable to load root certificates: unable to parse bytes as PEM block",
            id="authority is no PEM",
        ),
        pytest.param(
            TlsConfig(ca_data=b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"),
            "unable to load root certificates: "
            "data does not contain any valid RSA or ECDSA certificates",
            id="authority is broken PEM",
        ),
        pytest.param(
            TlsConfig(insecure=True, cert_data=b"x", key_data=b"y"),
            "tls: failed to find any PEM data in certificate input",
            id="certificate is no PEM",
        ),
        pytest.param(
            TlsConfig(insecure=True, cert_file="/nonexistent/crt", key_data=b"y"),
            "open /nonexistent/crt: no such file or directory",
            id="certificate is not there",
        ),
    ],
)
def test_unusable_tls_is_refused_in_upstreams_words(tls, want):
    with pytest.raises(ConfigError) as raised:
        make_context(tls)
    assert str(raised.value) == want


def test_key_of_another_certificate_is_refused(authority):
    certificate, _ = authority.issue("a")
    _, key = authority.issue("b")
    with pytest.raises(ConfigError, match="tls: private key does not match public key"):
        make_context(TlsConfig(insecure=True, cert_data=certificate, key_data=key))


def test_authority_is_checked(authority):
    check_authority(authority.pem)
    with pytest.raises(ConfigError, match="unable to parse bytes as PEM block"):
        check_authority(b"")


@pytest.fixture
def files(authority, tmp_path):
    def written(name):
        certificate, key = authority.issue(name)
        for path, data in (("crt", certificate), ("key", key)):
            fresh = tmp_path / f"{path}.new"
            fresh.write_bytes(data)
            os.replace(fresh, tmp_path / path)
        return TlsConfig(
            ca_data=authority.pem,
            cert_file=str(tmp_path / "crt"),
            key_file=str(tmp_path / "key"),
        )

    return written


def test_replaced_certificate_is_picked_up_at_the_next_look(files):
    contexts = TlsContexts(files("one"))
    first = contexts.context(0.0)
    files("two")
    assert contexts.context(CHECK_SECONDS - 1) is first
    second = contexts.context(CHECK_SECONDS)
    assert second is not first
    assert contexts.context(3 * CHECK_SECONDS) is second


def test_certificate_replaced_by_rubbish_leaves_the_last_good_one(files, tmp_path):
    contexts = TlsContexts(files("one"))
    first = contexts.context(0.0)
    (tmp_path / "crt").write_text("rubbish")
    assert contexts.context(CHECK_SECONDS) is first
    files("two")
    assert contexts.context(CHECK_SECONDS + 1) is not first


@pytest.fixture
def bundle(tmp_path):
    """The authority's file, to be replaced as `mv` does."""
    path = tmp_path / "ca.crt"

    def written(data):
        fresh = tmp_path / "ca.new"
        fresh.write_bytes(data)
        os.replace(fresh, path)
        return TlsConfig(ca_file=str(path))

    return written


def test_authority_that_stays_is_looked_at_as_often_as_upstream_does(authority, bundle):
    heard = []
    contexts = TlsContexts(bundle(authority.pem), lambda *told: heard.append(told))
    first = contexts.context(0.0)
    for now in range(0, int(2.5 * RELOAD_SECONDS), 10):
        assert contexts.context(float(now)) is first
    assert heard == [("success", "unchanged")] * 2


def test_replaced_authority_is_picked_up_at_the_next_look(authority, bundle):
    heard = []
    contexts = TlsContexts(bundle(authority.pem), lambda *told: heard.append(told))
    first = contexts.context(0.0)
    bundle(Authority("other").pem)
    assert contexts.context(CHECK_SECONDS - 1) is first
    second = contexts.context(CHECK_SECONDS)
    assert second is not first
    assert contexts.context(2 * CHECK_SECONDS) is second
    assert heard == [("success", "updated")]


@pytest.mark.parametrize(
    ("data", "reason", "told"),
    [
        (b"", "empty", "CA file empty, skipping transport rotation"),
        (b"rubbish", "ca_parse_error", "Failed to parse CA data from file"),
        (None, "read_error", "Failed to read CA data from file"),
    ],
)
def test_authority_replaced_by_nothing_good_stays(
    authority, bundle, tmp_path, logged, data, reason, told
):
    heard = []
    contexts = TlsContexts(bundle(authority.pem), lambda *told: heard.append(told))
    first = contexts.context(0.0)
    if data is None:
        (tmp_path / "ca.crt").unlink()
    else:
        bundle(data)
    assert contexts.context(CHECK_SECONDS) is first
    assert heard == [("failure", reason)]
    assert f'"{told}"' in logged.text
    assert f'caFile="{tmp_path / "ca.crt"}"' in logged.text
    bundle(Authority("other").pem)
    assert contexts.context(2 * CHECK_SECONDS) is not first
    assert heard == [("failure", reason), ("success", "updated")]


def test_replaced_authority_is_picked_up_when_a_handshake_has_failed(authority, bundle):
    contexts = TlsContexts(bundle(authority.pem))
    first = contexts.context(0.0)
    bundle(Authority("other").pem)
    assert contexts.context(RETRY_SECONDS) is first
    contexts.failed()
    assert contexts.context(RETRY_SECONDS) is not first


def test_files_are_looked_at_once_a_second_however_many_handshakes_fail(authority, bundle):
    heard = []
    contexts = TlsContexts(bundle(authority.pem), lambda *told: heard.append(told))
    contexts.context(0.0)
    for tenth in range(30):
        bundle(Authority("other").pem)
        contexts.failed()
        contexts.context(tenth / 10)
    assert len(heard) == 2


def test_only_an_authority_in_a_file_is_looked_at(authority):
    contexts = TlsContexts(TlsConfig(ca_data=authority.pem), lambda *told: pytest.fail(str(told)))
    for now in (0.0, 1000.0, 2000.0):
        contexts.context(now)


def test_plugins_certificate_makes_a_context_of_its_own(authority):
    contexts = TlsContexts(TlsConfig(ca_data=authority.pem))
    bare = contexts.context(0.0)
    pair = authority.issue("plugin")
    first = contexts.context(0.0, pair)
    assert first is not bare
    assert contexts.context(0.0, pair) is first
    assert contexts.context(0.0, authority.issue("plugin")) is not first


async def test_rotated_certificate_is_used_without_a_restart(secure_server, files, monkeypatch):
    monkeypatch.setattr("kscheduler.client.tls.CHECK_SECONDS", 0.0)
    async with Transport(RestConfig(secure_server, tls=files("one")), agent="x") as transport:
        assert await transport.request("GET", "/who") == b"one"
        files("two")
        assert await transport.request("GET", "/who") == b"two"


async def test_rotated_authority_and_server_are_trusted_without_a_restart(
    bundle, tmp_path, monkeypatch
):
    """The file is replaced, and the server's certificate with it, under a client at work."""
    monkeypatch.setattr("kscheduler.client.tls.CHECK_SECONDS", 0.0)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def issue(authority):
        certificate, key = authority.issue("server", address="127.0.0.1")
        (tmp_path / "server.pem").write_bytes(certificate + key)
        context.load_cert_chain(tmp_path / "server.pem")

    async def answer(reader, writer):
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()

    old, new = Authority("old"), Authority("new")
    issue(old)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    metrics = Metrics()
    config = RestConfig(url, tls=bundle(old.pem))
    async with Transport(config, agent="x", observer=RestClientMetrics(metrics)) as transport:
        assert await transport.request("GET", "/") == b"ok"
        issue(new)
        # What is open goes on, but a new connection does not trust the server any more.
        assert await transport.request("GET", "/") == b"ok"
        async with Transport(config, agent="x") as another:
            with pytest.raises(TlsError, match="certificate signed by unknown authority"):
                await another.request("GET", "/")
            bundle(new.pem)
            assert await another.request("GET", "/") == b"ok"
        assert await transport.request("GET", "/") == b"ok"
    server.close()
    reloads = metrics.rest_client_transport_ca_reload_total
    assert reloads.labels("success", "updated").value == 1
