"""Writes that may only be sent while something still holds: a lease, in the scheduler's case.

A request can be old when its turn comes: it waited for our rate limit or for a connection, or the
whole process was stopped. So the question is asked again by the body itself, in the very step that
hands the first byte to the socket; aiohttp keeps the headers back until then, and a refused
request leaves nothing on the wire. What remains is a process stopped between that question and
the system call right behind it.
"""

from collections.abc import Callable

from aiohttp import BytesPayload
from aiohttp.abc import AbstractStreamWriter

from kscheduler.client.errors import Withheld

# For how many more seconds writes may be sent; none, when not positive.
Fence = Callable[[], float]


def withheld(request: str) -> Withheld:
    return Withheld(request, "not sent, because the lease has run out")


class FencedBody(BytesPayload):
    """A request's body that is not written once its fence is closed."""

    def __init__(self, content: bytes, fence: Fence, request: str) -> None:
        super().__init__(content)
        self._fence = fence
        self._request = request
        self.refusal: Withheld | None = None

    async def write_with_length(
        self, writer: AbstractStreamWriter, content_length: int | None
    ) -> None:
        if self._fence() <= 0:
            self.refusal = withheld(self._request)
            raise self.refusal
        await super().write_with_length(writer, content_length)
