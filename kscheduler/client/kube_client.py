"""The calls the scheduler makes, by resource; each one request, or the few tries upstream makes.

Bodies and answers are JSON bytes: an object is written back with what the server sent of it, so
that fields we do not know survive. A claim whose opaque parameters do not survive JSON is written
back as protobuf.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import TypeVar

from msgspec import structs

from kscheduler.api.core import (
    Binding,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodStatus,
)
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.meta import ApiObject, ObjectMeta
from kscheduler.api.resource import ResourceClaim
from kscheduler.api.resources import (
    BINDINGS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCE_CLAIMS,
    Resource,
)
from kscheduler.client.bodies import (
    claim_body,
    clear_claims_patch,
    new_resource_claim_body,
    pod_status_patch,
    resource_claim_body,
    resource_claim_status_body,
    unreserve_patch,
    volume_body,
)
from kscheduler.client.errors import (
    ApiError,
    Conflict,
    ConnectionRefused,
    ConnectionReset,
    DeadlineExceeded,
    Forbidden,
    InternalError,
    Invalid,
    MalformedAnswer,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
    Unauthorized,
    Withheld,
)
from kscheduler.client.fence import Fence
from kscheduler.client.protobuf import (
    PROTOBUF,
    NotProtobufError,
    claim_with_finalizers,
    claim_with_reservations,
)
from kscheduler.client.throttle import Backoff, brief_retries
from kscheduler.client.transport import ACCEPTED, JSON, Transport

T = TypeVar("T")

STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
DELETE_OPTIONS = b'{"kind":"DeleteOptions","apiVersion":"v1"}'
DELETE_CLAIM_OPTIONS = b'{"kind":"DeleteOptions","apiVersion":"resource.k8s.io/v1"}'

# Failures that a moment's patience may cure, and that left nothing behind.
RETRIABLE = (InternalError, ServiceUnavailable, ConnectionRefused)
# Failures after which the server may or may not have done what it was asked to, or may yet do it.
UNANSWERED = (ConnectionReset, DeadlineExceeded, ServerTimeout, Timeout)
# An internal error that means the same: the proposal may still be committed.
STORE_TIMED_OUT = "etcdserver: request timed out"

Query = Mapping[str, str]


def of_answers(decode: Callable[[bytes], T]) -> Callable[[bytes], T]:
    """A decoder like `decode`, whose failures are errors of the server's answer."""

    def decoded(answer: bytes) -> T:
        try:
            return decode(answer)
        except DecodeError as error:
            raise MalformedAnswer(str(error)) from error

    return decoded


_decode_pod = of_answers(decoder_for(Pod))
_decode_volume = of_answers(decoder_for(PersistentVolume))
_decode_claim = of_answers(decoder_for(PersistentVolumeClaim))
_decode_resource_claim = of_answers(decoder_for(ResourceClaim))


class BindingOutcome(Enum):
    """State of a pod whose binding was asked for, as the API server has it."""

    BOUND = "the pod is on the node"
    NOT_YET = "the pod is on no node"
    NEVER = "the pod is on another node, or gone"
    UNREADABLE = "we may not read pods"


class KubeClient:
    """Reads and writes API objects over one transport; a `fence` can forbid writes.

    Bindings, and updates of what pods on their way to a node need, are urgent: a pod that has got
    so far goes before reports about others.
    """

    def __init__(self, transport: Transport, *, fence: Fence | None = None) -> None:
        self._transport = transport
        self.fence = fence

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return await self._send("GET", resource, namespace, name)

    async def list(
        self, resource: Resource, namespace: str = "", query: Query | None = None
    ) -> bytes:
        return await self._send("GET", resource, namespace, query=query)

    def watch(
        self,
        resource: Resource,
        namespace: str = "",
        query: Query | None = None,
        *,
        idle_seconds: float | None = None,
    ) -> AbstractAsyncContextManager[Callable[[], Awaitable[bytes]]]:
        """A reader of a watch's bytes; `query` says from where."""
        return self._transport.stream(
            resource.path(namespace),
            query={**(query or {}), "watch": "true"},
            idle_seconds=idle_seconds,
            subject=resource.group_resource,
        )

    async def served(self, since: float) -> None:
        """Returns when the server has served anybody's request after this moment."""
        await self._transport.served(since)

    async def create(
        self,
        resource: Resource,
        body: bytes,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        urgent: bool = False,
    ) -> bytes:
        """`name` and `subresource` are for what is created below an object, like a binding."""
        return await self._send("POST", resource, namespace, name, subresource, body, urgent=urgent)

    async def update(
        self, resource: Resource, name: str, body: bytes, namespace: str = "", subresource: str = ""
    ) -> bytes:
        return await self._send("PUT", resource, namespace, name, subresource, body, urgent=True)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str = "",
        subresource: str = "",
        *,
        kind: str = STRATEGIC_MERGE_PATCH,
    ) -> bytes:
        return await self._send("PATCH", resource, namespace, name, subresource, body, kind=kind)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", options: bytes = DELETE_OPTIONS
    ) -> bytes:
        return await self._send("DELETE", resource, namespace, name, body=options)

    async def serves(self, api_version: str) -> bool:
        """Whether the server knows this group and version; any failure means it does not."""
        try:
            await self._transport.request("GET", f"/apis/{api_version}")
        except ApiError:
            return False
        return True

    async def bind(self, pod: Pod, node: str) -> None:
        """Assigns the pod to the node; what only hiccuped is tried again, a conflict is final.

        Differs from upstream where the answer got lost: the server is asked what it did, because
        room that the pod may have taken must not be given to another. If it has not bound the pod,
        it may do so yet: such an error is `unsettled`.
        """
        metadata = ObjectMeta(name=pod.name, namespace=pod.namespace, uid=pod.uid)
        target = ObjectReference(kind="Node", name=node)
        body = BINDINGS.encode(Binding(metadata=metadata, target=target))
        tries = 0
        is_unanswered = False

        async def post() -> bytes:
            nonlocal tries, is_unanswered
            tries += 1
            try:
                return await self._send(
                    "POST", PODS, pod.namespace, pod.name, "binding", body, urgent=True
                )
            except ApiError as error:
                is_unanswered = is_unanswered or _is_unanswered(error)
                raise

        try:
            await _persist(post, RETRIABLE)
        except ApiError as error:
            if not is_unanswered and not (isinstance(error, Conflict) and tries > 1):
                raise
            outcome = await self.binding_outcome(pod, node)
            if outcome is not BindingOutcome.BOUND:
                error.unsettled = outcome is BindingOutcome.UNREADABLE or (
                    is_unanswered and outcome is BindingOutcome.NOT_YET
                )
                raise

    async def binding_outcome(self, pod: Pod, node: str) -> BindingOutcome:
        """The pod's state on the server, which is asked until it answers."""
        pauses = Backoff(first_seconds=0.05, cap_seconds=5.0)
        while True:
            try:
                stored = _decode_pod(await self.get(PODS, pod.name, pod.namespace))
            except NotFound:
                return BindingOutcome.NEVER
            except (Forbidden, Unauthorized):
                return BindingOutcome.UNREADABLE
            except ApiError:
                await asyncio.sleep(pauses.next(time.monotonic()))
            else:
                if stored.uid == pod.uid and not stored.spec.node_name:
                    return BindingOutcome.NOT_YET
                is_here = stored.uid == pod.uid and stored.spec.node_name == node
                return BindingOutcome.BOUND if is_here else BindingOutcome.NEVER

    async def patch_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Makes the server's status of this pod `status`; no request when nothing differs."""
        body = pod_status_patch(pod.status, status)
        if body is None:
            return

        async def send() -> bytes:
            return await self.patch(PODS, pod.name, body, pod.namespace, "status")

        await _persist(send, (*RETRIABLE, Conflict))

    async def clear_node_allocatable_claims(self, pod: Pod) -> None:
        """Empties `nodeAllocatableResourceClaimStatuses`, if it is still this pod."""
        where, body = pod.namespace, clear_claims_patch(pod)
        await self.patch(PODS, pod.name, body, where, "status", kind=MERGE_PATCH)

    async def delete_pod(self, pod: Pod) -> None:
        await self.delete(PODS, pod.name, pod.namespace)

    async def update_volume(self, volume: PersistentVolume) -> PersistentVolume:
        """Writes annotations and claimRef; a Conflict if it was written since we saw it."""
        body = volume_body(volume)
        return _decode_volume(await self._update_version(PERSISTENT_VOLUMES, volume, body))

    async def update_claim(self, claim: PersistentVolumeClaim) -> PersistentVolumeClaim:
        """Writes annotations; a Conflict if it was written since we saw it."""
        body = claim_body(claim)
        return _decode_claim(await self._update_version(PERSISTENT_VOLUME_CLAIMS, claim, body))

    async def get_resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """The claim as the server has it now."""
        return _whole_claim(await self.get(RESOURCE_CLAIMS, claim.name, claim.namespace))

    async def create_resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        body = new_resource_claim_body(claim)
        return _whole_claim(await self.create(RESOURCE_CLAIMS, body, claim.namespace, urgent=True))

    async def update_resource_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """Writes finalizers; a Conflict if it was written since we saw it."""
        body = resource_claim_body(claim)
        try:
            answer = await self._update_version(RESOURCE_CLAIMS, claim, body)
        except Invalid as error:
            if not any(one.opaque is not None for one in claim.spec.devices.config):
                raise
            answer = await self._update_stored(claim, claim_with_finalizers, error)
        return _whole_claim(answer)

    async def update_resource_claim_status(self, claim: ResourceClaim) -> ResourceClaim:
        """Writes allocation and reservations; a Conflict if it was written since we saw it.

        An error is `unsettled` if the write may have taken effect all the same.
        """
        body = resource_claim_status_body(claim)
        try:
            try:
                answer = await self._update_version(RESOURCE_CLAIMS, claim, body, "status")
            except Invalid as error:
                known = _decode_resource_claim(claim.whole).status.allocation
                if known is None or claim.status.allocation != known:
                    raise
                answer = await self._update_stored(claim, claim_with_reservations, error, "status")
        except ApiError as error:
            error.unsettled = _is_unanswered(error)
            raise
        return _whole_claim(answer)

    async def _update_version(
        self, resource: Resource, seen: ApiObject, body: bytes, subresource: str = ""
    ) -> bytes:
        """Writes an object at the version that was seen. What only hiccuped is tried again, as with
        bindings; but where it may have been done, a second try could only be told of a conflict.
        """

        async def send() -> bytes:
            return await self.update(resource, seen.name, body, seen.namespace, subresource)

        return await _persist(send, RETRIABLE, unless=_is_unanswered)

    async def _update_stored(
        self,
        claim: ResourceClaim,
        changed: Callable[[bytes, ResourceClaim], bytes],
        refusal: Invalid,
        subresource: str = "",
    ) -> bytes:
        """Writes back what the server has stored, byte for byte but for what is changed.

        For opaque parameters that are not stored as JSON shows them: see `protobuf`. Raises the
        `refusal` of the claim's JSON if the server does not speak protobuf.
        """
        where = claim.namespace
        stored = await self._send("GET", RESOURCE_CLAIMS, where, claim.name, accept=PROTOBUF)
        try:
            body = changed(stored, claim)
        except NotProtobufError:
            raise refusal from None
        return await self._send(
            "PUT", RESOURCE_CLAIMS, where, claim.name, subresource, body, kind=PROTOBUF
        )

    async def unreserve_resource_claim(self, claim: ResourceClaim, pod: Pod) -> None:
        """Takes the pod off the claim's reservations, if it is still this claim."""
        where, body = claim.namespace, unreserve_patch(claim, pod.uid)
        await self.patch(RESOURCE_CLAIMS, claim.name, body, where, "status")

    async def delete_resource_claim(self, claim: ResourceClaim) -> None:
        await self.delete(RESOURCE_CLAIMS, claim.name, claim.namespace, DELETE_CLAIM_OPTIONS)

    async def _send(
        self,
        method: str,
        resource: Resource,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
        body: bytes | None = None,
        *,
        query: Query | None = None,
        kind: str = JSON,
        accept: str = ACCEPTED,
        urgent: bool = False,
    ) -> bytes:
        grant = None if method == "GET" or self.fence is None else self.fence.grant()
        while True:
            try:
                return await self._transport.request(
                    method,
                    resource.path(namespace, name, subresource),
                    query=query,
                    body=body,
                    content_type=kind,
                    accept=accept,
                    subject=f"{resource.group_resource} {name}".rstrip(),
                    fence=grant,
                    urgent=urgent,
                )
            except Withheld:
                # Nothing was sent, so it can be once the lease has been renewed.
                if grant is None or not await grant.reopened():
                    raise


def _is_unanswered(error: ApiError) -> bool:
    """Whether what was asked for may have been done, or be done yet."""
    store_timed_out = isinstance(error, InternalError) and STORE_TIMED_OUT in str(error)
    return store_timed_out or isinstance(error, UNANSWERED)


def _whole_claim(answer: bytes) -> ResourceClaim:
    """A claim with its JSON, because what is written next must not lose any of it."""
    return structs.replace(_decode_resource_claim(answer), whole=answer)


async def _persist(
    send: Callable[[], Awaitable[bytes]],
    retriable: tuple[type[ApiError], ...],
    *,
    unless: Callable[[ApiError], bool] = lambda _: False,
) -> bytes:
    """Up to four tries within a third of a second; the last failure is the caller's."""
    for pause in brief_retries():
        try:
            return await send()
        except retriable as error:
            if unless(error):
                raise
            await asyncio.sleep(pause)
    return await send()
