"""Waiting on purpose: the token bucket that spares the server, and growing pauses after failures.

Time is an argument everywhere: a bucket or a back-off never looks at a clock by itself.
"""

import random

import msgspec

DEFAULT_QPS = 5.0
DEFAULT_BURST = 10


class TokenBucket:
    """client-go's flow control: `burst` requests at once, then `qps` per second.

    A request that finds no token takes one from the future and waits for it as long as `reserve`
    says, so waiting requests are served in the order in which they came.
    """

    __slots__ = ("_burst", "_qps", "_seen_at", "_tokens")

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(burst)
        self._tokens = float(burst)
        self._seen_at = float("-inf")

    def reserve(self, now: float) -> float:
        """Takes a token; returns the seconds until it may be used."""
        self._refill(now)
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._qps)

    def give_back(self) -> None:
        """Returns a token whose request was given up while it waited."""
        self._tokens = min(self._burst, self._tokens + 1.0)

    def try_take(self, now: float) -> bool:
        """Takes a token if one is there now."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _refill(self, now: float) -> None:
        if now > self._seen_at:
            earned = (now - self._seen_at) * self._qps
            self._tokens = min(self._burst, self._tokens + earned)
            self._seen_at = now


def bucket_for(qps: float, burst: int) -> TokenBucket | None:
    """The bucket of a client connection; a negative qps means no throttling, 0 the defaults."""
    if qps < 0:
        return None
    return TokenBucket(qps or DEFAULT_QPS, burst or DEFAULT_BURST)


def jittered(seconds: float, factor: float) -> float:
    """Somewhere from `seconds` up to `1 + factor` times that."""
    return seconds * (1.0 + random.random() * factor)


class Backoff(msgspec.Struct):
    """Pauses that double up to a cap and start over once nothing has failed for a while.

    The defaults are the reflector's: 0.8 s to 30 s, up to doubled by chance, reset after 2 min.
    """

    first_seconds: float = 0.8
    cap_seconds: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0
    reset_seconds: float = 120.0
    _next_seconds: float = 0.0
    _asked_at: float = float("-inf")

    def next(self, now: float) -> float:
        if now - self._asked_at > self.reset_seconds:
            self._next_seconds = self.first_seconds
        self._asked_at = now
        pause = self._next_seconds
        self._next_seconds = min(pause * self.factor, self.cap_seconds)
        return jittered(pause, self.jitter)

    def reset(self) -> None:
        """The next pause is the shortest again."""
        self._next_seconds = self.first_seconds


def brief_retries() -> list[float]:
    """The pauses between the four tries of a write: about 10, 50 and 250 ms."""
    return [jittered(seconds, 0.1) for seconds in (0.01, 0.05, 0.25)]
