"""authentication.k8s.io/v1: asking the API server who sent a request."""

from collections.abc import Mapping

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct


class UserInfo(ApiStruct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = EMPTY


class TokenReviewSpec(ApiStruct):
    token: str = ""
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(ApiStruct):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(ApiObject):
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()
