"""Token and access reviews: the API server identifies callers and decides on their requests.

Time-outs and repetitions are upstream's: 10 s for a review, up to five tries half a second apart
where the server only hiccuped. The connections are the reviews' own, so that an API server that
does not answer them delays nothing else.

Verdicts are kept for a while; a caller that asks meanwhile waits for the same request. They are
bounded by `MAX_KEPT`: the one least recently asked for goes first. Keys are hashed, so that neither
tokens nor long paths stay in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

import msgspec

from kscheduler import logs
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.resources import SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS
from kscheduler.api.small_groups import (
    NonResourceAttributes,
    ResourceAttributes,
    SubjectAccessReview,
    SubjectAccessReviewSpec,
    SubjectAccessReviewStatus,
    TokenReview,
    TokenReviewSpec,
    TokenReviewStatus,
    UserInfo,
)
from kscheduler.client.errors import (
    ApiError,
    ConnectionReset,
    DeadlineExceeded,
    InternalError,
    StatusError,
    Timeout,
    TooManyRequests,
)
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.throttle import jittered
from kscheduler.serving.access_metrics import AccessObserver

log = logs.logger(__name__)

REVIEW_SECONDS = 10.0
TRIES = 5
FIRST_PAUSE_SECONDS = 0.5
RETRIABLE = (ConnectionReset, InternalError, Timeout, TooManyRequests)
# Longer questions are asked each time.
MAX_KEPT_QUESTION = 10_000

T = TypeVar("T")

_decode_token_review = decoder_for(TokenReview)
_decode_access_review = decoder_for(SubjectAccessReview)
_encode = msgspec.json.Encoder().encode


class TokenReviews:
    """Users by token."""

    def __init__(self, client: KubeClient, keep_seconds: float, observer: AccessObserver) -> None:
        self._client = client
        self._observer = observer
        self._verdicts: Verdicts[TokenReviewStatus] = Verdicts(lambda _: keep_seconds)

    async def user(self, token: str) -> UserInfo | None:
        """The token's user; None if there is none; ApiError if the server did not decide."""
        question = token.encode()
        with self._observer.looking_up(known=self._verdicts.holds(question)):
            status = await self._verdicts.get(question, lambda: self._review(token))
        return status.user if status.authenticated else None

    async def _review(self, token: str) -> TokenReviewStatus:
        body = _body("TokenReview", TOKEN_REVIEWS.api_version, TokenReviewSpec(token=token))
        try:
            with self._observer.reviewing_token():
                async with asyncio.timeout(REVIEW_SECONDS):
                    answer = await _persist(lambda: self._client.create(TOKEN_REVIEWS, body))
            status = _decode_token_review(answer).status
        except TimeoutError as error:
            log.text_error(
                "Failed to make webhook authenticator request: context deadline exceeded"
            )
            raise DeadlineExceeded("Post tokenreviews", "context deadline exceeded") from error
        except (ApiError, DecodeError) as error:
            log.text_error(f"Failed to make webhook authenticator request: {error}")
            raise
        if status.error and not status.authenticated:
            raise ApiError(status.error)
        return status


class AccessReviews:
    """Permissions by user, verb and path or resource."""

    def __init__(
        self,
        client: KubeClient,
        *,
        keep_allowed_seconds: float,
        keep_refused_seconds: float,
        observer: AccessObserver,
    ) -> None:
        self._client = client
        self._observer = observer

        def lifetime(status: SubjectAccessReviewStatus) -> float:
            return keep_allowed_seconds if status.allowed else keep_refused_seconds

        self._verdicts: Verdicts[SubjectAccessReviewStatus] = Verdicts(lifetime)

    async def review(
        self, user: UserInfo, asked: NonResourceAttributes | ResourceAttributes
    ) -> SubjectAccessReviewStatus:
        spec = SubjectAccessReviewSpec(
            resource_attributes=asked if isinstance(asked, ResourceAttributes) else None,
            non_resource_attributes=asked if isinstance(asked, NonResourceAttributes) else None,
            user=user.username,
            groups=user.groups,
            extra=user.extra,
            uid=user.uid,
        )
        if sum(map(len, msgspec.structs.astuple(asked))) > MAX_KEPT_QUESTION:
            return await self._review(spec)
        return await self._verdicts.get(_encode(spec), lambda: self._review(spec))

    async def _review(self, spec: SubjectAccessReviewSpec) -> SubjectAccessReviewStatus:
        body = _body("SubjectAccessReview", SUBJECT_ACCESS_REVIEWS.api_version, spec)
        try:
            with self._observer.reviewing_access():
                answer = await _persist(lambda: self._client.create(SUBJECT_ACCESS_REVIEWS, body))
            return _decode_access_review(answer).status
        except (ApiError, DecodeError) as error:
            log.text_error(f"Failed to make webhook authorizer request: {error}")
            raise


def _body(kind: str, api_version: str, spec: TokenReviewSpec | SubjectAccessReviewSpec) -> bytes:
    """A review as client-go writes it: with an empty status, whose members lack omitempty."""
    status: dict[str, object] = {"user": {}} if kind == "TokenReview" else {"allowed": False}
    return _encode(
        {"kind": kind, "apiVersion": api_version, "metadata": {}, "spec": spec, "status": status}
    )


async def _persist(send: Callable[[], Awaitable[T]]) -> T:
    pause = FIRST_PAUSE_SECONDS
    for _ in range(TRIES - 1):
        try:
            return await send()
        except ApiError as error:
            names_time = isinstance(error, StatusError) and error.retry_after is not None
            if not (names_time or isinstance(error, RETRIABLE)):
                raise
        await asyncio.sleep(jittered(pause, 0.2))
        pause *= 1.5
    return await send()


V = TypeVar("V")

MAX_KEPT = 8192


class Verdicts(Generic[V]):
    """`lifetime` says for how many seconds a verdict holds; failures are not kept."""

    def __init__(self, lifetime: Callable[[V], float]) -> None:
        self._lifetime = lifetime
        self._secret = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, tuple[float, V]] = OrderedDict()
        self._awaited: dict[bytes, asyncio.Future[V]] = {}

    def holds(self, question: bytes) -> bool:
        """Whether the verdict is known by now."""
        expires, _ = self._kept.get(self._key(question), (0.0, None))
        return time.monotonic() < expires

    def _key(self, question: bytes) -> bytes:
        return hmac.digest(self._secret, question, hashlib.sha256)

    async def get(self, question: bytes, ask: Callable[[], Awaitable[V]]) -> V:
        key = self._key(question)
        if key in self._kept:
            expires, verdict = self._kept[key]
            if time.monotonic() < expires:
                self._kept.move_to_end(key)
                return verdict
            del self._kept[key]
        if key in self._awaited:
            # Shielded: one caller that goes away must not end the wait of the others.
            return await asyncio.shield(self._awaited[key])
        answer: asyncio.Future[V] = asyncio.get_running_loop().create_future()
        self._awaited[key] = answer
        try:
            verdict = await ask()
        except Exception as error:
            answer.set_exception(error)
            answer.exception()  # Marks it as seen: there need be no other caller waiting.
            raise
        except BaseException:
            answer.cancel()
            raise
        finally:
            del self._awaited[key]
        answer.set_result(verdict)
        seconds = self._lifetime(verdict)
        if seconds > 0:
            self._kept[key] = (time.monotonic() + seconds, verdict)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return verdict

    def __len__(self) -> int:
        return len(self._kept)
