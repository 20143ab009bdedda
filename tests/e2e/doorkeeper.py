"""Somebody between a daemon and its API server who keeps a request waiting at the door."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import yaml
from aiohttp import web

from tests.e2e.api import Json, _context

PASSED_ON = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
HANDED_BACK = ("Content-Type", "Content-Encoding")


class Doorkeeper:
    """Requests pass, save those of `method` whose path has `part` in it: they never do."""

    def __init__(self, url: str, session: aiohttp.ClientSession, method: str, part: str) -> None:
        self._url = url
        self._session = session
        self._method = method
        self._part = part
        self._waiting = 0

    async def seen(self) -> bool:
        """Whether somebody waits at the door."""
        return self._waiting > 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method == self._method and self._part in request.path:
            self._waiting += 1
            await asyncio.Event().wait()
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        headers.setdefault("Accept-Encoding", "identity")
        body = await request.read()
        async with self._session.request(
            request.method, self._url + request.path_qs, headers=headers, data=body or None
        ) as reply:
            returned = {name: reply.headers[name] for name in HANDED_BACK if name in reply.headers}
            response = web.StreamResponse(status=reply.status, headers=returned)
            await response.prepare(request)
            async for piece in reply.content.iter_any():
                await response.write(piece)
        return response


@asynccontextmanager
async def doorkeeper(
    kubeconfig: Path, method: str, part: str
) -> AsyncIterator[tuple[Doorkeeper, Path]]:
    """The doorkeeper, and a kubeconfig that leads past them."""
    config = _read(kubeconfig)
    cluster = config["clusters"][0]["cluster"]
    # To a server without TLS a client tells no secrets.
    token = config["users"][0]["user"]["token"]
    session = aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {token}"},
        connector=aiohttp.TCPConnector(ssl=_context(cluster), limit=0),
        timeout=aiohttp.ClientTimeout(total=None),
        auto_decompress=False,
    )
    keeper = Doorkeeper(cluster["server"], session, method, part)
    server = web.Server(keeper.answer, handler_cancellation=True)
    runner = web.ServerRunner(server, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        config["clusters"][0]["cluster"] = {"server": url}
        yield keeper, _written(kubeconfig.with_suffix(".door"), config)
    finally:
        await runner.cleanup()
        await session.close()


def _read(path: Path) -> Json:
    config: Json = yaml.safe_load(path.read_text())
    return config


def _written(path: Path, config: Json) -> Path:
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config))
    return path
