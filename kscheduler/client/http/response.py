"""An HTTP/1.1 answer, understood while it comes in; nothing of sockets.

Strict: an answer that breaks the rules is not guessed at, it costs its connection.
"""

import re
from collections.abc import Callable
from typing import NoReturn

MAX_HEAD_BYTES = 64 << 10
MAX_CHUNK_LINE_BYTES = 1 << 10
# "103 Early Hints" and the like before the answer proper; as many as Go puts up with.
MAX_INTERIM = 5
# No more of a body is held at a time: a list of all pods of the largest cluster is smaller.
MAX_HELD_BYTES = 1 << 30
# A refusal is a Status or a proxy's page.
MAX_REFUSAL_BYTES = 16 << 20
MAX_LENGTH_DIGITS = 15
# Pieces below this size are put together as they come: each would take 40 bytes more than it holds.
SMALL_BYTES = 4 << 10

_JOINED_BYTES = 64 << 10
_BEGINNING = b"HTTP/1."
_HEAD = re.compile(
    rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: ([^\r\n\0]*))?"
    rb"((?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\r\n\0]*)*)"
)
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[^\r\n]*)?")


class MalformedResponseError(Exception):
    """Bytes that are no answer by the rules of HTTP/1.1."""


class Response:
    """Fed with bytes in pieces of any size; `status` is 0 until the head is complete.

    `bodiless` is for answers that have no body whatever their head says, as to CONNECT.
    """

    __slots__ = (
        "_at",
        "_bodiless",
        "_body",
        "_interim",
        "_left",
        "_most_bytes",
        "_step",
        "_unread",
        "complete",
        "headers",
        "held_bytes",
        "keeps_alive",
        "reason",
        "status",
    )

    def __init__(self, *, bodiless: bool = False, most_bytes: int = MAX_HELD_BYTES) -> None:
        self.status = 0
        self.reason = b""
        self.headers: dict[bytes, bytes] = {}  # by lower-case name
        self.complete = False
        # Whether the connection may carry another exchange after this one.
        self.keeps_alive = False
        self.held_bytes = 0
        self._bodiless = bodiless
        self._most_bytes = most_bytes
        self._interim = 0
        # What has not been understood yet begins at this place of these bytes.
        self._unread = b""
        self._at = 0
        self._body: list[bytes | bytearray] = []
        self._left = 0
        # Each step understands something and says whether the next may find enough to go on.
        # Plain functions: bound ones would make of every answer a cycle for the collector.
        self._step: Callable[[Response], bool] = Response._take_head

    @property
    def begun(self) -> bool:
        return bool(self.status or self._unread or self._interim)

    def feed(self, data: bytes) -> None:
        self._unread = self._unread + data if self._unread else data
        while self._step(self):
            pass
        self._unread = self._unread[self._at :] if self._at else self._unread
        self._at = 0

    def end(self) -> None:
        """No more will come; a body without a length is complete by that."""
        if self._step is Response._take_until_end:
            self._finish()

    def take(self) -> bytes:
        """Bytes of the body that have come and were not taken before."""
        body = self._body
        data = body[0] if len(body) == 1 else b"".join(body)
        self._body, self.held_bytes = [], 0
        return data if isinstance(data, bytes) else bytes(data)

    def text_of(self, name: bytes) -> str:
        """A header's value, or nothing."""
        return self.headers.get(name, b"").decode("latin-1")

    def _take_head(self) -> bool:
        start = self._at
        end = self._unread.find(b"\r\n\r\n", start)
        if end < 0 or end - start > MAX_HEAD_BYTES:
            # Bytes that can never become a head are refused now, not when the peer falls silent.
            head = self._unread[start:]
            like_http = head.startswith(_BEGINNING) or _BEGINNING.startswith(head)
            if not like_http or len(head) > MAX_HEAD_BYTES or b"\n\n" in head:
                _refuse(head)
            return False
        found = _HEAD.fullmatch(self._unread, start, end)
        if found is None:
            _refuse(self._unread[start:end])
        self._at = end + 4
        minor, status, reason, fields = found.groups()
        if status < b"200":
            self._interim += 1
            if status == b"101" or self._interim > MAX_INTERIM:
                raise MalformedResponseError(f"unexpected answer {status.decode()}")
            return True
        self.reason = reason or b""
        headers = self.headers
        for line in fields.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            name, value = name.lower(), value.strip(b" \t")
            # A header that comes twice is joined to a list (RFC 9110, section 5.2).
            headers[name] = headers[name] + b", " + value if name in headers else value
        closes = b"close" in self.headers.get(b"connection", b"").lower()
        self.keeps_alive = minor == b"1" and not closes
        if status >= b"300":
            self._most_bytes = min(self._most_bytes, MAX_REFUSAL_BYTES)
        self._begin_body(int(status))
        self.status = int(status)
        return True

    def _begin_body(self, status: int) -> None:
        """Choose how the body's end is found: RFC 9112, section 6.3, in its order."""
        encoding = self.headers.get(b"transfer-encoding")
        length = self.headers.get(b"content-length")
        if self._bodiless or status in (204, 304):
            self._finish()
        elif encoding is not None:
            if encoding.lower() != b"chunked":
                name = encoding.decode("latin-1")
                raise MalformedResponseError(f'unsupported transfer encoding: "{name}"')
            # With both, the encoding decides; the connection is closed after it, because the two
            # may be an attempt to smuggle a second answer.
            self.keeps_alive = self.keeps_alive and length is None
            self._step = Response._take_chunk_line
        elif length is not None:
            if not length.isdigit() or len(length) > MAX_LENGTH_DIGITS:
                raise MalformedResponseError(f'bad Content-Length "{length.decode("latin-1")}"')
            self._left = int(length)
            self._step = Response._take_sized
        else:
            self.keeps_alive = False
            self._step = Response._take_until_end

    def _take_sized(self) -> bool:
        self._take_some()
        if not self._left:
            self._finish()
        return False

    def _take_chunk_line(self) -> bool:
        line = self._line(MAX_CHUNK_LINE_BYTES)
        if line is None:
            return False
        found = _CHUNK_LINE.fullmatch(line)
        if found is None:
            raise MalformedResponseError(f"bad chunk size: {line!r}")
        self._left = int(found[1], 16)
        self._step = Response._take_chunk if self._left else Response._take_trailer
        return True

    def _take_chunk(self) -> bool:
        self._take_some()
        at = self._at
        if self._left or len(self._unread) < at + 2:
            return False
        if not self._unread.startswith(b"\r\n", at):
            raise MalformedResponseError("a chunk is longer than it said")
        self._at = at + 2
        self._step = Response._take_chunk_line
        return True

    def _take_trailer(self) -> bool:
        """Skip the headers after the last chunk, which no caller uses."""
        line = self._line(MAX_HEAD_BYTES)
        if line is None:
            return False
        self._left += len(line)
        if self._left > MAX_HEAD_BYTES:
            raise MalformedResponseError("the trailer is too long")
        if not line:
            self._finish()
        return bool(line)

    def _take_until_end(self) -> bool:
        self._left = len(self._unread) - self._at
        self._take_some()
        return False

    def _take_nothing(self) -> bool:
        """Drop bytes after the end; a connection on which a server sends some is not kept."""
        if self._at < len(self._unread):
            self.keeps_alive = False
            self._at = len(self._unread)
        return False

    def _take_some(self) -> None:
        """Move to the body as much of what is left of it as has come."""
        start, unread = self._at, self._unread
        end = min(start + self._left, len(unread))
        if start == end:
            return
        self._at = end
        self._left -= end - start
        self.held_bytes += end - start
        if self.held_bytes > self._most_bytes:
            raise MalformedResponseError(f"an answer of more than {self._most_bytes} bytes")
        body, piece = self._body, unread[start:end]
        if not body or len(piece) >= SMALL_BYTES:
            body.append(piece)
        elif isinstance(last := body[-1], bytearray) and len(last) < _JOINED_BYTES:
            last += piece
        else:
            body.append(bytearray(piece))

    def _line(self, most_bytes: int) -> bytes | None:
        start = self._at
        end = self._unread.find(b"\r\n", start)
        if (len(self._unread) if end < 0 else end) - start > most_bytes:
            raise MalformedResponseError("a line is too long")
        if end < 0:
            return None
        self._at = end + 2
        return self._unread[start:end]

    def _finish(self) -> None:
        self.complete = True
        self._step = Response._take_nothing
        self._take_nothing()


def _refuse(head: bytes) -> NoReturn:
    if len(head) > MAX_HEAD_BYTES:
        raise MalformedResponseError("the head is too long")
    line = head.split(b"\n", 1)[0].rstrip(b"\r").decode("ascii", "backslashreplace")
    version, space, rest = line.partition(" ")
    status = rest.lstrip(" ").partition(" ")[0]
    what, shown = "response", line
    if space and not (len(status) == 3 and status.isdigit()):
        what, shown = "status code", status
    elif space and re.fullmatch(r"HTTP/\d\.\d", version) is None:
        what, shown = "version", version
    raise MalformedResponseError(f'malformed HTTP {what} "{shown[:100]}"')
