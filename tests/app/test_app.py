"""What the loop is told about connections, and what of it deserves a traceback."""

import asyncio

import pytest

from kscheduler.app import log_loop_error


@pytest.mark.parametrize(
    ("error", "passed_on"),
    [
        pytest.param(
            RuntimeError(
                "unable to perform operation on <TCPTransport closed=True>; the handler is closed"
            ),
            False,
            id="lost before the TLS handshake",
        ),
        pytest.param(RuntimeError("dictionary changed size"), True, id="another error"),
        pytest.param(ValueError("the handler is closed"), True, id="of another kind"),
        pytest.param(None, True, id="no exception at all"),
    ],
)
def test_only_a_lost_connection_is_told_in_one_line(error, passed_on):
    told = []
    loop = asyncio.new_event_loop()
    loop.default_exception_handler = told.append
    try:
        context = {"message": "Exception in callback", "exception": error}
        log_loop_error(loop, context)
    finally:
        loop.close()
    assert told == ([context] if passed_on else [])
