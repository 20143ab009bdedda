"""Who we are, request by request: tokens, and files in which tokens are replaced.

Mirrors client-go's transport round trippers. An `Identity` says what there is,
`credentials_for` makes it answer; a certificate in files is the business of `tls`.
"""

import base64
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kscheduler import logs
from kscheduler.client.exec_plugin import Exec, ExecPlugin
from kscheduler.errors import ConfigError
from kscheduler.gotext import files

log = logs.logger(__name__)

# What Go does not send as a header's value.
NOT_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_KEY = re.compile(rb"[^!#$&'*+.^_`|~0-9A-Za-z-]")

# A token file is read again after a minute, a little early so that no request meets the change.
TOKEN_FILE_SECONDS = 50.0


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to act as."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def headers(self) -> list[tuple[str, str]]:
        if not self.user:
            return []
        headers = [("Impersonate-User", self.user)]
        headers += [("Impersonate-Uid", self.uid)] if self.uid else []
        headers += [("Impersonate-Group", group) for group in self.groups]
        headers += [
            (f"Impersonate-Extra-{_header_key(key)}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return headers


def _header_key(key: str) -> str:
    """A key as the rest of a header's name: the server reads it in lower case, without escapes.

    In Go's spelling, which has capitals at the beginning of each word.
    """
    escaped = _NOT_IN_KEY.sub(lambda byte: b"%%%02X" % ord(byte[0]), key.encode()).decode()
    return "-".join(word[:1].upper() + word[1:].lower() for word in escaped.split("-"))


@dataclass(frozen=True, slots=True)
class Identity:
    """Everything a kubeconfig's user entry may hold, but for certificates in files."""

    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    impersonation: Impersonation = field(default_factory=Impersonation)


class Credentials(Protocol):
    """What a request carries to prove who sent it."""

    async def authorization(self) -> str | None:
        """The Authorization header for a request sent now."""

    async def certificate(self) -> tuple[bytes, bytes] | None:
        """Certificate and key as PEM, if they are not in the TLS configuration."""

    def rejected(self, sent: str | None) -> None:
        """The server answered 401 to this Authorization header: it is not to be sent again."""


def credentials_for(
    identity: Identity,
    *,
    has_certificate: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> Credentials:
    """The kubeconfig's own order: what is written down goes before what a plugin would say."""
    if identity.token_file:
        return TokenFile(identity.token_file, identity.token, clock=clock)
    if identity.token:
        return Fixed(f"Bearer {identity.token}")
    if identity.username or identity.password:
        pair = f"{identity.username}:{identity.password}".encode()
        return Fixed(f"Basic {base64.b64encode(pair).decode()}")
    if identity.exec is not None and not has_certificate:
        return ExecPlugin(identity.exec)
    return Fixed(None)


class Fixed:
    """Credentials that never change; None for a certificate or for nobody."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def authorization(self) -> str | None:
        return self._header

    async def certificate(self) -> None:
        return None

    def rejected(self, sent: str | None) -> None:
        """Nothing else could be tried."""


class TokenFile:
    """A token that someone else keeps fresh in a file; the last good one serves if that fails."""

    def __init__(
        self, path: str, token: str = "", *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._path = path
        self._token = token.strip()
        self._clock = clock
        self._read_at = float("-inf")
        self._was_read = False

    async def authorization(self) -> str | None:
        now = self._clock()
        if now - self._read_at >= TOKEN_FILE_SECONDS:
            self._read(now)
        return f"Bearer {self._token}"

    async def certificate(self) -> None:
        return None

    def rejected(self, sent: str | None) -> None:
        self._read_at = float("-inf")

    def _read(self, now: float) -> None:
        # A token is a kilobyte on a local or memory file system: no thread is worth its while.
        try:
            token = files.read(self._path).decode(errors="replace").strip()
            if not token:
                raise ConfigError(f'read empty token from file "{self._path}"')
        except ConfigError as error:
            if self._was_read:
                log.error(error, "Unable to rotate token")
            return
        self._token, self._read_at, self._was_read = token, now, True
