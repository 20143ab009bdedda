"""Status: how the server says no, with the reasons, texts and codes clients know by heart.

Every refusal is a StatusError that carries the finished body; the REST layer only sends it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kscheduler.rest.fields import FieldError
from kscheduler.rest.resources import ServedResource

MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


class StatusError(Exception):
    """The request is refused; `body` is the Status object to answer with."""

    def __init__(
        self, code: int, reason: str, message: str, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details

    @property
    def body(self) -> dict[str, Any]:
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
        }
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        if not self.reason:
            del status["reason"]
        return status


def success(code: int | None = None, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """The Status object that answers a request with nothing else to show."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
    }
    if details is not None:
        status["details"] = details
    if code is not None:
        status["code"] = code
    return status


def details(resource: ServedResource | None, name: str = "", *, kind: str = "") -> dict[str, Any]:
    """Which object a Status is about; `kind` holds the plural, as upstream has it."""
    about = {
        "name": name,
        "group": resource.group if resource else "",
        "kind": kind or (resource.plural if resource else ""),
    }
    return {key: value for key, value in about.items() if value}


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def forbidden(resource: ServedResource, name: str, why: str) -> StatusError:
    subject = f'{resource.qualified} "{name}"' if name else resource.qualified
    return StatusError(403, "Forbidden", f"{subject} is forbidden: {why}", details(resource, name))


def not_found(resource: ServedResource, name: str) -> StatusError:
    message = f'{resource.qualified} "{name}" not found'
    return StatusError(404, "NotFound", message, details(resource, name))


def unknown_path() -> StatusError:
    message = "the server could not find the requested resource"
    return StatusError(404, "NotFound", message, {})


def method_not_allowed() -> StatusError:
    message = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", message, {})


def not_acceptable(served: Sequence[str]) -> StatusError:
    message = f"only the following media types are accepted: {', '.join(served)}"
    return StatusError(406, "NotAcceptable", message)


def already_exists(resource: ServedResource, name: str) -> StatusError:
    message = f'{resource.qualified} "{name}" already exists'
    return StatusError(409, "AlreadyExists", message, details(resource, name))


def generated_name_taken(resource: ServedResource, name: str) -> StatusError:
    message = (
        f'{resource.qualified} "{name}" already exists, the server was not able to generate '
        "a unique name for the object"
    )
    about = details(resource, name) | {"retryAfterSeconds": 1}
    return StatusError(409, "AlreadyExists", message, about)


def conflict(resource: ServedResource, name: str, why: str, *, kind: str = "") -> StatusError:
    """The write lost a race; `kind` replaces the resource's name where upstream words it so."""
    message = f'Operation cannot be fulfilled on {kind or resource.qualified} "{name}": {why}'
    return StatusError(409, "Conflict", message, details(resource, name, kind=kind))


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_large(limit: int) -> StatusError:
    message = f"Request entity too large: limit is {limit}"
    return StatusError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(served: Sequence[str]) -> StatusError:
    message = (
        "the body of the request was in an unknown format - "
        f"accepted media types include: {', '.join(served)}"
    )
    return StatusError(415, "UnsupportedMediaType", message)


def invalid(kind: str, name: str, errors: Sequence[FieldError], *, group: str = "") -> StatusError:
    """A 422 that lists every wrong field, as `kubectl` prints them."""
    texts = list(dict.fromkeys(str(error) for error in errors))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind}.{group}" if group else kind
    about = {"name": name, "group": group, "kind": kind}
    about_set: dict[str, Any] = {key: value for key, value in about.items() if value}
    about_set["causes"] = [error.cause for error in errors]
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', about_set)


def unprocessable(message: str) -> StatusError:
    """A patch that is well-formed but cannot be applied to this object."""
    return StatusError(422, "Invalid", message, {})


def too_many_requests(message: str, cause: dict[str, str], retry_after: int = 0) -> StatusError:
    about: dict[str, Any] = {"causes": [cause]}
    if retry_after:
        about["retryAfterSeconds"] = retry_after
    return StatusError(429, "TooManyRequests", message, about)


def internal_error(message: str) -> StatusError:
    text = f"Internal error occurred: {message}"
    return StatusError(500, "InternalError", text, {"causes": [{"message": message}]})


def too_large_resource_version(wanted: int, current: int) -> StatusError:
    """The client has seen a future this server has not; it should come back in a second."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return StatusError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
