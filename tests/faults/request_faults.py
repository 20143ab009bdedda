"""Faults of single requests, and rules that say which requests meet them.

    Rule(Refusal(429, retry_after=1), share=0.3)                        three requests in ten
    Rule(LostAnswer(), verbs={"create"}, resources={"pods/binding"})    every binding
    Rule(Delay(5.0))                                                    everything

A fault is asked to serve an exchange in the proxy's place; all that it can do to it are methods of
the exchange.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field
from typing import Protocol

from tests.faults.wire import Request

REASONS = {
    401: "Unauthorized",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    502: "BadGateway",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Exchange(Protocol):
    """A request on its way through the proxy, as a fault sees it."""

    request: Request
    # Set when the rule that led here is withdrawn.
    over: asyncio.Event
    # Whether it is served to its end even if the client does not wait for that.
    outlives_client: bool

    async def relay(self, bytes_per_second: float = 0.0) -> None:
        """Asks the server and hands its answer on."""

    async def carry_out(self) -> None:
        """Asks the server, and keeps the answer to itself."""

    async def reply(self, status: int, body: bytes, **headers: str) -> None:
        """Answers in the server's place."""

    async def half_close(self) -> None:
        """Asks the server, hands half of its answer on, and says no more."""

    def reset(self) -> None:
        """Ends the client's connection."""


Fault = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True)
class Refusal:
    """An answer with this code in the server's place; what was asked is not carried out."""

    code: int
    retry_after: int = 0

    async def __call__(self, exchange: Exchange) -> None:
        headers = {"retry-after": str(self.retry_after)} if self.retry_after else {}
        await exchange.reply(self.code, status_body(self.code), **headers)


@dataclass(frozen=True)
class RandomRefusal:
    """One of several codes, at random."""

    codes: tuple[int, ...]
    rng: random.Random

    async def __call__(self, exchange: Exchange) -> None:
        await Refusal(self.rng.choice(self.codes))(exchange)


@dataclass(frozen=True)
class Reset:
    """The connection is reset before anything is carried out."""

    async def __call__(self, exchange: Exchange) -> None:
        exchange.reset()


@dataclass(frozen=True)
class LostAnswer:
    """Carried out by the server; then the connection is reset."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.carry_out()
        exchange.reset()


@dataclass(frozen=True)
class Strike:
    """Something is done to the client at the moment of its request, which is carried out or not;
    the answer is lost in any case.
    """

    strike: Callable[[], None]
    carried_out: bool

    async def __call__(self, exchange: Exchange) -> None:
        self.strike()
        if self.carried_out:
            await exchange.carry_out()
        exchange.reset()


@dataclass(frozen=True)
class HalfClose:
    """Half an answer and the end of the stream, on a connection that stays half open."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.half_close()


@dataclass(frozen=True)
class Delay:
    """On its way to the server for so long."""

    seconds: float

    async def __call__(self, exchange: Exchange) -> None:
        await asyncio.sleep(self.seconds)
        await exchange.relay()


@dataclass(frozen=True)
class Late:
    """On its way to the server for so long, and carried out whatever has become of the client."""

    seconds: float

    async def __call__(self, exchange: Exchange) -> None:
        exchange.outlives_client = True
        await asyncio.sleep(self.seconds)
        await exchange.relay()


@dataclass(frozen=True)
class Stall:
    """Never answered: no byte comes, and no end, until the rule is withdrawn."""

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.over.wait()
        exchange.reset()


@dataclass(frozen=True)
class Throttle:
    """Answered with so many bytes per second."""

    bytes_per_second: float

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.relay(self.bytes_per_second)


@dataclass
class Rule:
    """Requests that meet a fault: by verb, resource (`pods/binding`), and a share of them."""

    fault: Fault
    verbs: Set[str] = frozenset()
    resources: Set[str] = frozenset()
    share: float = 1.0
    # At most so many requests, if it is not 0.
    times: int = 0
    # Which requests besides, by anything else that there is to them.
    only: Callable[[Request], bool] = lambda _: True
    met: int = 0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        return type(self.fault).__name__

    def meets(self, request: Request, rng: random.Random) -> bool:
        """Whether this request is one of them; asked once per request."""
        meets = (
            (not self.verbs or request.verb in self.verbs)
            and (not self.resources or request.what in self.resources)
            and not (self.times and self.met >= self.times)
            and self.only(request)
            and (self.share >= 1.0 or rng.random() < self.share)
        )
        self.met += meets
        return meets


def status_body(code: int) -> bytes:
    """A Status as an API server would send it."""
    reason = REASONS.get(code, "InternalError")
    return json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f"the fault proxy says {reason}",
            "reason": reason,
            "code": code,
        }
    ).encode()
