"""One line when the server goes away, one when it is back, and none in between."""

import pytest

from kscheduler.client.errors import ConnectionRefused, ConnectionReset, HostNotFound
from kscheduler.client.observation import QUIET_SECONDS, Reachability

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
