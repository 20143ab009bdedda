"""One line when the server goes away, one when it is back, and none in between; and waking of those
who wait for it.
"""

import asyncio
import threading

import pytest

from kscheduler.client.errors import ConnectionRefused, ConnectionReset, HostNotFound
from kscheduler.client.observation import QUIET_SECONDS, Reachability
from tests.kit.polling import until

REFUSED = ConnectionRefused('Get "http://x/"', "dial tcp x: connect: connection refused")


@pytest.fixture
def now():
    return [1000.0]


@pytest.fixture
def server(now):
    reachability = Reachability(lambda: now[0])
    reachability.begin()
    return reachability


def test_nothing_is_told_before_the_daemon_runs(now, logged):
    Reachability(lambda: now[0]).failed(REFUSED)
    assert logged.messages == []


def test_loss_is_told_once_with_its_cause_and_remedy(server, logged):
    for _ in range(3):
        server.failed(REFUSED)
    (line,) = logged.messages
    assert "The API server cannot be reached" in line
    assert "connection refused" in line
    assert ConnectionRefused.remedy in line


def test_return_is_told(server, logged):
    server.failed(REFUSED)
    server.answered()
    server.answered()
    assert "can be reached again" in logged.messages[1]
    assert len(logged.messages) == 2


def test_server_that_was_never_away_is_not_welcomed_back(server, logged):
    server.answered()
    assert logged.messages == []


def test_broken_connection_is_no_loss_of_the_server(server, logged):
    server.failed(ConnectionReset('Get "http://x/"', "EOF"))
    assert logged.messages == []


def test_server_that_comes_and_goes_is_told_of_now_and_then(server, now, logged):
    for _ in range(10):
        server.failed(REFUSED)
        server.answered()
    assert len(logged.messages) == 2
    now[0] += QUIET_SECONDS
    server.failed(HostNotFound('Get "http://x/"', "no such host"))
    assert len(logged.messages) == 3


@pytest.mark.parametrize("status", [200, 404, 409])
async def test_whoever_waits_for_the_server_hears_of_the_first_request_that_is_served(
    server, now, status
):
    waiting = asyncio.create_task(server.served(now[0]))
    await asyncio.sleep(0)
    now[0] += 1.0
    server.answered(503)
    server.answered(429)
    await asyncio.sleep(0)
    assert not waiting.done()
    server.answered(status)
    await waiting


async def test_a_request_that_was_served_since_then_is_enough(server, now):
    server.answered()
    await server.served(now[0] - 1.0)


async def test_a_request_of_another_thread_wakes_as_well(server, now):
    waiting = asyncio.create_task(server.served(now[0]))
    await asyncio.sleep(0)
    now[0] += 1.0
    thread = threading.Thread(target=server.answered)
    thread.start()
    await until(waiting.done)
    thread.join()


async def test_whoever_stops_waiting_is_forgotten(server, now):
    waiting = asyncio.create_task(server.served(now[0]))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert not server._waiting
