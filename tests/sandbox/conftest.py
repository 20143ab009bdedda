"""A running sandbox and a plain HTTP client for it."""

import aiohttp
import pytest

from kscheduler.sandbox import ApiServer
from tests.sandbox.rest import Rest


@pytest.fixture
async def server():
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def rest(server):
    headers = {"Authorization": f"Bearer {server.token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Rest(session, server.url)


@pytest.fixture
def objects(server):
    return server.objects
