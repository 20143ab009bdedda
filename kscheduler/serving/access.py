"""Callers: the user that sent a request, and whether they may visit its path or resource.

Authentication is by a proxy's word, a certificate or a token; the first that succeeds counts. If
none does, a caller that tried and failed is refused; one that did not try is anonymous.

Authorization: members of system:masters may do everything, and everybody may visit some paths;
about the rest the API server is asked. Without one, nothing else is allowed.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from kscheduler.api.decode import DecodeError
from kscheduler.api.field_errors import aggregate
from kscheduler.api.small_groups import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReviewStatus,
    UserInfo,
)
from kscheduler.client.errors import ApiError
from kscheduler.errors import KschedulerError
from kscheduler.serving.access_metrics import AccessObserver
from kscheduler.serving.reviews import AccessReviews, TokenReviews
from kscheduler.serving.trust import Headers, Trust, UntrustedCertificateError

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

    RequestHeaders = CIMultiDictProxy[str]

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
ANONYMOUS = UserInfo(username="system:anonymous", groups=(UNAUTHENTICATED,))


class UnauthenticatedError(KschedulerError):
    """Credentials were brought, and none was good."""


class InvalidTokenError(KschedulerError):
    """The API server knows no user for the token."""


class Authenticator(msgspec.Struct, frozen=True):
    """`tokens` is None if there is no server to ask about them: then they say nothing."""

    trust: Trust
    tokens: TokenReviews | None = None
    observer: AccessObserver | None = None
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)

    async def user(self, headers: RequestHeaders, certificates: Sequence[bytes]) -> UserInfo:
        """The user of a request; `certificates` is the chain in DER that the caller has shown, if
        any.
        """
        # Upstream's order. A way that fails does not end the search: a caller with an expired
        # certificate may still have a good token.
        ways: tuple[Callable[[], Awaitable[UserInfo | None]], ...] = (
            lambda: self._by_proxy(headers, certificates),
            lambda: self._by_certificate(certificates),
            lambda: self._by_token(headers),
        )
        problems: list[str] = []
        for way in ways:
            try:
                found = await way()
            except (ApiError, DecodeError, InvalidTokenError, UntrustedCertificateError) as error:
                problems.append(str(error))
                continue
            if found is None:
                continue
            marks = {AUTHENTICATED, UNAUTHENTICATED}
            if found.username == ANONYMOUS.username or marks & {*found.groups}:
                return found
            return msgspec.structs.replace(found, groups=(*found.groups, AUTHENTICATED))
        if problems:
            raise UnauthenticatedError(aggregate(problems))
        return ANONYMOUS

    async def _by_proxy(
        self, headers: RequestHeaders, certificates: Sequence[bytes]
    ) -> UserInfo | None:
        authorities = self.trust.proxy(time.monotonic())
        if not certificates or authorities is None:
            return None
        from kscheduler.serving.client_certificate import common_name, load_chain, verify

        chain = load_chain(certificates)
        verify(chain, authorities, self.now())
        allowed = self.trust.headers.proxies
        name = common_name(chain[0])
        if allowed and name not in allowed:
            raise UntrustedCertificateError(
                f"x509: subject with cn={name} is not in the allowed list"
            )
        return user_in(headers, self.trust.headers)

    async def _by_certificate(self, certificates: Sequence[bytes]) -> UserInfo | None:
        authorities = self.trust.client(time.monotonic())
        if not certificates or authorities is None:
            return None
        from kscheduler.serving.client_certificate import identifier, load_chain, user_of, verify

        chain = load_chain(certificates)
        if self.observer is not None:
            left = chain[0].not_valid_after_utc - self.now()
            self.observer.certificate_shown(left.total_seconds())
        try:
            verify(chain, authorities, self.now())
        except UntrustedCertificateError as error:
            raise UntrustedCertificateError(
                f"verifying certificate {identifier(chain[0])} failed: {error}"
            ) from error
        return user_of(chain[0])

    async def _by_token(self, headers: RequestHeaders) -> UserInfo | None:
        token = bearer_token(headers.get("Authorization", ""))
        if self.tokens is None or not token:
            return None
        user = await self.tokens.user(token)
        if user is None:
            raise InvalidTokenError("invalid bearer token")
        return user


def bearer_token(header: str) -> str:
    scheme, _, rest = header.strip().partition(" ")
    return rest.partition(" ")[0] if scheme.lower() == "bearer" else ""


def user_in(headers: RequestHeaders, names: Headers) -> UserInfo | None:
    """The user a trusted proxy names in its headers."""
    username = _first(headers, names.usernames)
    if not username:
        return None
    groups = (value for name in names.groups for value in headers.getall(name, ()))
    extra: dict[str, list[str]] = {}
    for prefix in map(str.lower, names.extra_prefixes):
        for name, value in headers.items():
            if name.lower().startswith(prefix):
                key = unquote(name[len(prefix) :].lower())
                extra.setdefault(key, []).append(value)
    return UserInfo(
        username=username,
        uid=_first(headers, names.uids),
        groups=tuple(filter(None, groups)),
        extra={key: tuple(values) for key, values in extra.items()},
    )


def _first(headers: RequestHeaders, names: Sequence[str]) -> str:
    return next(filter(None, (headers.get(name, "") for name in names)), "")


MASTERS = "system:masters"

ALLOWED = SubjectAccessReviewStatus(allowed=True)
REFUSED = SubjectAccessReviewStatus()


class ContradictionError(KschedulerError):
    """The server allows and denies in one breath."""


class Authorizer(msgspec.Struct, frozen=True):
    """`open_paths` have no slash in front; one that ends in * stands for all that begin so."""

    open_paths: Sequence[str]
    reviews: AccessReviews | None = None

    async def decide(self, user: UserInfo, verb: str, path: str) -> SubjectAccessReviewStatus:
        """The verdict, with its reason; raises if it cannot be had, which is a no as well."""
        bare = path.removeprefix("/")
        is_open = any(
            bare.startswith(open_path[:-1]) if open_path.endswith("*") else bare == open_path
            for open_path in self.open_paths
        )
        if is_open:
            return ALLOWED
        return await self.decide_on(user, NonResourceAttributes(path=path, verb=verb))

    async def decide_on(
        self, user: UserInfo, asked: NonResourceAttributes | ResourceAttributes
    ) -> SubjectAccessReviewStatus:
        """The verdict on a request that no open path covers: none covers resources."""
        if MASTERS in user.groups:
            return ALLOWED
        if self.reviews is None:
            return REFUSED
        status = await self.reviews.review(user, asked)
        if status.denied and status.allowed:
            raise ContradictionError(
                "webhook subject access review returned both allow and deny response"
            )
        return status
