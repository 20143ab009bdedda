"""The server's life cycle and what tests can do to it."""

import asyncio

import aiohttp
import pytest
from aiohttp import web

from kscheduler.sandbox import ApiServer
from tests.kit.manifests import pod_manifest
from tests.kit.polling import until
from tests.sandbox.rest import PODS, new_node


async def test_an_outage_keeps_the_state_and_the_address(rest, server, objects):
    objects.create(pod_manifest("p"))
    url = server.url
    await server.stop_listening()
    with pytest.raises(aiohttp.ClientConnectionError):
        await rest.get(PODS)
    objects.create(pod_manifest("q"))
    await server.listen()
    assert server.url == url
    _, body = await rest.get(PODS)
    assert [item["metadata"]["name"] for item in body["items"]] == ["p", "q"]


async def test_an_outage_ends_watches(rest, server):
    async with rest.watch(PODS) as events:
        await server.stop_listening()
        assert await events.next() is None


async def test_stopping_twice_is_stopping_once():
    server = ApiServer()
    await server.start()
    await server.stop()
    await server.stop()


async def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_behind(server):
    port = int(server.url.rpartition(":")[2])
    second = ApiServer()
    with pytest.raises(OSError, match="address already in use"):
        await second.start(port=port)
    await second.stop()


async def test_the_server_stops_while_clients_are_connected():
    server = ApiServer()
    await server.start()
    async with aiohttp.ClientSession() as session:
        answers = [await session.get(server.url + PODS, params={"watch": "true"}) for _ in range(3)]
        await until(lambda: server.open_watches == 3)
        await server.stop()
        assert [await answer.content.read() for answer in answers] == [b"", b"", b""]


async def test_an_interceptor_can_answer_in_the_servers_place(rest, server, objects):
    objects.create(pod_manifest("p"))

    async def fail_bindings(request):
        if request.path.endswith("/binding"):
            return web.json_response({"kind": "Status", "code": 503}, status=503)
        return None

    server.interceptors.append(fail_bindings)
    assert (await rest.post(f"{PODS}/p/binding", {}))[0] == 503
    assert (await rest.get(f"{PODS}/p"))[0] == 200


async def test_an_interceptor_can_hold_a_request_back(rest, server):
    release = asyncio.Event()

    async def hold(request):
        await release.wait()

    server.interceptors.append(hold)
    answer = asyncio.create_task(rest.get(PODS))
    done, _ = await asyncio.wait([answer], timeout=0.05)
    assert not done
    release.set()
    assert (await answer)[0] == 200


async def test_an_interceptor_can_lose_the_reply(rest, server, objects):
    objects.create(pod_manifest("p"))

    async def lose(request):
        if not request.path.endswith("/binding"):
            return None
        answer = await server.answer(request)
        request.transport.abort()
        return answer

    server.interceptors.append(lose)
    with pytest.raises(aiohttp.ClientConnectionError):
        await rest.post(f"{PODS}/p/binding", {"target": {"name": "n"}})
    assert objects.get("pods", "p")["spec"]["nodeName"] == "n"


async def test_exchanges_are_reported(rest, server):
    seen = []
    server.hooks.append(seen.append)
    await rest.post(f"{PODS}?dryRun=All", pod_manifest("p"), headers={"User-Agent": "tester/1"})
    await rest.get(f"{PODS}/none")
    async with rest.watch(PODS, timeoutSeconds="9"):
        pass
    assert [(one.method, one.path, one.query, one.status) for one in seen] == [
        ("POST", PODS, {"dryRun": "All"}, 201),
        ("GET", f"{PODS}/none", {}, 404),
        ("GET", PODS, {"watch": "true", "timeoutSeconds": "9"}, 200),
    ]
    assert seen[0].user_agent == "tester/1"
    assert b'"name": "p"' in seen[0].body
    assert seen[0].user.name == "kubernetes-admin"


async def test_a_new_cluster_has_what_every_cluster_has(objects):
    names = [item["metadata"]["name"] for item in objects.list("namespaces")]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    assert objects.find("configmaps", "extension-apiserver-authentication", "kube-system")
    assert objects.find("serviceaccounts", "default", "default")


async def test_bookmarks_tell_how_far_a_watch_has_come():
    async with ApiServer(bookmark_seconds=0.02) as server, aiohttp.ClientSession() as session:
        query = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": "1"}
        async with session.get(server.url + "/api/v1/nodes", params=query) as answer:
            line = await asyncio.wait_for(answer.content.readline(), 30)
    assert line.startswith(b'{"type":"BOOKMARK","object":{"kind":"Node","apiVersion":"v1"')


async def test_a_slow_watcher_is_cut_and_the_others_are_not():
    async with ApiServer(watch_queue=50) as server, aiohttp.ClientSession() as session:
        answer = await session.get(server.url + "/api/v1/nodes", params={"watch": "true"})
        await until(lambda: server.open_watches == 1)
        for number in range(60):
            server.objects.create(new_node(f"n{number}"))
        assert await answer.content.read() == b""
        assert server.objects.count("nodes") == 60


async def test_writes_of_many_clients_are_all_kept(rest, objects):
    objects.create(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"n": "0"}}
    )
    path = "/api/v1/namespaces/default/configmaps/c"

    async def increment():
        while True:
            _, item = await rest.get(path)
            item["data"]["n"] = str(int(item["data"]["n"]) + 1)
            code, _ = await rest.put(path, item)
            if code == 200:
                return
            assert code == 409

    await asyncio.gather(*(increment() for _ in range(20)))
    assert objects.get("configmaps", "c")["data"] == {"n": "20"}
