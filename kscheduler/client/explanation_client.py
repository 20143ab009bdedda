"""The scheduler's own API (kscheduler.dev), asked from outside: ways to it, and typed calls.

    Lease of the leader ─┬─ its address ───────────────────────┐
                         └─ its pod, by port forwarding ───────┼─ secure port of the leader
    --server ──────────────────────────────────────────────────┘
    APIService ───────────────────────────────────────────────── the API server (aggregated)

Directly, the user's own token or certificate proves to the scheduler who asks, and the
certificate whose digest the leader wrote to its Lease proves to the user who answers. A user to
impersonate can only be told to the API server, so such questions go by way of it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
from msgspec.structs import replace

from kscheduler.api.decode import decoder_for
from kscheduler.api.explanation import (
    DECISIONS,
    GROUP,
    NODE_INFOS,
    PENDING_PODS,
    PLACEMENT_REVIEWS,
    VERSION,
    Decision,
    PendingPod,
    PlacementReview,
)
from kscheduler.api.meta import ApiStruct
from kscheduler.api.resources import PODS
from kscheduler.client.clientcmd.loading_rules import ClientConfig
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import NotFound, StatusError, TransportError, Unauthorized
from kscheduler.client.http.dial import Route
from kscheduler.client.kube_client import KubeClient, of_answers
from kscheduler.client.port_forward import PortForward
from kscheduler.client.scheduler_location import (
    AmbiguousError,
    Location,
    UnreachableError,
    find_scheduler,
)
from kscheduler.client.transport import Transport

API = f"/apis/{GROUP}/{VERSION}"
# Objects per request of a list.
PAGE = 500
# An address that does not answer so soon is left for another way.
ADDRESS_SECONDS = 5.0


class _ListMeta(ApiStruct):
    continue_token: str = msgspec.field(name="continue", default="")


class _PendingPods(ApiStruct):
    items: tuple[PendingPod, ...] = ()
    metadata: _ListMeta = _ListMeta()


_decode_decision = of_answers(decoder_for(Decision))
_decode_pending_pod = of_answers(decoder_for(PendingPod))
_decode_pending_pods = of_answers(decoder_for(_PendingPods))
_decode_review = of_answers(decoder_for(PlacementReview))


class ExplanationClient:
    """Questions to one scheduler; `way` says in words how it is reached.

    `api` is the API server, which has the pods themselves; None if no kubeconfig names one.
    """

    def __init__(self, scheduler: KubeClient, api: KubeClient | None, way: str) -> None:
        self.scheduler = scheduler
        self.api = api
        self.way = way

    async def decision(self, namespace: str, name: str) -> Decision:
        """NotFound if the scheduler has no record of this pod."""
        return _decode_decision(await self.scheduler.get(DECISIONS, name, namespace))

    async def pending_pod(self, namespace: str, name: str) -> PendingPod:
        """NotFound if the pod does not wait in the scheduler's queue."""
        return _decode_pending_pod(await self.scheduler.get(PENDING_PODS, name, namespace))

    async def pending_pods(
        self, namespace: str, *, field_selector: str = "", label_selector: str = ""
    ) -> list[PendingPod]:
        """All of a namespace; of all namespaces, if it is empty."""
        found: list[PendingPod] = []
        query = {"limit": str(PAGE)}
        query |= {"fieldSelector": field_selector} if field_selector else {}
        query |= {"labelSelector": label_selector} if label_selector else {}
        while True:
            answer = await self.scheduler.list(PENDING_PODS, namespace, query)
            page = _decode_pending_pods(answer)
            found += page.items
            if not page.metadata.continue_token:
                return found
            query["continue"] = page.metadata.continue_token

    async def has_node(self, name: str) -> bool:
        """Whether the scheduler has a node of this name; True if that is not told."""
        try:
            await self.scheduler.get(NODE_INFOS, name)
        except NotFound:
            return False
        except StatusError:
            pass
        return True

    async def review(self, review: PlacementReview, namespace: str) -> PlacementReview:
        """The review with its answer."""
        body = PLACEMENT_REVIEWS.encode(review)
        return _decode_review(await self.scheduler.create(PLACEMENT_REVIEWS, body, namespace))

    async def pod(self, namespace: str, name: str) -> bytes | None:
        """The pod as the API server has it; None if there is none, or no server to ask."""
        if self.api is None:
            return None
        try:
            return await self.api.get(PODS, name, namespace)
        except NotFound:
            return None


class Target(msgspec.Struct, frozen=True):
    """Flags that say which scheduler is asked, and on which way.

    The authority, the server's name and `insecure` are about the scheduler's certificate.
    """

    lease: str = ""
    server: str = ""
    aggregated: bool = False
    ca_file: str = ""
    server_name: str = ""
    insecure: bool = False


@asynccontextmanager
async def reach(
    config: ClientConfig, target: Target, *, agent: str, timeout_seconds: float | None
) -> AsyncIterator[ExplanationClient]:
    """A client of the scheduler that is meant; UnreachableError if none answers.

    Without an API server (an empty one), `target` has to name a server.
    """
    async with AsyncExitStack() as stack:
        yield await _Reaching(config, target, agent, timeout_seconds, stack).client()


class _Reaching:
    """Ways to the scheduler, tried one after the other; the `stack` closes what was opened."""

    def __init__(
        self,
        config: ClientConfig,
        target: Target,
        agent: str,
        timeout_seconds: float | None,
        stack: AsyncExitStack,
    ) -> None:
        self._config = config
        self._target = target
        self._agent = agent
        self._timeout_seconds = timeout_seconds
        self._stack = stack

    async def client(self) -> ExplanationClient:
        config, target = self._config.rest, self._target
        api = KubeClient(await self._transport(config)) if config.server else None
        if target.server:
            return await self._directly(
                api, f"the scheduler at {target.server}", target.server, certificate_sha256=""
            )
        if api is None:
            raise UnreachableError("Nothing says where to ask: neither a kubeconfig nor --server.")
        if target.aggregated or config.identity.impersonation.user:
            if not await api.serves(f"{GROUP}/{VERSION}"):
                raise UnreachableError(_not_aggregated(config, target))
            return ExplanationClient(api, api, f"the API server {config.host}")
        try:
            return await self._by_lease(config, api, await find_scheduler(api, target.lease))
        except TransportError as error:
            raise UnreachableError(
                f"The API server {config.host} does not answer: {error.cause}."
            ) from error
        except Unauthorized as error:
            raise UnreachableError(
                f"The API server {config.host} does not accept the credentials of the kubeconfig."
            ) from error
        except UnreachableError as error:
            # Whoever said which scheduler to ask shall not get the answer of another.
            if target.lease or isinstance(error, AmbiguousError):
                raise
            if await api.serves(f"{GROUP}/{VERSION}"):
                return ExplanationClient(api, api, f"the API server {config.host}")
            raise UnreachableError(
                f"{error} Nor does the API server {config.host} serve {GROUP} (the aggregated way)."
            ) from error

    async def _by_lease(
        self, config: RestConfig, api: KubeClient, location: Location
    ) -> ExplanationClient:
        """By the address, if there is one and it answers; else through the pod."""
        who = f"the scheduler of Lease {location.lease}"
        problems: list[str] = []
        if location.address:
            try:
                return await self._directly(
                    api,
                    f"{who}, at {location.address}",
                    location.address,
                    certificate_sha256=location.certificate_sha256,
                    patience_seconds=ADDRESS_SECONDS if location.pod else None,
                )
            except UnreachableError as error:
                problems.append(str(error))
        if location.pod:
            namespace, _, pod = location.pod.partition("/")
            forward = await self._stack.enter_async_context(
                PortForward(config, namespace, pod, location.port)
            )
            try:
                return await self._directly(
                    api,
                    f"{who}, in pod {location.pod}",
                    f"{pod}.{namespace}:{location.port}",
                    certificate_sha256=location.certificate_sha256,
                    forward=forward,
                )
            except UnreachableError as error:
                problems.append(str(error))
        raise UnreachableError(" ".join(problems))

    async def _directly(
        self,
        api: KubeClient | None,
        who: str,
        address: str,
        *,
        certificate_sha256: str,
        forward: PortForward | None = None,
        patience_seconds: float | None = None,
    ) -> ExplanationClient:
        """A client of a scheduler's own port, after it has answered once."""
        target, own = self._target, self._config.own
        server = address if "://" in address else f"https://{address}"
        # A pinned certificate needs no authority; flags about the certificate are obeyed first.
        pinned = not (target.ca_file or target.insecure) and bool(certificate_sha256)
        rest = RestConfig(
            server,
            tls=replace(
                own.tls,
                ca_file=target.ca_file,
                ca_data=b"",
                insecure=target.insecure or pinned,
                server_name=target.server_name,
            ),
            identity=own.identity,
        )
        route = Route(
            server,
            server_name=target.server_name,
            dial=forward.dial if forward else None,
            certificate_sha256=certificate_sha256 if pinned else "",
        )
        transport = await self._transport(rest, route)
        try:
            async with asyncio.timeout(patience_seconds):
                await transport.request("GET", API)
        except TimeoutError as error:
            raise UnreachableError(f"{_capital(who)} does not answer.") from error
        except Unauthorized as error:
            raise UnreachableError(
                f"{_capital(who)} does not accept the credentials of the kubeconfig: it takes a "
                "token or a client certificate that the cluster knows."
            ) from error
        except NotFound as error:
            raise UnreachableError(
                f"{_capital(who)} does not serve {GROUP}/{VERSION}: it is none, or an older one."
            ) from error
        except StatusError:
            pass  # It is there; whether it answers the question, the question will show.
        except TransportError as error:
            raise UnreachableError(f"{_capital(who)} does not answer: {error.cause}.") from error
        return ExplanationClient(KubeClient(transport), api, who)

    async def _transport(self, rest: RestConfig, route: Route | None = None) -> Transport:
        transport = Transport(
            rest, agent=self._agent, timeout_seconds=self._timeout_seconds, route=route
        )
        return await self._stack.enter_async_context(transport)


def _not_aggregated(config: RestConfig, target: Target) -> str:
    lead = "" if target.aggregated else "Only the API server can be told whom to impersonate. "
    return (
        f"{lead}The API server {config.host} does not serve {GROUP}/{VERSION}: is the APIService "
        f"{VERSION}.{GROUP} there, and available?"
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
