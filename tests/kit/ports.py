"""Ports that servers in tests are told to listen on."""

import socket
import sys


def free_port() -> int:
    """A port that nobody else is given before a server listens on it, nor while that is away.

    Where a port can be bound twice as long as nobody listens, which is on Linux, it stays bound
    until this process ends.
    """
    probe = socket.socket()
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    port = int(probe.getsockname()[1])
    if sys.platform == "linux":
        probe.detach()
    else:
        probe.close()
    return port
