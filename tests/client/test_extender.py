"""Questions to extenders over HTTP and HTTPS: trust, time-outs, and connections that are kept."""

import asyncio
import json
import ssl
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from kscheduler.client import extender as module
from kscheduler.client.extender import ExtenderHttp, ExtenderHttpError
from kscheduler.client.tls import TlsConfig
from kscheduler.errors import KschedulerError
from tests.client.authority import Authority

QUESTION = b'{"Pod":null}'


def never(body):
    return False


class Extender:
    """Answers with what it was sent, unless `answer` says otherwise."""

    def __init__(self):
        self.requests = []
        self.peers = set()
        self.certificates = []
        self.answer = None

    async def handle(self, request):
        self.requests.append((request.path, dict(request.headers), await request.read()))
        self.peers.add(request.transport.get_extra_info("peername"))
        self.certificates.append(request.transport.get_extra_info("peercert"))
        if self.answer is not None:
            return await self.answer(request)
        return web.Response(body=self.requests[-1][2])


@asynccontextmanager
async def serving(tls=None):
    extender = Extender()
    application = web.Application()
    application.router.add_post("/{anything:.*}", extender.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    port = runner.addresses[0][1]
    try:
        yield extender, f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def asking(url, tls=None, seconds=30.0):
    wire = ExtenderHttp(url, tls or TlsConfig(), timeout_seconds=seconds)
    try:
        yield wire
    finally:
        await wire.close()


async def test_a_question_is_posted_to_its_verb():
    async with serving() as (extender, url), asking(f"{url}/ext//") as wire:
        assert await wire.ask("filter", QUESTION, repeatable=True, is_complete=never) == QUESTION
    ((path, headers, body),) = extender.requests
    assert (path, body) == ("/ext/filter", QUESTION)
    assert headers["Content-Type"] == "application/json"


async def test_a_url_that_makes_no_sense_fails_the_question_not_the_start():
    async with asking("http://[::1/ext") as wire:
        with pytest.raises(KschedulerError, match="missing ']' in host"):
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)


async def test_who_asks_is_told_as_the_url_says():
    async with serving() as (extender, url):
        with_user = url.replace("http://", "http://u:p@")
        async with asking(f"{with_user}/a b") as wire:
            await wire.ask("filter?x", QUESTION, repeatable=True, is_complete=never)
    ((path, headers, _),) = extender.requests
    assert path == "/a b/filter"
    assert headers["Authorization"] == "Basic dTpw"
    assert headers["Host"] == url.removeprefix("http://")


async def test_connections_are_kept_and_shared_by_those_who_ask_at_once():
    async with serving() as (extender, url), asking(url) as wire:
        for _ in range(3):
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
        assert len(extender.peers) == 1
        await asyncio.gather(
            *(wire.ask("bind", QUESTION, repeatable=False, is_complete=never) for _ in range(5))
        )
        assert len(extender.requests) == 8


@pytest.mark.parametrize("code", [201, 404, 500])
async def test_any_status_but_200_is_a_failure(code):
    async def answer(request):
        return web.Response(status=code)

    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError) as told:
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
    assert str(told.value) == f"failed filter with extender at URL {url}/filter, code {code}"


async def test_silence_is_waited_for_only_so_long():
    async def answer(request):
        await asyncio.sleep(3600)

    async with serving() as (extender, url), asking(url, seconds=1.0) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError) as told:
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
    assert str(told.value) == (
        f'Post "{url}/filter": context deadline exceeded '
        "(Client.Timeout exceeded while awaiting headers)"
    )


async def test_a_limit_below_zero_is_none():
    async with serving() as (_, url), asking(url, seconds=-5.0) as wire:
        assert await wire.ask("filter", QUESTION, repeatable=True, is_complete=never) == QUESTION


async def test_an_answer_that_does_not_end_is_waited_for_only_so_long():
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{")
        await asyncio.sleep(3600)

    async with serving() as (extender, url), asking(url, seconds=2.0) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError) as told:
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
        extender.answer = None
        assert await wire.ask("filter", QUESTION, repeatable=True, is_complete=never) == QUESTION
    assert str(told.value) == (
        "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
    )


def finished(body):
    return body.endswith(b"}")


@asynccontextmanager
async def saying(*pieces, ends):
    """A server that says this, whatever it is asked; and then nothing more, or `ends`."""

    writers = []

    async def serve(reader, writer):
        writers.append(writer)
        await reader.readuntil(QUESTION)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if ends:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for writer in writers:
        writer.close()
        await writer.wait_closed()


@pytest.mark.parametrize("ends", [True, False], ids=["breaks off", "falls silent"])
@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"Content-Length: 9\r\n\r\n", b"{", b"}"], id="shorter than it said"),
        pytest.param([b"Transfer-Encoding: chunked\r\n\r\n", b"2\r\n{}\r\n"], id="no end"),
    ],
)
async def test_an_answer_that_is_finished_needs_no_end(pieces, ends):
    head = b"HTTP/1.1 200 OK\r\n"
    async with saying(head, *pieces, ends=ends) as url, asking(url, seconds=60.0) as wire:
        assert await wire.ask("filter", QUESTION, repeatable=True, is_complete=finished) == b"{}"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "unexpected EOF"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
            "gzip: invalid header",
        ),
        (
            b"HTTP/1.1 abc\r\n\r\n",
            'Post "{url}/filter": net/http: HTTP/1.x transport connection broken: '
            'malformed HTTP status code "abc"',
        ),
    ],
    ids=["cut short", "not compressed", "no answer at all"],
)
async def test_once_an_answer_has_begun_its_failure_comes_without_the_request(said, told):
    async with saying(said, ends=True) as url, asking(url) as wire:
        with pytest.raises(ExtenderHttpError) as refused:
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=finished)
        assert str(refused.value) == told.replace("{url}", url)


async def test_a_compressed_answer_is_understood():
    async def answer(request):
        assert request.headers["Accept-Encoding"] == "gzip"
        response = web.Response(body=b'{"Error":""}' * 1000)
        response.enable_compression(web.ContentCoding.gzip)
        return response

    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        told = await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
    assert told == b'{"Error":""}' * 1000


async def test_a_compressed_answer_has_an_end_as_well(monkeypatch):
    async def answer(request):
        response = web.Response(body=bytes(5000))
        response.enable_compression(web.ContentCoding.gzip)
        return response

    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 4096)
    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError, match="more than 4096 bytes"):
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)


@pytest.mark.parametrize("code", [307, 308])
async def test_the_same_question_is_asked_where_the_server_says(code):
    async def answer(request):
        extender.answer = None
        return web.Response(status=code, headers={"Location": f"{request.path}/"})

    async with serving() as (extender, url), asking(f"{url}/ext") as wire:
        extender.answer = answer
        assert await wire.ask("bind", QUESTION, repeatable=False, is_complete=never) == QUESTION
    assert [path for path, _, _ in extender.requests] == ["/ext/bind", "/ext/bind/"]


@pytest.mark.parametrize(
    ("code", "location"),
    [
        pytest.param(307, "http://127.0.0.1:1/filter", id="another server"),
        pytest.param(302, "/elsewhere", id="another question"),
        pytest.param(308, "http://[", id="nowhere"),
        pytest.param(307, "", id="no place at all"),
    ],
)
async def test_other_redirections_are_failures(code, location):
    async def answer(request):
        return web.Response(status=code, headers={"Location": location})

    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError, match=f"code {code}$"):
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)


async def test_nobody_is_sent_round_for_ever():
    async def answer(request):
        return web.Response(status=307, headers={"Location": "/filter"})

    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError, match="stopped after 10 redirects"):
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
    assert len(extender.requests) == 10


async def test_nobody_there():
    async with serving() as (_, url):
        pass
    async with asking(url) as wire:
        with pytest.raises(ExtenderHttpError) as told:
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
    address = url.removeprefix("http://")
    assert str(told.value) == (
        f'Post "{url}/filter": dial tcp {address}: connect: connection refused'
    )


@pytest.mark.parametrize(("repeatable", "asked"), [(True, 2), (False, 1)])
async def test_what_changes_nothing_is_asked_again_when_the_connection_ends(repeatable, asked):
    async def answer(request):
        extender.answer = None
        request.transport.close()

    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        try:
            await wire.ask("verb", QUESTION, repeatable=repeatable, is_complete=never)
            failure = ""
        except ExtenderHttpError as error:
            failure = str(error)
    assert len(extender.requests) == asked
    assert failure == ("" if repeatable else f'Post "{url}/verb": EOF')


async def test_an_answer_has_an_end(monkeypatch):
    async def answer(request):
        return web.Response(body=bytes(5000))

    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 4096)
    async with serving() as (extender, url), asking(url) as wire:
        extender.answer = answer
        with pytest.raises(ExtenderHttpError):
            await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)


async def test_a_large_question_gets_through():
    large = json.dumps({"Nodes": ["n" * 1000] * 800}).encode()
    async with serving() as (_, url), asking(url) as wire:
        assert len(await wire.ask("filter", large, repeatable=True, is_complete=never)) == len(
            large
        )


class TestTls:
    @pytest.fixture
    def authority(self):
        return Authority()

    @pytest.fixture
    def server(self, authority, tmp_path):
        def context(*, asks_for_certificate=False, **names):
            made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            path = tmp_path / "pair.pem"
            path.write_bytes(b"".join(authority.issue("extender", **names)))
            made.load_cert_chain(path)
            if asks_for_certificate:
                made.verify_mode = ssl.CERT_REQUIRED
                made.load_verify_locations(cadata=authority.pem.decode())
            return made

        return context

    async def ask(self, tls, **config):
        async with serving(tls) as (extender, url), asking(url, TlsConfig(**config)) as wire:
            answer = await wire.ask("filter", QUESTION, repeatable=True, is_complete=never)
            assert answer == QUESTION
            return extender

    async def test_a_known_authority_is_trusted(self, server, authority):
        await self.ask(server(address="127.0.0.1"), ca_data=authority.pem)

    async def test_an_unknown_one_is_not(self, server):
        with pytest.raises(ExtenderHttpError, match="certificate signed by unknown authority"):
            await self.ask(server(address="127.0.0.1"), ca_data=Authority().pem)

    async def test_anybody_is_when_nobody_cares(self, server):
        await self.ask(server(host="elsewhere"), insecure=True)

    async def test_the_name_may_be_another_one(self, server, authority):
        await self.ask(server(host="elsewhere"), ca_data=authority.pem, server_name="elsewhere")
        with pytest.raises(ExtenderHttpError, match="x509"):
            await self.ask(server(host="elsewhere"), ca_data=authority.pem)

    async def test_we_show_who_we_are(self, server, authority):
        certificate, key = authority.issue("scheduler")
        extender = await self.ask(
            server(address="127.0.0.1", asks_for_certificate=True),
            ca_data=authority.pem,
            cert_data=certificate,
            key_data=key,
        )
        (shown,) = extender.certificates
        assert shown["subject"] == ((("commonName", "scheduler"),),)

    async def test_a_key_of_another_certificate_fails_the_question_not_the_start(
        self, server, authority
    ):
        certificate, _ = authority.issue("scheduler")
        _, key = authority.issue("scheduler")
        with pytest.raises(ExtenderHttpError, match="private key does not match public key"):
            await self.ask(server(), insecure=True, cert_data=certificate, key_data=key)
