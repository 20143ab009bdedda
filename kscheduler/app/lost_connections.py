"""Connections that are lost between TCP's handshake and TLS's.

uvloop then writes to a transport that is closed already, and tells the loop of it instead of
whoever is connecting; that one learns of it by its own timeout. One line is enough for it.
"""

import asyncio
from typing import Any

from kscheduler import logs

log = logs.logger(__name__)

_WRITTEN_TO_CLOSED = "the handler is closed"


def tell_of_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's exception handler: the default one for all else."""
    error = context.get("exception")
    if isinstance(error, RuntimeError) and _WRITTEN_TO_CLOSED in str(error):
        log.info("Connection lost before the TLS handshake", err=error)
    else:
        loop.default_exception_handler(context)
