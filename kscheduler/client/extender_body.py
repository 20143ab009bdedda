"""The body of an extender's answer: perhaps compressed, perhaps without the end it promised.

Upstream reads a JSON value off the wire and leaves the rest alone, so an extender that counts its
bytes wrong, or never says that it has finished, is understood all the same.
"""

import zlib
from collections.abc import Callable

from kscheduler.client.failures import BROKEN
from kscheduler.client.http_connection import Connection
from kscheduler.client.http_response import MalformedResponseError

# After so much silence in the middle of an answer it is looked at; the next time after twice that.
SILENCE_SECONDS = 0.05
# What makes zlib read gzip.
GZIP_BITS = 16 + zlib.MAX_WBITS

# Whether what has come of an answer will do, although more was promised.
Enough = Callable[[bytes], bool]


async def read_body(connection: Connection, enough: Enough, *, most_bytes: int) -> bytes:
    """The body, or what has come of it if that is enough."""
    came = bytearray()
    silence = SILENCE_SECONDS
    while True:
        try:
            came += await connection.read_all(idle_seconds=silence)
            return _decoded(connection, came, most_bytes)
        except BROKEN as error:
            came += connection.response.take()
            body = _decoded(connection, came, most_bytes)
            if enough(body):
                return body
            if not _is_silence(error):
                raise
        silence *= 2


def _is_silence(error: Exception) -> bool:
    """Nothing came for a while, which is no end; a connection that timed out has a number."""
    return isinstance(error, TimeoutError) and error.errno is None


def _decoded(connection: Connection, came: bytearray, most_bytes: int) -> bytes:
    body = bytes(came)
    if connection.response.headers.get(b"content-encoding", b"").lower() == b"gzip":
        decoder = zlib.decompressobj(GZIP_BITS)
        try:
            body = decoder.decompress(body, most_bytes + 1)
        except zlib.error as error:
            raise MalformedResponseError("gzip: invalid header") from error
    if len(body) > most_bytes:
        raise MalformedResponseError(f"an answer of more than {most_bytes} bytes")
    return body
