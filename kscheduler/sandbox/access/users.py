"""Users: names and groups, found by token or certificate."""

from __future__ import annotations

import csv
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MASTERS = "system:masters"
AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""

    def authenticated(self) -> User:
        if AUTHENTICATED in self.groups:
            return self
        return User(self.name, (*self.groups, AUTHENTICATED), self.uid)

    @property
    def info(self) -> dict[str, Any]:
        """As reviews show a user."""
        shown: dict[str, Any] = {"username": self.name}
        if self.uid:
            shown["uid"] = self.uid
        if self.groups:
            shown["groups"] = list(self.groups)
        return shown


MAX_ISSUED = 10_000  # tokens of service accounts
ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))
# Clients without credentials over plain HTTP, as on upstream's former insecure port: kubectl sends
# no token there, whatever its kubeconfig says.
UNSECURED = User("system:unsecured", (MASTERS, AUTHENTICATED))
ADMIN = User("kubernetes-admin", (MASTERS,))


class Users:
    """The table of tokens, which may grow while the server runs."""

    def __init__(self, tokens: Mapping[str, User] | None = None) -> None:
        self._issued: deque[str] = deque()
        self._by_token = {token: user.authenticated() for token, user in (tokens or {}).items()}

    def add(self, user: User, token: str = "") -> str:
        """Let `user` in by a token, made up when not given; returns it."""
        token = token or secrets.token_urlsafe(24)
        self._by_token[token] = user.authenticated()
        return token

    def issue(self, user: User) -> str:
        """A token for a service account; of more than `MAX_ISSUED`, the oldest one ends."""
        token = self.add(user)
        self._issued.append(token)
        if len(self._issued) > MAX_ISSUED:
            self._by_token.pop(self._issued.popleft(), None)
        return token

    def by_token(self, token: str) -> User | None:
        return self._by_token.get(token)


def user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The user a verified client certificate stands for: its CN, in the groups its O names."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    if not names:
        return None
    groups = tuple(value for key, value in subject if key == "organizationName")
    return User(names[0], groups).authenticated()


def read_token_file(path: Path) -> dict[str, User]:
    """A static token file: `token,user,uid,"group1,group2"` per line."""
    with path.open(newline="") as lines:
        rows = [row for row in csv.reader(lines) if row and not row[0].startswith("#")]
    return {
        token: User(name, tuple(group for group in (*rest, "")[0].split(",") if group), uid)
        for token, name, uid, *rest in rows
    }
