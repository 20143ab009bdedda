"""How to greet a TLS client: certificates by host name, versions, ciphers."""

from __future__ import annotations

import ssl

from cryptography import x509
from cryptography.x509.oid import NameOID

from kscheduler.client.tls import as_file
from kscheduler.serving.secure_port import Pem, SecurePort


def context_for(port: SecurePort) -> ssl.SSLContext:
    """The context of the port; a client that names a host gets the certificate made for it."""
    main = _context(port, port.pair)
    by_name = _contexts_by_name(port)

    def choose(
        connection: ssl.SSLSocket | ssl.SSLObject, host: str | None, _: ssl.SSLContext
    ) -> None:
        name = (host or "").lower().rstrip(".")
        chosen = by_name.get(name) or by_name.get(_wildcard(name))
        if chosen is not None:
            connection.context = chosen

    if by_name:
        main.sni_callback = choose
    return main


def _contexts_by_name(port: SecurePort) -> dict[str, ssl.SSLContext]:
    """Of two pairs for one name the first wins, and given names win over those in certificates."""
    found: dict[str, ssl.SSLContext] = {}
    given: dict[str, ssl.SSLContext] = {}
    for pair, names in reversed(port.sni_pairs):
        context = _context(port, pair)
        if names:
            given |= dict.fromkeys(names, context)
        else:
            found |= dict.fromkeys(_names_in(pair), context)
    return found | given


def _context(port: SecurePort, pair: Pem) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = port.min_version
    context.set_alpn_protocols(["http/1.1"])
    if port.ciphers:
        context.set_ciphers(port.ciphers)
    if len(port.curves) == 1:
        # Python takes one curve; of several, the library's own choice stands.
        context.set_ecdh_curve(port.curves[0])
    certificate, key = pair
    with as_file(key + b"\n" + certificate) as path:
        context.load_cert_chain(path)
    return context


def _names_in(pair: Pem) -> list[str]:
    """Its DNS names, and its common name; addresses do not count."""
    certificate = x509.load_pem_x509_certificate(pair[0])
    common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    names = [str(attribute.value) for attribute in common]
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return names
    return names + extension.value.get_values_for_type(x509.DNSName)


def _wildcard(host: str) -> str:
    return "*." + host.partition(".")[2]
