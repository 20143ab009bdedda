"""How to greet a TLS client: certificates by host name, versions, ciphers."""

from __future__ import annotations

import os
import ssl
import tempfile

from cryptography import x509

from kscheduler.serving.secure_port import Pem, SecurePort


def context_for(port: SecurePort) -> ssl.SSLContext:
    """The context of the port; a client that names a host gets the certificate made for it."""
    main = _context(port, port.pair)
    by_name = {
        name: context
        for pair, names in port.sni_pairs
        for context in [_context(port, pair)]
        for name in names or _names_in(pair)
    }

    def choose(
        connection: ssl.SSLSocket | ssl.SSLObject, host: str | None, _: ssl.SSLContext
    ) -> None:
        chosen = by_name.get(host or "") or by_name.get(_wildcard(host or ""))
        if chosen is not None:
            connection.context = chosen

    if by_name:
        main.sni_callback = choose
    return main


def _context(port: SecurePort, pair: Pem) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = port.min_version
    context.set_alpn_protocols(["http/1.1"])
    if port.ciphers:
        context.set_ciphers(port.ciphers)
    if len(port.curves) == 1:
        # Python takes one curve; of several, the library's own choice stands.
        context.set_ecdh_curve(port.curves[0])
    _load(context, pair)
    return context


def _load(context: ssl.SSLContext, pair: Pem) -> None:
    """ssl reads pairs from files only, so one exists for a moment, readable by nobody else."""
    certificate, key = pair
    handle, path = tempfile.mkstemp()
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(key + b"\n" + certificate)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)


def _names_in(pair: Pem) -> list[str]:
    certificate = x509.load_pem_x509_certificate(pair[0])
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    return extension.value.get_values_for_type(x509.DNSName)


def _wildcard(host: str) -> str:
    return "*." + host.partition(".")[2]
