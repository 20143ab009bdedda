"""The fault proxy in front of the embedded API server: it does what it is told, and logs it."""

import asyncio
import json
import random
import ssl
from contextlib import asynccontextmanager, suppress

import aiohttp
import pytest
import yaml

from kscheduler.sandbox import ApiServer
from tests.controlplane.certificates import write_certificates
from tests.e2e.api import Api, RefusedError, _context
from tests.faults.event_faults import (
    BookmarksOnly,
    Corruption,
    Duplicates,
    Reordering,
    Replays,
    SwallowedDeletes,
)
from tests.faults.proxy import Proxy, Target
from tests.faults.request_faults import (
    Delay,
    HalfClose,
    LostAnswer,
    Refusal,
    Reset,
    Rule,
    Stall,
    Throttle,
)
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until

BROKEN = (aiohttp.ClientError, OSError)


@pytest.fixture
async def server():
    async with ApiServer(tls=True) as server:
        yield server


@pytest.fixture
async def proxy(server, tmp_path):
    config = server.kubeconfig()
    cluster = config["clusters"][0]["cluster"]
    write_certificates(tmp_path, {})
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(tmp_path / "apiserver.crt", tmp_path / "apiserver.key")
    port = int(cluster["server"].rpartition(":")[2])
    proxy = Proxy(Target("127.0.0.1", port, _context(cluster)), serving, random.Random(1))
    await proxy.listen("client")
    yield proxy
    await proxy.close()


@pytest.fixture
async def api(server, proxy, tmp_path):
    """A client of the proxy."""
    config = server.kubeconfig()
    config["clusters"][0]["cluster"] = {
        "server": f"https://127.0.0.1:{proxy.listeners['client'].port}",
        "certificate-authority": str(tmp_path / "ca.crt"),
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    api = Api(path)
    yield api
    await api.close()


def make(server, *names):
    for name in names:
        server.objects.create(pod_manifest(name, namespace="default"))


@asynccontextmanager
async def watching(api, proxy, version=""):
    """Types and names of the events that a watch of pods has told, and their versions."""
    told = []

    async def follow():
        query = {"watch": "true", **({"resourceVersion": version} if version else {})}
        async for line in api.lines("api/v1/pods", query):
            event = json.loads(line)
            about = event["object"].get("metadata", {})
            told.append((event["type"], about.get("name", ""), about.get("resourceVersion", "")))

    await until(lambda: not proxy.watches)
    task = asyncio.create_task(follow())
    try:
        await until(lambda: proxy.watches)
        yield told
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, *BROKEN):
            await task


def names(told):
    return [name for _, name, _ in told]


async def test_what_meets_no_rule_passes_as_it_is(server, proxy, api):
    made = await api.create("pods", pod_manifest("p1"), "default")
    assert await api.get("pods", "p1", "default") == made
    assert [(e.who, e.verb, e.what, e.name, e.status) for e in proxy.entries] == [
        ("client", "create", "pods", "", 201),
        ("client", "get", "pods", "p1", 200),
    ]


async def test_a_rule_means_verbs_resources_and_a_share_of_them(proxy, api):
    rule = Rule(Refusal(503), verbs={"create"}, resources={"pods"}, share=0.5)
    with proxy.rule(rule):
        for number in range(40):
            await api.list("pods", "default")
            with suppress(RefusedError):
                await api.create("pods", pod_manifest(f"p{number}"), "default")
    refused = 40 - len(await api.list("pods", "default"))
    assert 10 < refused < 30
    assert proxy.counts == {"Refusal": refused}
    assert [entry.status for entry in proxy.entries if entry.fault == "Refusal"] == [503] * refused


async def test_a_refusal_says_when_to_come_again(proxy, api):
    with proxy.rule(Rule(Refusal(429, retry_after=7), times=1)):
        with pytest.raises(RefusedError, match="TooManyRequests"):
            await api.list("pods")
        await api.list("pods")


async def test_a_lost_answer_is_one_to_what_was_carried_out(server, proxy, api):
    with proxy.rule(Rule(LostAnswer(), verbs={"create"})), pytest.raises(BROKEN):
        await api.create("pods", pod_manifest("p1"), "default")
    assert server.objects.find("pods", "p1", "default")
    assert [(e.status, e.carried_out, e.fault) for e in proxy.entries] == [(0, 201, "LostAnswer")]


async def test_a_reset_is_one_of_what_was_not_carried_out(server, proxy, api):
    with proxy.rule(Rule(Reset(), verbs={"create"})), pytest.raises(BROKEN):
        await api.create("pods", pod_manifest("p1"), "default")
    assert not server.objects.find("pods", "p1", "default")


async def test_half_an_answer_is_no_answer(proxy, api):
    with proxy.rule(Rule(HalfClose())), pytest.raises(BROKEN):
        await api.list("pods")


async def test_what_is_stalled_ends_with_the_rule(proxy, api):
    with proxy.rule(Rule(Stall())):
        asked = asyncio.create_task(api.create("pods", pod_manifest("p1"), "default"))
        await until(lambda: proxy.counts["Stall"])
        assert not asked.done()
    with pytest.raises(BROKEN):
        await asked


@pytest.mark.parametrize("fault", [Delay(0.01), Throttle(100_000.0)], ids=["delay", "throttle"])
async def test_what_is_slow_arrives_whole(server, proxy, api, fault):
    make(server, "p1", "p2")
    with proxy.rule(Rule(fault)):
        assert len(await api.list("pods", "default")) == 2
    assert proxy.counts[type(fault).__name__] == 1


async def test_who_is_refused_comes_back_to_the_same_port(proxy, api):
    await api.list("pods")
    proxy.refuse()
    with pytest.raises(BROKEN):
        await api.list("pods")
    await proxy.accept()
    await api.list("pods")


async def test_a_watch_can_be_ended_and_expired(server, proxy, api):
    async with watching(api, proxy) as told:
        assert proxy.end_watches("nodes") == 0
        assert proxy.end_watches("pods") == 1
        await until(lambda: not proxy.watches)
    async with watching(api, proxy) as told:
        assert proxy.expire("pods") == 1
        await until(lambda: not proxy.watches)
        await until(lambda: told)
    assert told == [("ERROR", "", "")]


async def test_a_client_that_goes_away_ends_its_watch_at_the_server(server, proxy, api):
    async with watching(api, proxy):
        await until(lambda: server.open_watches == 1)
    await until(lambda: not server.open_watches)
    await until(lambda: not proxy.watches)


async def test_doubled_events_never_bring_back_what_was_before(server, proxy, api):
    async with watching(api, proxy) as told:
        fault = Duplicates(random.Random(3), 1.0)
        with proxy.tampering(fault):
            make(server, "p1", "p2", "p3", "p4", "p5")
            server.objects.delete("pods", "p1", "default")
            make(server, "last")
            await until(lambda: "last" in names(told))
    assert proxy.counts["Duplicates"] > 0
    assert len(told) > 7
    last = {name: kind for kind, name, _ in told}
    assert last["p1"] == "DELETED"


async def test_another_order_keeps_that_of_each_object(server, proxy, api):
    async with watching(api, proxy) as told:
        with proxy.tampering(Reordering(random.Random(3), window=8)):
            for name in ("p1", "p2", "p3", "p4"):
                make(server, name)
                server.objects.delete("pods", name, "default")
            await until(lambda: sum(kind == "DELETED" for kind, _, _ in told) == 4)
    versions = [int(version) for _, _, version in told]
    assert versions != sorted(versions)
    for name in ("p1", "p2", "p3", "p4"):
        own = [int(version) for _, other, version in told if other == name]
        assert own == sorted(own)


async def test_a_watch_that_goes_on_tells_again_and_one_after_a_list_does_not(server, proxy, api):
    with proxy.tampering(Replays(random.Random(3))):
        async with watching(api, proxy) as told:
            make(server, "p1", "p2")
            await until(lambda: len(told) == 2)
        async with watching(api, proxy, told[-1][2]) as again:
            make(server, "p3")
            await until(lambda: len(again) == 3)
        assert names(again) == ["p1", "p2", "p3"]
        await until(lambda: not proxy.watches)
        make(server, "p4")
        now = await api.send("GET", "api/v1/pods")
        async with watching(api, proxy, now["metadata"]["resourceVersion"]) as after:
            make(server, "p5")
            await until(lambda: after)
        assert names(after) == ["p5"]


async def test_a_deletion_that_is_not_told_ends_in_a_watch_that_has_expired(server, proxy, api):
    make(server, "p1")
    async with watching(api, proxy) as told:
        await until(lambda: told)
        with proxy.tampering(SwallowedDeletes(random.Random(3), 1.0)):
            server.objects.delete("pods", "p1", "default")
            make(server, "p2")
            await until(lambda: "p2" in names(told))
        await until(lambda: told[-1][0] == "ERROR")
    assert "DELETED" not in [kind for kind, _, _ in told]


@pytest.mark.parametrize("seed", range(4))
async def test_bookmarks_do_not_go_beyond_what_was_told(server, proxy, api, seed):
    make(server, "p1")
    async with watching(api, proxy) as told:
        await until(lambda: told)
        version = told[0][2]
        silence = BookmarksOnly(random.Random(seed))
        with proxy.tampering(silence):
            make(server, "p2")
            await until(lambda: silence.count)
            silence.bookmark(proxy.watches)
            await until(lambda: len(told) == 2)
        await until(lambda: len(told) == 3)
    assert told[1] == ("BOOKMARK", "", version)
    assert told[2][0] in ("ADDED", "ERROR")


async def test_a_garbled_event_is_half_of_one(server, proxy, api):
    make(server, "p1")
    with proxy.tampering(Corruption(random.Random(3), 1.0)):
        line = await anext(api.lines("api/v1/pods", {"watch": "true"}))
    assert line.startswith(b'{"type":"ADDED"')
    with pytest.raises(json.JSONDecodeError):
        json.loads(line)
    assert proxy.counts == {"Corruption": 1}


async def test_the_log_is_written_as_lines(proxy, api, tmp_path):
    await api.list("pods")
    proxy.write_log(tmp_path / "log" / "proxy.jsonl")
    (line,) = (tmp_path / "log" / "proxy.jsonl").read_text().splitlines()
    assert json.loads(line)["what"] == "pods"
