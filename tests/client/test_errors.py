import pytest

from kscheduler.api.meta import Status, StatusCause, StatusDetails
from kscheduler.client import errors
from kscheduler.client.errors import (
    ConnectionReset,
    DeadlineExceeded,
    from_response,
    from_status,
    is_expired,
    is_too_large_resource_version,
)


@pytest.mark.parametrize(
    ("code", "reason", "want"),
    [
        pytest.param(404, "NotFound", errors.NotFound, id="not found"),
        pytest.param(409, "AlreadyExists", errors.AlreadyExists, id="reason before code"),
        pytest.param(409, "Conflict", errors.Conflict, id="conflict"),
        pytest.param(410, "Expired", errors.Expired, id="expired"),
        pytest.param(410, "Gone", errors.Gone, id="gone"),
        pytest.param(422, "Invalid", errors.Invalid, id="invalid"),
        pytest.param(500, "", errors.InternalError, id="no reason: the code decides"),
        pytest.param(
            503, "Novel", errors.ServiceUnavailable, id="unknown reason: the code decides"
        ),
        pytest.param(504, "Timeout", errors.Timeout, id="timeout"),
        pytest.param(504, "ServerTimeout", errors.ServerTimeout, id="server timeout"),
        pytest.param(418, "Teapot", errors.StatusError, id="neither is known"),
    ],
)
def test_status_becomes_the_error_of_its_reason(code, reason, want):
    error = from_status(Status(message="why", reason=reason, code=code))
    assert (type(error), str(error), error.code) == (want, "why", code)


@pytest.mark.parametrize(
    ("code", "method", "body", "kind", "message"),
    [
        pytest.param(
            404,
            "GET",
            b"404 page not found",
            errors.NotFound,
            "the server could not find the requested resource (get pods p1)",
            id="not found",
        ),
        pytest.param(
            409,
            "POST",
            b"",
            errors.AlreadyExists,
            "the server reported a conflict (post pods p1)",
            id="conflict of a creation",
        ),
        pytest.param(
            409,
            "PUT",
            b"",
            errors.Conflict,
            "the server reported a conflict (put pods p1)",
            id="conflict of an update",
        ),
        pytest.param(403, "GET", b"go away", errors.Forbidden, "go away (get pods p1)", id="proxy"),
        pytest.param(
            502,
            "GET",
            b"bad <gateway>",
            errors.InternalError,
            'an error on the server ("bad <gateway>") has prevented the request from succeeding '
            "(get pods p1)",
            id="gateway",
        ),
        pytest.param(
            418,
            "GET",
            b"",
            errors.StatusError,
            "the server responded with the status code 418 but did not return more information "
            "(get pods p1)",
            id="anything else",
        ),
    ],
)
def test_foreign_answer_gets_client_gos_words(code, method, body, kind, message):
    error = from_response(code, body, method=method, subject="pods p1", text=True)
    assert (type(error), str(error), error.code) == (kind, message, code)


def test_retry_after_of_the_status_goes_before_the_header():
    body = (
        b'{"kind":"Status","code":429,"reason":"TooManyRequests","details":{"retryAfterSeconds":7}}'
    )
    assert from_response(429, body, retry_after=1).retry_after == 7
    assert from_response(429, b"", retry_after=1).retry_after == 1


def test_success_status_in_a_failure_is_not_believed():
    error = from_response(500, b'{"kind":"Status","status":"Success"}')
    assert type(error) is errors.InternalError


@pytest.mark.parametrize(
    ("error", "want"),
    [
        pytest.param(errors.Expired("x"), True, id="expired"),
        pytest.param(errors.Gone("x"), True, id="gone"),
        pytest.param(errors.Conflict("x"), False, id="conflict"),
        pytest.param(ValueError("x"), False, id="something else"),
    ],
)
def test_expired_is_gone_or_expired(error, want):
    assert is_expired(error) is want


def test_too_large_resource_version_is_known_by_cause_or_text():
    cause = StatusCause(reason="ResourceVersionTooLarge")
    status = Status(reason="Timeout", code=504, details=StatusDetails(causes=(cause,)))
    assert is_too_large_resource_version(from_status(status))
    assert is_too_large_resource_version(errors.Timeout("Too large resource version: 9"))
    assert not is_too_large_resource_version(errors.Timeout("slow"))
    assert not is_too_large_resource_version(ConnectionReset("Get", "EOF"))


def test_failure_after_another_tells_both():
    first = ConnectionReset('Get "http://x"', "EOF")
    second = DeadlineExceeded('Get "http://x"', "context deadline exceeded")
    told = second.after(first)
    assert type(told) is DeadlineExceeded
    assert str(told) == (
        'Get "http://x": context deadline exceeded - error from a previous attempt: EOF'
    )
    assert first.after(first) is first
