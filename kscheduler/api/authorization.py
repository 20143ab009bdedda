"""authorization.k8s.io/v1: asking the API server whether a request is allowed."""

from collections.abc import Mapping

from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct


class NonResourceAttributes(ApiStruct):
    path: str = ""
    verb: str = ""


class SubjectAccessReviewSpec(ApiStruct):
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = EMPTY
    uid: str = ""


class SubjectAccessReviewStatus(ApiStruct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(ApiObject):
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()
