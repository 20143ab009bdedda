"""Placement reviews: a question is read, answered on a copy of the cluster, and not stored.

Whoever may create reviews in a namespace may ask about pods of that namespace; pods in the spec
that name none get it, and pods of others need the right there, too. Questions that change nodes, or
bring another configuration, need `list nodes`, as their answers tell of nodes whatever is left out
of them. Others get answers without it, but only what the scheduler's events would tell: counts. A
pod that asks for a node by its name would tell by a count how much is left on that very node, so it
takes `create pods` then: whoever may create the pod can find out by doing so. Pods of others that
would have to move are named to those that may get them, and otherwise counted.

A question is bounded in bytes and in time. One asker has one at a time and a few per minute; all of
them together have two.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
from aiohttp import web
from msgspec.structs import replace

from kscheduler.api.core import Pod
from kscheduler.api.decode import UNREADABLE, DecodeError, decoder_for, members_of
from kscheduler.api.explanation import PLACEMENT_REVIEWS, PlacementReview, ReviewedPlacement
from kscheduler.api.field_errors import FieldError
from kscheduler.api.resources import PODS
from kscheduler.gotext.strconv import quote
from kscheduler.metrics import Metrics
from kscheduler.rest import status
from kscheduler.rest.status import StatusError
from kscheduler.serving.answers import JSON
from kscheduler.serving.explanation.limits import RETRY_SECONDS, Limit, Rate
from kscheduler.serving.explanation.resources import PLACEMENT_REVIEW
from kscheduler.serving.explanation.rights import Asker
from kscheduler.slices import Slices
from kscheduler.what_if import ReviewError, ReviewLimitError

# As API servers bound a request.
MAX_BODY_BYTES = 3 << 20
BODY_SECONDS = 10.0
# A reviewer stops by itself before; this ends one that waits for its turn.
REVIEW_SECONDS = 30.0
MAX_REVIEWS = 2
MAX_REVIEWS_PER_ASKER = 1
MAX_REVIEWS_PER_MINUTE = 30
# Fields that are not known are named, up to so many.
MAX_UNKNOWN_TOLD = 10

# Each is a question to the API server about the asker's rights there.
MAX_OTHER_NAMESPACES = 20

HOSTNAME = "kubernetes.io/hostname"

STRICT, WARN, IGNORE = "Strict", "Warn", "Ignore"

Review = Callable[..., Awaitable[PlacementReview]]

_decode = decoder_for(PlacementReview)
_decode_pod = decoder_for(Pod)
_REASONS = {
    "Required value": "FieldValueRequired",
    "Unsupported value": "FieldValueNotSupported",
    "Duplicate value": "FieldValueDuplicate",
    "Not found": "FieldValueNotFound",
    "Forbidden": "FieldValueForbidden",
}


class _Envelope(msgspec.Struct, rename="camel"):
    kind: str = ""
    api_version: str = ""


class PlacementReviews:
    """Answers reviews of all askers."""

    def __init__(self, review: Review, check_leading: Callable[[], None], metrics: Metrics) -> None:
        self._review = review
        self._check_leading = check_leading
        self._limit = Limit(
            "placement review", "placement reviews", MAX_REVIEWS, MAX_REVIEWS_PER_ASKER
        )
        self._rate = Rate("placement reviews", MAX_REVIEWS_PER_MINUTE)
        self._answered = metrics.kscheduler_placement_reviews_total
        self._took = metrics.kscheduler_placement_review_duration_seconds

    async def create(
        self, request: web.BaseRequest, asker: Asker, namespace: str, query: Mapping[str, str]
    ) -> tuple[PlacementReview, list[str]]:
        """The review with its status, and warnings."""
        started, result = time.perf_counter(), "error"
        try:
            self._check_leading()
            with self._limit.taken_by(asker.user):
                self._rate.count(asker.user)
                answered = await self._create(request, asker, namespace, query)
            result = "fits" if answered[0].status.fits else "does_not_fit"
            return answered
        except StatusError as error:
            result = "limited" if error.code == 429 else "refused"
            raise
        finally:
            self._answered.labels(result).inc()
            self._took.labels().observe(time.perf_counter() - started)

    async def _create(
        self, request: web.BaseRequest, asker: Asker, namespace: str, query: Mapping[str, str]
    ) -> tuple[PlacementReview, list[str]]:
        body = await read_body(request)
        review, warnings = read_review(body, namespace, query.get("fieldValidation", WARN))
        await self._check_namespaces(asker, review, namespace)
        node_names = await asker.sees_nodes()
        if not node_names:
            _check_no_nodes(asker, review)
            await _check_no_named_node(asker, review)
        try:
            async with asyncio.timeout(REVIEW_SECONDS):
                answered = await self._review(
                    review, node_names=node_names, namespaces_seen=asker.namespaces_seen
                )
        except ReviewLimitError as error:
            raise StatusError(413, "RequestEntityTooLarge", str(error)) from error
        except ReviewError as error:
            raise invalid(review, error.errors) from error
        except TimeoutError as error:
            raise StatusError(
                504,
                "Timeout",
                f"the review was not answered within {REVIEW_SECONDS:g} s: ask for fewer pods, "
                "or again when less is going on",
                {"retryAfterSeconds": RETRY_SECONDS},
            ) from error
        return await self._redacted(asker, answered), warnings

    async def _check_namespaces(
        self, asker: Asker, review: PlacementReview, namespace: str
    ) -> None:
        """The first gate, for the namespaces of pods that are not the request's own; one without
        a namespace has passed it for all.
        """
        others = sorted(set(_namespaces(review)) - {namespace}) if namespace else []
        if len(others) > MAX_OTHER_NAMESPACES:
            detail = f"pods of at most {MAX_OTHER_NAMESPACES} other namespaces in one review"
            raise StatusError(413, "RequestEntityTooLarge", f"spec.pods: {detail}")
        for other in others:
            if not await asker.may("create", PLACEMENT_REVIEWS, other):
                why = (
                    f"User {quote(asker.user.username)} may not ask about pods of the namespace "
                    f'{quote(other)}: the right "create" on "placementreviews.kscheduler.dev" '
                    "is needed there"
                )
                raise status.forbidden(PLACEMENT_REVIEW, review.name, why)

    async def _redacted(self, asker: Asker, review: PlacementReview) -> PlacementReview:
        """Without the names of pods that the asker may not get, which are counted instead. Pods
        that it asked about are its own: they come after drained pods and before evicted ones.
        """
        told = review.status
        number = len(review.spec.pods) * review.spec.replicas
        asked = range(told.total - number, told.total)
        namespaces = {one.namespace for one in told.placements}
        namespaces |= {pod.namespace for one in told.placements for pod in one.victims}
        namespaces |= {one.namespace for one in told.budgets}
        seen = {*await asker.namespaces_seen(namespaces)}
        if namespaces <= seen:
            return review

        def named(one: ReviewedPlacement) -> ReviewedPlacement:
            victims = tuple(pod for pod in one.victims if pod.namespace in seen)
            return replace(one, victims=victims, hidden_victims=len(one.victims) - len(victims))

        placements = tuple(
            named(one)
            for index, one in enumerate(told.placements)
            if index in asked or one.namespace in seen
        )
        hidden = len(told.placements) - len(placements)
        message = told.message
        if hidden:
            what = "1 placement is" if hidden == 1 else f"{hidden} placements are"
            message = f"{message} {what} not shown: that takes the right to get pods there.".strip()
        budgets = tuple(one for one in told.budgets if one.namespace in seen)
        return replace(
            review,
            status=replace(
                told, placements=placements, budgets=budgets, message=message, partial=True
            ),
        )


async def read_body(request: web.BaseRequest) -> bytes:
    """The body, if it is JSON of a size that is read; 413, 415 or 408 if not."""
    media_type = request.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if media_type not in ("", "*/*", JSON) or request.headers.get("Content-Encoding"):
        raise status.unsupported_media_type((JSON,))
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > MAX_BODY_BYTES:
                    raise status.too_large(MAX_BODY_BYTES)
    except TimeoutError as error:
        message = f"the request was not sent within {BODY_SECONDS:g} s"
        raise StatusError(408, "Timeout", message) from error
    return bytes(body)


def read_review(body: bytes, namespace: str, validation: str) -> tuple[PlacementReview, list[str]]:
    """The review of a body, its pods in the namespace that they name or else in the request's."""
    try:
        envelope = msgspec.json.decode(body, type=_Envelope)
        members = members_of(body)
    except UNREADABLE as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    _check_envelope(envelope)
    if validation not in ("", STRICT, WARN, IGNORE):
        raise status.bad_request(f'fieldValidation "{validation}" is not known')
    warnings: list[str] = []
    if validation != IGNORE:
        unknown = [f'unknown field "{path}"' for path in unknown_fields(members, PlacementReview)]
        warnings = unknown[:MAX_UNKNOWN_TOLD]
        if warnings and validation == STRICT:
            raise status.bad_request(f"strict decoding error: {', '.join(warnings)}")
    try:
        review = _decode(body)
    except DecodeError as error:
        kind = PLACEMENT_REVIEW.kind
        raise status.bad_request(
            f'{kind} in version "{PLACEMENT_REVIEW.version}" cannot be handled as a {kind}: {error}'
        ) from error
    if namespace:
        if review.namespace not in ("", namespace):
            raise status.bad_request(
                "the namespace of the provided object does not match "
                "the namespace sent on the request"
            )
        pods = tuple(_in_namespace(pod, namespace) for pod in review.spec.pods)
        review = replace(
            review,
            metadata=replace(review.metadata, namespace=namespace),
            spec=replace(review.spec, pods=pods),
        )
    return review, warnings


def _check_envelope(envelope: _Envelope) -> None:
    kind, version = PLACEMENT_REVIEW.kind, PLACEMENT_REVIEW.group_version
    if envelope.api_version not in ("", version):
        raise status.bad_request(
            f"the API version in the data ({envelope.api_version}) does not match "
            f"the expected API version ({version})"
        )
    if envelope.kind not in ("", kind):
        raise status.bad_request(
            f"{envelope.kind} in version {quote(PLACEMENT_REVIEW.version)} cannot be handled as a "
            f"{kind}: converting ({envelope.kind}) to ({kind}): unknown conversion"
        )


def unknown_fields(members: Mapping[str, msgspec.Raw], kind: Any, path: str = "") -> Iterator[str]:
    """Paths of members that the struct does not have; pods and nodes are not looked into."""
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in members.items():
        where = f"{path}.{name}" if path else name
        if name not in known:
            if path or name not in ("kind", "apiVersion"):
                yield where
        elif (inner := known[name]) in _LOOKED_INTO and bytes(value)[:1] == b"{":
            yield from unknown_fields(members_of(value), inner, where)


_LOOKED_INTO = {
    field.type for field in msgspec.structs.fields(PlacementReview) if field.name != "metadata"
}


def _in_namespace(pod: msgspec.Raw, namespace: str) -> msgspec.Raw:
    """The manifest with the namespace, unless it has one, or is no pod, which is told later."""
    try:
        members = members_of(pod)
        metadata = members_of(members.get("metadata", msgspec.Raw(b"{}")))
    except UNREADABLE:
        return pod
    if bytes(metadata.get("namespace", b'""')) not in (b'""', b"null"):
        return pod
    metadata["namespace"] = msgspec.Raw(msgspec.json.encode(namespace))
    members["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.Raw(msgspec.json.encode(members))


class _Metadata(msgspec.Struct):
    namespace: str | None = None


class _Manifest(msgspec.Struct):
    metadata: _Metadata | None = None


def _namespaces(review: PlacementReview) -> Iterable[str]:
    """Of each pod of the spec, in order; one that cannot be read has the default one."""
    for pod in review.spec.pods:
        try:
            manifest = msgspec.json.decode(pod, type=_Manifest)
        except UNREADABLE:
            manifest = _Manifest()
        if manifest.metadata is not None:
            # As the API server's default is, where the request names none either.
            yield manifest.metadata.namespace or "default"
        else:
            yield "default"


def _check_no_nodes(asker: Asker, review: PlacementReview) -> None:
    spec = review.spec
    parts = {
        "spec.addNodes": spec.add_nodes,
        "spec.removeNodes": spec.remove_nodes,
        "spec.cordonNodes": spec.cordon_nodes,
        "spec.drainNodes": spec.drain_nodes,
        "spec.configuration": spec.configuration,
    }
    for path, value in parts.items():
        if value:
            why = (
                f"User {quote(asker.user.username)} may not use {path}: "
                'the right "list" on "nodes" is needed for that'
            )
            raise status.forbidden(PLACEMENT_REVIEW, review.name, why)


async def _check_no_named_node(asker: Asker, review: PlacementReview) -> None:
    slices, may_create = Slices(), set[str]()
    for number, (manifest, namespace) in enumerate(
        zip(review.spec.pods, _namespaces(review), strict=True)
    ):
        if slices.due():
            await slices.rest()
        if namespace in may_create or not _names_node(manifest):
            continue
        if await asker.may("create", PODS, namespace):
            may_create.add(namespace)
            continue
        why = (
            f"User {quote(asker.user.username)} may not ask about a node by its name, as "
            f'spec.pods[{number}] does: the right "list" on "nodes" is needed for that, or '
            f'"create" on "pods" in the namespace {quote(namespace)}'
        )
        raise status.forbidden(PLACEMENT_REVIEW, review.name, why)


def _names_node(manifest: msgspec.Raw) -> bool:
    """Whether the pod requires a node by its name, or by its host name."""
    try:
        spec = _decode_pod(manifest).spec
    except DecodeError:
        # What is wrong with it is told later.
        return False
    if HOSTNAME in (spec.node_selector or ()):
        return True
    affinity = None if spec.affinity is None else spec.affinity.node_affinity
    required = None if affinity is None else affinity.required
    terms = () if required is None else required.node_selector_terms
    return any(
        term.match_fields or any(one.key == HOSTNAME for one in term.match_expressions)
        for term in terms
    )


def invalid(review: PlacementReview, errors: Iterable[FieldError]) -> StatusError:
    """422 that lists every wrong field."""
    found = list(errors)
    texts = list(dict.fromkeys(map(str, found)))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details: dict[str, Any] = status.details(PLACEMENT_REVIEW, review.name)
    details["kind"] = PLACEMENT_REVIEW.kind
    details["causes"] = [
        {"reason": _reason(one.problem), "message": one.problem, "field": one.path} for one in found
    ]
    subject = f"{PLACEMENT_REVIEW.kind}.{PLACEMENT_REVIEW.group} {quote(review.name)}"
    return StatusError(422, "Invalid", f"{subject} is invalid: {listed}", details)


def _reason(problem: str) -> str:
    return next(
        (reason for title, reason in _REASONS.items() if problem.startswith(title)),
        "FieldValueInvalid",
    )
