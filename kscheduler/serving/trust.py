"""Trusted authorities: for callers' own certificates, and for proxies that vouch for callers.

Each comes from a file or, if no file is named, from the ConfigMap where the API server publishes
its own. Both may change while we run. If the new state cannot be read, the last good one stays in
force; nothing is ever trusted for want of better knowledge.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from kscheduler import logs
from kscheduler.api.core import ConfigMap
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import quote

if TYPE_CHECKING:
    from kscheduler.serving.client_certificate import Authorities

log = logs.logger(__name__)

NAMESPACE = "kube-system"
CONFIG_MAP = "extension-apiserver-authentication"
# Time between two checks of a file.
CHECK_SECONDS = 1.0

_decode_names = msgspec.json.Decoder(list[str] | None).decode


class UntrustedCertificateError(KschedulerError):
    """No authority stands behind the certificate."""


class Headers(msgspec.Struct, frozen=True):
    """The headers a proxy uses, and the common names of proxies that may (none: any)."""

    usernames: tuple[str, ...] = ()
    uids: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()


class CaFile:
    """Authorities in a file, read again when it has changed."""

    def __init__(self, purpose: str, path: str) -> None:
        self._name = f"{purpose}::{path}"
        self._path = path
        self._stamp = file_stamp(path)
        self._authorities = load_authorities(self._name, files.read(path))
        self._check_at = 0.0

    def current(self, now: float) -> Authorities:
        if now >= self._check_at:
            self._check_at = now + CHECK_SECONDS
            stamp = file_stamp(self._path)
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._authorities = load_authorities(self._name, files.read(self._path))
                except ConfigError as error:
                    problem = "Unable to load new CA bundle, keeping the last"
                    log.error(error, problem, name=self._name)
        return self._authorities


class Published:
    """Authorities and headers as the ConfigMap has them, from `take_first` on.

    A start reads the ConfigMap, because it may be fatal not to have it, and leaves what is in it
    for later: what understands certificates takes 30 ms to import, and scheduling goes first.
    """

    def __init__(self, first: ConfigMap | None = None) -> None:
        self.client: Authorities | None = None
        self.proxy: Authorities | None = None
        self.headers = Headers()
        self._first = first

    def take_first(self) -> None:
        """Before anybody is served."""
        if self._first is not None:
            self.take(self._first)
            self._first = None

    def take(self, item: ConfigMap) -> None:
        self.take_authorities(item)
        self.take_headers(item)

    def take_authorities(self, item: ConfigMap) -> None:
        self.client = _taken(item.data, "client-ca-file", self.client)
        self.proxy = _taken(item.data, "requestheader-client-ca-file", self.proxy)

    def take_headers(self, item: ConfigMap) -> None:
        try:
            self.headers = headers_in(item.data)
        except ConfigError as error:
            log.error(error, "Unable to read request header settings, keeping the last")


class Trust:
    """The state of the moment, from whatever source each part has."""

    def __init__(
        self,
        *,
        client_file: CaFile | None = None,
        proxy_file: CaFile | None = None,
        proxy_headers: Headers | None = None,
        published: Published | None = None,
    ) -> None:
        self._client_file = client_file
        self._proxy_file = proxy_file
        self._proxy_headers = proxy_headers
        self._published = published

    @property
    def asks(self) -> bool:
        """Whether there is any point in asking clients for a certificate."""
        return any((self._client_file, self._proxy_file, self._published))

    def client(self, now: float) -> Authorities | None:
        if self._client_file:
            return self._client_file.current(now)
        return self._published.client if self._published else None

    def proxy(self, now: float) -> Authorities | None:
        if self._proxy_file:
            return self._proxy_file.current(now)
        return self._published.proxy if self._published else None

    @property
    def headers(self) -> Headers:
        if self._proxy_file:
            return self._proxy_headers or Headers()
        return self._published.headers if self._published else Headers()

    def authorities(self, now: float) -> bytes:
        """All of them in PEM: those to ask clients for a certificate of."""
        found = (self.client(now), self.proxy(now))
        return b"\n".join(one.pem for one in found if one is not None)


def load_authorities(name: str, content: bytes) -> Authorities:
    # Here and not above, for the sake of starts that need no authorities: 25 ms.
    from kscheduler.serving.client_certificate import Authorities

    if not content:
        raise ConfigError(f"missing content for CA bundle {quote(name)}")
    try:
        return Authorities.from_pem(content)
    except ConfigError as error:
        raise ConfigError(f"error loading CA bundle for {quote(name)}: {error}") from error


def headers_in(data: Mapping[str, str]) -> Headers:
    def names(key: str) -> tuple[str, ...]:
        try:
            return tuple(_decode_names(data.get(key) or "[]") or ())
        except (msgspec.DecodeError, RecursionError) as error:
            raise ConfigError(f"{key}: {error}") from error

    return Headers(
        usernames=names("requestheader-username-headers"),
        uids=names("requestheader-uid-headers"),
        groups=names("requestheader-group-headers"),
        extra_prefixes=names("requestheader-extra-headers-prefix"),
        proxies=names("requestheader-allowed-names"),
    )


def _taken(data: Mapping[str, str], key: str, last: Authorities | None) -> Authorities | None:
    content = data.get(key, "").encode()
    if not content or (last is not None and last.pem == content):
        return last
    name = f"client-ca::{NAMESPACE}::{CONFIG_MAP}::{key}"
    try:
        found = load_authorities(name, content)
    except ConfigError as error:
        log.error(error, "Unable to load new CA bundle, keeping the last", name=name)
        return last
    log.v(2).info("Loaded a new CA Bundle and Verifier", name=name)
    return found


def file_stamp(path: str) -> tuple[int, int, int] | None:
    """A value that changes with the file; None if it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
