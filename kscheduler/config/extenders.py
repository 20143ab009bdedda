"""Extenders as configuration builds them: what that changes, and which cannot be built.

Mirrors buildExtenders in pkg/scheduler/scheduler.go and the TLS checks of client-go's transport.
Differs: a certificate that is not one is refused in one general phrase.
"""

from __future__ import annotations

import re

from kscheduler.config.defaults import changed
from kscheduler.config.model import (
    ExtenderTLSConfig,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
)
from kscheduler.config.plugin_args import PluginArgs
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.duration import Duration

DEFAULT_TIMEOUT = Duration.of(5)
PEM_BLOCK = re.compile(
    rb"^-----BEGIN (?P<type>[^-\n]+)-----\s*$.*?^-----END (?P=type)-----\s*$", re.M | re.S
)


def with_built_extenders(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Timeouts filled in, and resources that extenders manage ignored by NodeResourcesFit."""
    try:
        for extender in config.extenders:
            _check_tls(extender.tls_config or ExtenderTLSConfig(), https=extender.enable_https)
        ignored = tuple(
            resource.name
            for extender in config.extenders
            for resource in extender.managed_resources
            if resource.ignored_by_scheduler
        )
        profiles = config.profiles
        if ignored:
            profiles = tuple(_ignoring(profile, ignored) for profile in profiles)
    except ConfigError as error:
        raise ConfigError(f"couldn't build extenders: {error}") from error
    extenders = tuple(
        changed(extender, http_timeout=extender.http_timeout or DEFAULT_TIMEOUT)
        for extender in config.extenders
    )
    return changed(config, extenders=extenders, profiles=profiles)


def _ignoring(profile: KubeSchedulerProfile, resources: tuple[str, ...]) -> KubeSchedulerProfile:
    """The profile with these resources ignored, in place of those that its file names."""
    entries = list(profile.plugin_config)
    for i, entry in enumerate(entries):
        if entry.name == "NodeResourcesFit":
            assert isinstance(entry.args, PluginArgs)
            entries[i] = changed(entry, args=changed(entry.args, ignored_resources=resources))
            return changed(profile, plugin_config=tuple(entries))
    raise ConfigError("can't find NodeResourcesFitArgs in plugin config")


def _check_tls(tls: ExtenderTLSConfig, *, https: bool) -> None:
    has_ca = bool(tls.ca_file or tls.ca_data)
    if has_ca and tls.insecure:
        raise ConfigError(
            "specifying a root certificates file with the insecure flag is not allowed"
        )
    has_pair = bool((tls.cert_file or tls.cert_data) and (tls.key_file or tls.key_data))
    if not (has_ca or has_pair or tls.insecure or https or tls.server_name):
        return
    authority = _data(tls.ca_data, tls.ca_file)
    certificate = _data(tls.cert_data, tls.cert_file)
    key = _data(tls.key_data, tls.key_file)
    if authority:
        _check_authority(authority)
    reloaded = tls.cert_file and tls.key_file and not tls.cert_data and not tls.key_data
    if has_pair and not reloaded:
        _check_pair(certificate, key)


def _data(given: bytes, path: str) -> bytes:
    return given or (files.read(path) if path else b"")


def _check_authority(pem: bytes) -> None:
    from cryptography import x509

    blocks = list(PEM_BLOCK.finditer(pem))
    certificates = [block for block in blocks if block["type"] == b"CERTIFICATE"]
    for block in certificates:
        try:
            x509.load_pem_x509_certificate(block.group())
            return  # one valid certificate is enough, as in AppendCertsFromPEM
        except ValueError:
            continue
    problem = "no valid certificate authority data seen"
    if certificates:
        problem = "failed to parse certificate: x509: malformed certificate"
    elif not blocks or pem[blocks[-1].end() :].strip():
        problem = "unable to parse bytes as PEM block"
    raise ConfigError(f"unable to load root certificates: {problem}")


def _check_pair(certificate: bytes, key: bytes) -> None:
    """In the order of tls.X509KeyPair: PEM blocks, certificate, key, and that they fit."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_pem_private_key,
    )

    certificate_types = _block_types(certificate)
    if b"CERTIFICATE" not in certificate_types:
        problem = (
            'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping '
            f"PEM blocks of the following types: [{b' '.join(certificate_types).decode()}]"
        )
        if not certificate_types:
            problem = "tls: failed to find any PEM data in certificate input"
        elif len(certificate_types) == 1 and certificate_types[0].endswith(b"PRIVATE KEY"):
            problem = (
                "tls: failed to find certificate PEM data in certificate input, but did find a "
                "private key; PEM inputs may have been switched"
            )
        raise ConfigError(problem)
    key_types = _block_types(key)
    if not any(kind.endswith(b"PRIVATE KEY") for kind in key_types):
        problem = (
            'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after '
            f"skipping PEM blocks of the following types: [{b' '.join(key_types).decode()}]"
        )
        if not key_types:
            problem = "tls: failed to find any PEM data in key input"
        elif key_types == [b"CERTIFICATE"]:
            problem = "tls: found a certificate rather than a key in the PEM for the private key"
        raise ConfigError(problem)
    try:
        public = x509.load_pem_x509_certificate(certificate).public_key()
    except ValueError as error:
        raise ConfigError("x509: malformed certificate") from error
    try:
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise ConfigError("tls: failed to parse private key") from error
    mine = private.public_key()
    if type(mine) is not type(public):
        raise ConfigError("tls: private key type does not match public key type")
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if mine.public_bytes(*form) != public.public_bytes(*form):
        raise ConfigError("tls: private key does not match public key")


def _block_types(pem: bytes) -> list[bytes]:
    return [block["type"] for block in PEM_BLOCK.finditer(pem)]
