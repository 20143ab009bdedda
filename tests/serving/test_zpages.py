"""The verbosity of the log, changed while running, by bodies of every kind."""

import pytest

from kscheduler import logs
from kscheduler.serving import zpages
from kscheduler.serving.gate import Pages

log = logs.logger(__name__)


@pytest.fixture
def installed():
    made = Pages()
    zpages.install_debug_flags(made)
    yield made
    logs.set_verbosity(0)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (b"4", 200, "successfully set klog.logging.verbosity to 4\n"),
        (b"x", 400, 'strconv.ParseUint: parsing "x": invalid syntax\n'),
        (b"-1", 400, 'strconv.ParseUint: parsing "-1": invalid syntax\n'),
        (b"4294967296", 400, 'strconv.ParseUint: parsing "4294967296": value out of range\n'),
        (b"\xff", 400, 'strconv.ParseUint: parsing "\ufffd": invalid syntax\n'),
        (b"1" * 2000, 413, "http: request body too large\n"),
    ],
)
async def test_what_a_body_does(serving, installed, body, status, said):
    async with serving(installed) as client:
        got = await client.ask("/debug/flags/v", "PUT", body=body)
    assert got[::2] == (status, said)
    assert bool(log.v(4)) == (status == 200)


async def test_a_body_that_does_not_come_is_not_waited_for(serving, installed, monkeypatch):
    monkeypatch.setattr(zpages, "BODY_SECONDS", 0.02)
    async with serving(installed) as client:
        reader, writer = await client.connect()
        writer.write(b"PUT /debug/flags/v HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n1")
        assert (await reader.readuntil(b"timeout\n")).startswith(b"HTTP/1.1 400 ")
