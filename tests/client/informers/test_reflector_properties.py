"""Whatever happens on the way, a follower ends up where the server is, by a story that adds up."""

import asyncio
from collections import defaultdict

from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.transport import Transport
from tests.client.following import following
from tests.client.scripted import bookmark, event, failing, line, pod, status_body
from tests.kit.polling import until

NAMES = ["a", "b"]


class Cluster:
    """Pods with a history, served by LIST, WATCH and streamed list, with faults on demand."""

    def __init__(self, *, streams: bool) -> None:
        self.pods: dict[str, int] = {}
        self.version = 1
        self.forgotten = 0
        self._streams = streams
        self._log: list[tuple[int, str, str]] = []
        self._faults: list[str] = []
        self._watches: dict[asyncio.Task[object], web.Request] = {}
        self._news = asyncio.Event()

    @property
    def state(self) -> dict[str, str]:
        return {name: str(version) for name, version in self.pods.items()}

    def change(self, name: str, kind: str) -> None:
        self.version += 1
        if kind == "delete":
            if self.pods.pop(name, None) is None:
                return
            self._append("DELETED", name)
        else:
            self._append("MODIFIED" if name in self.pods else "ADDED", name)
            self.pods[name] = self.version

    def fault(self, kind: str) -> None:
        if kind == "forget":
            self.forgotten = self.version
        elif kind == "cut":
            for request in self._watches.values():
                if request.transport is not None:
                    request.transport.abort()
        else:
            self._faults.append(kind)

    def _append(self, kind: str, name: str) -> None:
        self._log.append((self.version, kind, name))
        self._news.set()
        self._news = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if self._faults:
            fault = self._faults.pop()
            if fault == "refuse":
                return await failing(500, "InternalError").send(request)
            if fault == "expire":
                return await failing(410, "Expired").send(request)
        if request.query.get("watch") != "true":
            return await self._list(request)
        if request.query.get("sendInitialEvents"):
            if not self._streams:
                return await failing(422, "Invalid").send(request)
            return await self._stream(request, initial=True)
        if int(request.query["resourceVersion"]) < self.forgotten:
            return await failing(410, "Expired").send(request)
        return await self._stream(request, initial=False)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        items = [pod(name, version) for name, version in self.pods.items()]
        half = len(items) // 2
        page: dict[str, object] = {"resourceVersion": str(self.version)}
        if request.query.get("limit") and "continue" not in request.query and half:
            page["continue"] = f"{self.version}"
            items = items[:half]
        elif "continue" in request.query:
            if int(request.query["continue"]) != self.version:
                return await failing(410, "Expired").send(request)
            items = items[half:]
        return web.json_response({"metadata": page, "items": items})

    async def _stream(self, request: web.Request, *, initial: bool) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self._watches[task] = request
        try:
            if initial:
                since = self.version
                for name, version in list(self.pods.items()):
                    await self._write(response, event("ADDED", pod(name, version)))
                await self._write(response, bookmark(since, initial_end=True))
            else:
                since = int(request.query["resourceVersion"])
            while True:
                news = self._news
                for version, kind, name in self._log:
                    if version > since:
                        await self._write(response, event(kind, pod(name, version)))
                        since = version
                if "error" in self._faults:
                    self._faults.remove("error")
                    gone = status_body(410, "Expired", "too old")
                    await self._write(response, event("ERROR", gone))
                    return response
                await news.wait()
        except ConnectionError:
            return response
        finally:
            del self._watches[task]

    async def _write(self, response: web.StreamResponse, item: object) -> None:
        """Half a line, sometimes, so that a cut may fall into it."""
        data = line(item)
        await response.write(data[: len(data) // 2])
        await asyncio.sleep(0)
        await response.write(data[len(data) // 2 :])


changes = st.tuples(st.sampled_from(NAMES), st.sampled_from(["put", "put", "delete"]))
faults = st.sampled_from(["cut", "cut", "cut", "forget", "refuse", "expire", "error"])
rounds = st.tuples(
    st.lists(faults, max_size=1),
    st.lists(changes, max_size=5),
    st.lists(faults, max_size=2),
    st.booleans(),
)
"""What breaks, what changes meanwhile, what breaks then, and whether the follower is waited for."""


def consistent(calls):
    """Per object: added, updated to ever newer versions, deleted, and then perhaps added again."""
    stories = defaultdict(list)
    for what, name, version in calls:
        stories[name].append((what, int(version)))
    for story in stories.values():
        alive, last = False, 0
        for what, version in story:
            if what in ("initial", "add"):
                assert not alive
                alive = True
            elif what == "update":
                assert alive
                assert version > last
            else:
                assert alive
                alive = False
            assert version >= last
            last = version


@given(
    before=st.lists(changes, max_size=4),
    rounds=st.lists(rounds, min_size=2, max_size=8),
    streams=st.booleans(),
)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_store_equals_the_server_after_any_faults(before, rounds, streams):
    asyncio.run(_run(before, rounds, streams))


async def _run(before, rounds, streams):
    cluster = Cluster(streams=streams)
    for name, kind in before:
        cluster.change(name, kind)
    application = web.Application()
    application.router.add_get("/api/v1/pods", cluster.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        async with (
            Transport(RestConfig(url), agent="x") as transport,
            following(KubeClient(transport)) as followed,
        ):
            await followed.informer.wait_for_sync()
            for first, meanwhile, then, wait in rounds:
                for fault in first:
                    cluster.fault(fault)
                for name, kind in meanwhile:
                    cluster.change(name, kind)
                for fault in then:
                    cluster.fault(fault)
                if wait:
                    await until(lambda: followed.state == cluster.state)
            cluster.change("last", "put")
            await until(lambda: followed.state == cluster.state)
            consistent(followed.story.calls)
    finally:
        await runner.cleanup()
