"""What following costs per pod, beyond decoding it. Printed, not asserted: machines differ."""

import asyncio
import time

from kscheduler.client.informers.decoding import Lines, decode_change
from tests.client.following import SHAPE, Story, following
from tests.client.scripted import bookmark, event, line
from tests.client.streams import MemoryClient, realistic_pod

PODS = 10_000


def test_following_costs_little_more_than_decoding():
    lines = [line(event("ADDED", realistic_pod(n))) for n in range(PODS)]
    stream = b"".join([*lines, line(bookmark(PODS, initial_end=True))])
    chunks = [stream[start : start + 65536] for start in range(0, len(stream), 65536)]

    objects = [one[len(b'{"type":"ADDED","object":') : -2] for one in lines]
    decoding = _seconds(lambda: [SHAPE.decode(one) for one in objects])
    splitting = _seconds(lambda: _split(chunks))
    understanding = _seconds(lambda: [decode_change(one[:-1], SHAPE) for one in lines])
    following_seconds = min(asyncio.run(_follow(chunks)) for _ in range(3))

    per_pod = 1e6 / PODS
    print(
        f"\n{PODS} pods of {len(lines[0])} bytes, per pod: decode {decoding * per_pod:.1f} us, "
        f"split {splitting * per_pod:.1f} us, decode_change {understanding * per_pod:.1f} us, "
        f"follow into store and handler {following_seconds * per_pod:.1f} us "
        f"(overhead {(following_seconds - decoding) * per_pod:.1f} us)"
    )


def _seconds(work):
    """The best of three runs."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        work()
        best = min(best, time.process_time() - started)
    return best


def _split(chunks):
    lines = Lines()
    for chunk in chunks:
        lines.feed(chunk)


async def _follow(chunks):
    async with following(MemoryClient(chunks)) as followed:
        followed.informer.add_handler(Story())
        started = time.process_time()
        await followed.informer.wait_for_sync()
        seconds = time.process_time() - started
        assert len(followed.informer) == PODS
    return seconds
