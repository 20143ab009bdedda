"""A file descriptor that is written to without ever waiting for its reader.

The threads that log also schedule and renew the lease, so a stalled reader of stderr must cost
lines, not time: a line is written only as far as poll says there is room, the rest waits in a
bounded backlog, and what does not fit there is lost. A closed descriptor or a full disk loses lines
too; nothing raises.
"""

import os
import select
import threading

# A pipe that polls as ready takes this many bytes without blocking (POSIX).
PIECE = select.PIPE_BUF
BACKLOG_BYTES = 1 << 20


class FileStream:
    """`buffer_bytes` may wait for the next flush; beyond that a write goes out at once.

    Threads may share it. The lock can be taken twice, as by a signal handler that logs.
    """

    def __init__(self, fd: int, buffer_bytes: int = 0) -> None:
        self._fd = fd
        self._buffer_bytes = buffer_bytes
        self._pending = bytearray()
        self._room = select.poll()
        self._room.register(fd, select.POLLOUT)
        self._lock = threading.RLock()

    def write(self, line: bytes) -> None:
        with self._lock:
            if len(self._pending) + len(line) <= max(BACKLOG_BYTES, self._buffer_bytes):
                self._pending += line
            if len(self._pending) > self._buffer_bytes:
                self.flush()

    def flush(self, wait_seconds: float = 0.0) -> None:
        """Writes what the reader takes now, or keeps up with within `wait_seconds` per piece."""
        with self._lock:
            try:
                while self._pending and self._room.poll(wait_seconds * 1000):
                    del self._pending[: os.write(self._fd, self._pending[:PIECE])]
            except OSError:
                self._pending.clear()
