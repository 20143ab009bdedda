"""Whether a user may do something with a path.

Members of system:masters may do everything, and everybody may visit some paths; about the rest the
API server is asked. Without one, nobody else may do anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler.api.small_groups import SubjectAccessReviewStatus, UserInfo
from kscheduler.errors import KschedulerError
from kscheduler.serving.reviews import AccessReviews

MASTERS = "system:masters"

ALLOWED = SubjectAccessReviewStatus(allowed=True)
REFUSED = SubjectAccessReviewStatus()


class ContradictionError(KschedulerError):
    """The server allows and denies in one breath."""


@dataclass(frozen=True, slots=True)
class Authorizer:
    """`open_paths` have no slash in front; one that ends in * stands for all that begin so."""

    open_paths: Sequence[str]
    reviews: AccessReviews | None = None

    async def decide(self, user: UserInfo, verb: str, path: str) -> SubjectAccessReviewStatus:
        """The verdict, with its reason; raises if it cannot be had, which is a no as well."""
        if MASTERS in user.groups or self._is_open(path):
            return ALLOWED
        if self.reviews is None:
            return REFUSED
        status = await self.reviews.review(user, verb, path)
        if status.denied and status.allowed:
            raise ContradictionError(
                "webhook subject access review returned both allow and deny response"
            )
        return status

    def _is_open(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return any(
            bare.startswith(open_path[:-1]) if open_path.endswith("*") else bare == open_path
            for open_path in self.open_paths
        )
