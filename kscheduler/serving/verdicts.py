"""Verdicts that took a request to get, kept for a while; who asks meanwhile waits for the same one.

Bounded by `MAX_KEPT`: the one least recently asked for goes first. Keys are hashed, so that neither
tokens nor long paths stay in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

V = TypeVar("V")

MAX_KEPT = 8192


class Verdicts(Generic[V]):
    """`lifetime` says for how many seconds a verdict holds; failures are not kept."""

    def __init__(self, lifetime: Callable[[V], float]) -> None:
        self._lifetime = lifetime
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, tuple[float, V]] = OrderedDict()
        self._awaited: dict[bytes, asyncio.Future[V]] = {}

    def holds(self, question: bytes) -> bool:
        """Whether the verdict is known by now."""
        expires, _ = self._kept.get(self._key(question), (0.0, None))
        return time.monotonic() < expires

    def _key(self, question: bytes) -> bytes:
        return hmac.digest(self._secret, question, hashlib.sha256)

    async def get(self, question: bytes, ask: Callable[[], Awaitable[V]]) -> V:
        key = self._key(question)
        if key in self._kept:
            expires, verdict = self._kept[key]
            if time.monotonic() < expires:
                self._kept.move_to_end(key)
                return verdict
            del self._kept[key]
        if key in self._awaited:
            return await asyncio.shield(self._awaited[key])
        return await self._ask(key, ask)

    async def _ask(self, key: bytes, ask: Callable[[], Awaitable[V]]) -> V:
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._awaited[key] = answer
        try:
            verdict = await ask()
        except BaseException as error:
            _fail(answer, error)
            raise
        finally:
            del self._awaited[key]
        answer.set_result(verdict)
        self._keep(key, verdict)
        return verdict

    def _keep(self, key: bytes, verdict: V) -> None:
        seconds = self._lifetime(verdict)
        if seconds <= 0:
            return
        self._kept[key] = (time.monotonic() + seconds, verdict)
        if len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)


def _fail(answer: asyncio.Future[V], error: BaseException) -> None:
    """Tell those who wait; nobody need be waiting."""
    if isinstance(error, Exception):
        answer.set_exception(error)
        answer.exception()
    else:
        answer.cancel()
