"""Credentials of requests: tokens, files in which tokens are replaced, and exec plugins.

Mirrors client-go's transport round trippers. An `Identity` says what there is,
`credentials_for` makes it answer; a certificate in files is the business of `tls`.
"""

import asyncio
import base64
import os
import re
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Protocol

import msgspec

from kscheduler import logs
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.errors import ConfigError
from kscheduler.gotext import files

# A plugin may open a browser; one that hangs must not hold the scheduler for ever.
TIMEOUT_SECONDS = 120.0

INSTALL_HELP = """

It looks like you are trying to use a client-go credential plugin that is not installed.

To learn more about this feature, consult the documentation available at:
      https://kubernetes.io/docs/reference/access-authn-authz/authentication/\
#client-go-credential-plugins"""

log = logs.logger(__name__)
# What Go does not send as a header's value.
NOT_IN_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_KEY = re.compile(rb"[^!#$&'*+.^_`|~0-9A-Za-z-]")
# A token file is read again after a minute, a little early so that no request meets the change.
TOKEN_FILE_SECONDS = 50.0


class Exec(msgspec.Struct, frozen=True):
    """A program that prints credentials; `cluster` is the description of ours, if it wants one."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    api_version: str = "client.authentication.k8s.io/v1"
    install_hint: str = ""
    interactive_mode: str = "Never"
    cluster: Mapping[str, Any] | None = None


class _Issued(NamedTuple):
    """Credentials that one run of the plugin has issued."""

    authorization: str | None
    certificate: tuple[bytes, bytes] | None
    expires_at: float


class ExecStatus(msgspec.Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    status: ExecStatus | None = None


class ExecPlugin:
    """Runs a program for credentials: at first use, when they expire, and after a 401."""

    def __init__(self, config: Exec, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._wall_clock = wall_clock
        self._issued: _Issued | None = None
        self._turn = asyncio.Lock()

    async def authorization(self) -> str | None:
        return (await self._valid()).authorization

    async def certificate(self) -> tuple[bytes, bytes] | None:
        return (await self._valid()).certificate

    def rejected(self, sent: str | None) -> None:
        if self._issued is not None and self._issued.authorization == sent:
            self._issued = None

    async def _valid(self) -> _Issued:
        """One run at a time: requests that come meanwhile share its outcome."""
        stale = self._issued
        if stale is not None and self._wall_clock() <= stale.expires_at:
            return stale
        async with self._turn:
            if self._issued is None or self._issued is stale:
                self._issued = self._parse(await self._output())
            return self._issued

    async def _output(self) -> bytes:
        """Run the program; returns its standard output."""
        config, command = self._config, self._config.command
        terminal = sys.stdin is not None and sys.stdin.isatty()
        if config.interactive_mode == "Always" and not terminal:
            raise ConfigError(
                "exec plugin cannot support interactive mode: standard input is not a terminal"
            )
        interactive = config.interactive_mode != "Never" and terminal
        about = {} if config.cluster is None else {"cluster": config.cluster}
        request = {
            "kind": "ExecCredential",
            "apiVersion": config.api_version,
            "spec": {**about, "interactive": interactive},
        }
        exec_info = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
        try:
            process = await asyncio.create_subprocess_exec(
                command,
                *config.args,
                env={**os.environ, **config.env, **exec_info},
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
            )
        except FileNotFoundError as error:
            hint = f"\n\n{config.install_hint}" if config.install_hint else ""
            raise ConfigError(
                f"exec: executable {command} not found{INSTALL_HELP}{hint}"
            ) from error
        except OSError as error:
            raise ConfigError(f"exec: fork/exec {command}: {files.reason(error)}") from error
        output = await _finish(process, command)
        if process.returncode:
            raise ConfigError(
                f"exec: executable {command} failed with exit code {process.returncode}"
            )
        return output

    def _parse(self, output: bytes) -> _Issued:
        """The credentials in the plugin's output, checked in upstream's order."""
        try:
            credential = decoder_for(ExecCredential)(output)
        except DecodeError as error:
            raise ConfigError(f"decoding stdout: {error}") from error
        if credential.api_version != self._config.api_version:
            raise ConfigError(
                f"exec plugin is configured to use API version {self._config.api_version}, "
                f"plugin returned version {credential.api_version}"
            )
        status = credential.status
        if status is None:
            raise ConfigError("exec plugin didn't return a status field")
        pair = (status.client_certificate_data.encode(), status.client_key_data.encode())
        if not status.token and not any(pair):
            raise ConfigError("exec plugin didn't return a token or cert/key pair")
        if any(pair) and not all(pair):
            raise ConfigError("exec plugin returned only certificate or key, not both")
        expiry = status.expiration_timestamp
        return _Issued(
            authorization=f"Bearer {status.token}" if status.token else None,
            certificate=pair if all(pair) else None,
            expires_at=expiry.timestamp() if expiry else float("inf"),
        )


async def _finish(process: asyncio.subprocess.Process, command: str) -> bytes:
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError as error:
        raise ConfigError(
            f"exec: executable {command} did not finish within {TIMEOUT_SECONDS:g}s"
        ) from error
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return output


class Impersonation(msgspec.Struct, frozen=True):
    """The user to act as."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)

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


class Identity(msgspec.Struct, frozen=True):
    """Everything a kubeconfig's user entry may hold, but for certificates in files."""

    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    impersonation: Impersonation = msgspec.field(default_factory=Impersonation)


class Credentials(Protocol):
    """A source of the proof that requests carry of who sent them."""

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
    """Credentials that never change; None where a certificate identifies us, or nothing does."""

    def __init__(self, header: str | None) -> None:
        self._header = header

    async def authorization(self) -> str | None:
        return self._header

    async def certificate(self) -> None:
        return None

    def rejected(self, sent: str | None) -> None:
        """Nothing else could be tried."""


class TokenFile:
    """A token in a file that is replaced from time to time; the last good one serves meanwhile."""

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
            # A token is a kilobyte on a local or memory file system: no thread is worth its while.
            try:
                token = files.read(self._path).decode(errors="replace").strip()
                if not token:
                    raise ConfigError(f'read empty token from file "{self._path}"')
            except ConfigError as error:
                # Not before it was read once: the token then comes from the kubeconfig itself.
                if self._was_read:
                    log.error(error, "Unable to rotate token")
            else:
                self._token, self._read_at, self._was_read = token, now, True
        return f"Bearer {self._token}"

    async def certificate(self) -> None:
        return None

    def rejected(self, sent: str | None) -> None:
        self._read_at = float("-inf")
