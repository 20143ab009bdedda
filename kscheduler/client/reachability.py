"""Whether the API server can be reached at all, told when that changes and not for every request.

kube-scheduler says nothing of a refused connection below -v=2. Here whoever starts a daemon without
a server reads so in its first line.
"""

import threading
import time
from collections.abc import Callable

from kscheduler import logs
from kscheduler.client.errors import (
    ConnectionRefused,
    DeadlineExceeded,
    HostNotFound,
    TlsError,
    TransportError,
)

log = logs.logger(__name__)

AWAY = (ConnectionRefused, DeadlineExceeded, HostNotFound, TlsError)
# A server that answers every other request is told of once in so long.
QUIET_SECONDS = 60.0


class Reachability:
    """Shared by all connections to one server, whichever thread they belong to.

    Silent until `begin`: a start that only checks or writes a configuration needs no server.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._silent = True
        self._told_at = float("-inf")
        self._away = False
        self._changing = threading.Lock()

    def begin(self) -> None:
        self._silent = False

    def failed(self, error: TransportError) -> None:
        with self._changing:
            now = self._clock()
            if self._silent or self._away or not isinstance(error, AWAY):
                return
            if now - self._told_at < QUIET_SECONDS:
                return
            self._away = True
            self._told_at = now
        log.error(error, "The API server cannot be reached, trying again", remedy=error.remedy)

    def answered(self) -> None:
        if not self._away:
            return
        with self._changing:
            was_away, self._away = self._away, False
        if was_away:
            log.info("The API server can be reached again")
