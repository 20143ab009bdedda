"""A kubelet's end of port forwarding: every port of every pod is one of loopback."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from tests.kit.port_forwarding import PortForwarding
from tests.kit.ports import free_port

PATHS = ("/portForward/{namespace}/{pod}", "/portForward/{namespace}/{pod}/{uid}")


@asynccontextmanager
async def kubelet(server: Path) -> AsyncIterator[tuple[PortForwarding, int]]:
    """While it serves, with the certificate that the API server in this folder believes; what it
    was asked for, and its port.
    """
    forwarding = PortForwarding(lambda namespace, pod, port: ("127.0.0.1", port))
    application = web.Application()
    for path in PATHS:
        application.router.add_get(path, forwarding.__call__)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server / "kubelet.crt", server / "kubelet.key")
    runner = web.AppRunner(application, shutdown_timeout=1)
    await runner.setup()
    port = free_port()
    try:
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        yield forwarding, port
    finally:
        await runner.cleanup()
