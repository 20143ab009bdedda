"""What a connection tells about its other end."""

from __future__ import annotations

import ssl
from typing import Any

from aiohttp import web


def peer_certificates(request: web.BaseRequest) -> tuple[bytes, ...]:
    """The chain the caller has shown in the handshake, in DER, its own certificate first."""
    transport = request.transport
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if tls is None or (certificate := tls.getpeercert(binary_form=True)) is None:
        return ()
    return (certificate, *_others(tls, certificate))


def _others(tls: Any, certificate: bytes) -> tuple[bytes, ...]:
    if hasattr(tls, "get_unverified_chain"):  # from Python 3.13 on
        chain = tuple(tls.get_unverified_chain())
    else:
        shown = tls._sslobj.get_unverified_chain() or ()
        chain = tuple(ssl.PEM_cert_to_DER_cert(one.public_bytes()) for one in shown)
    return tuple(one for one in chain if one != certificate)
