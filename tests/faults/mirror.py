"""Collections of the server as they are, read past the proxy."""

import asyncio
import json
from collections.abc import Callable

import aiohttp

from tests.e2e.api import Api, Json, RefusedError, path

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"
AGAIN_SECONDS = 0.1
UNREACHABLE = (aiohttp.ClientError, RefusedError, OSError, TimeoutError)

Key = tuple[str, str]
Listener = Callable[[str, Json], None]


class Mirror:
    """One collection, and callbacks that hear of each change in the server's order."""

    def __init__(self, api: Api, resource: str) -> None:
        self.items: dict[Key, Json] = {}
        self.listeners: list[Listener] = []
        self.synced = asyncio.Event()
        self._api = api
        self._resource = resource

    async def run(self) -> None:
        """Until cancelled; what a server ends is begun anew."""
        while True:
            try:
                await self._list_and_watch()
            except UNREACHABLE:
                await asyncio.sleep(AGAIN_SECONDS)

    async def _list_and_watch(self) -> None:
        answer = await self._api.send("GET", path(self._resource))
        there = {key_of(item): item for item in answer["items"]}
        for key in self.items.keys() - there.keys():
            self._tell(DELETED, self.items[key])
        for key, item in there.items():
            known = self.items.get(key)
            if known is None or version_of(known) != version_of(item):
                self._tell(ADDED if known is None else MODIFIED, item)
        self.synced.set()
        query = {"watch": "true", "resourceVersion": answer["metadata"]["resourceVersion"]}
        async for line in self._api.lines(path(self._resource), query):
            event = json.loads(line)
            if event["type"] == "ERROR":
                return
            self._tell(event["type"], event["object"])

    def _tell(self, kind: str, item: Json) -> None:
        if kind == DELETED:
            self.items.pop(key_of(item), None)
        else:
            self.items[key_of(item)] = item
        for listener in self.listeners:
            listener(kind, item)


def key_of(item: Json) -> Key:
    return item["metadata"].get("namespace", ""), item["metadata"]["name"]


def version_of(item: Json) -> str:
    version: str = item["metadata"]["resourceVersion"]
    return version


def uid_of(item: Json) -> str:
    uid: str = item["metadata"]["uid"]
    return uid
