"""Which page answers which path: an exact match, else the longest prefix that has one.

The method does not matter, as upstream; a page that cares looks at it itself.
"""

from __future__ import annotations

from aiohttp import web

from kscheduler.serving import answers
from kscheduler.serving.answers import Handler
from kscheduler.serving.gate import path_of


class Pages:
    """`listed` is what /statusz tells of."""

    def __init__(self) -> None:
        self._exact: dict[str, Handler] = {}
        self._below: dict[str, Handler] = {}
        self.listed: list[str] = []

    def add(self, path: str, handler: Handler, *, listed: bool = False) -> None:
        self._exact[path] = handler
        if listed:
            self.listed = sorted([*self.listed, path])

    def add_below(self, prefix: str, handler: Handler) -> None:
        """For every path that begins with `prefix`."""
        self._below[prefix] = handler

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        path = path_of(request)
        if path in self._exact:
            return await self._exact[path](request)
        prefixes = sorted(filter(path.startswith, self._below), key=len)
        if prefixes:
            return await self._below[prefixes[-1]](request)
        return answers.not_found()
