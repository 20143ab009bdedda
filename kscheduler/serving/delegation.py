"""Delegated authentication and authorization: API servers for reviews, and authorities.

Both kubeconfigs are optional. Without one, and outside a cluster, the flags still work: callers are
anonymous, and only pages that need no permission are served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from kscheduler import logs
from kscheduler.api.core import ConfigMap
from kscheduler.api.decode import DecodeError, decoder_for
from kscheduler.api.resources import CONFIG_MAPS
from kscheduler.client.clientcmd.rest_config import (
    RestConfig,
    check_usable,
    in_cluster_config,
    load_rest_config,
)
from kscheduler.client.errors import ApiError, DeadlineExceeded, Forbidden, NotFound
from kscheduler.client.informers.informer import InformerFactory
from kscheduler.client.kube_client import KubeClient
from kscheduler.client.observation import RestClientMetrics
from kscheduler.client.transport import Transport, user_agent
from kscheduler.config.options import Options
from kscheduler.errors import ConfigError
from kscheduler.gotext.strconv import quote
from kscheduler.metrics import Metrics
from kscheduler.serving.access import Authenticator, Authorizer
from kscheduler.serving.access_metrics import (
    CLIENT_AUTHORITIES,
    PROXY_HEADERS,
    AccessObserver,
    Upkeep,
)
from kscheduler.serving.reviews import REVIEW_SECONDS, AccessReviews, TokenReviews
from kscheduler.serving.trust import CONFIG_MAP, NAMESPACE, CaFile, Headers, Published, Trust

log = logs.logger(__name__)

WHERE = f"configmap/{CONFIG_MAP} in {NAMESPACE}"
READER = "extension-apiserver-authentication-reader"
NOT_IN_CLUSTER = "unable to load in-cluster configuration"
LOOKUP_SECONDS = 10.0
QPS = 200
BURST = 400

_decode = decoder_for(ConfigMap)


class Authentication(msgspec.Struct, frozen=True):
    """None for a server or a file means that this way of proving identity is closed.

    `reads_config_map` is whether authorities that no file names are read from the cluster.
    """

    server: RestConfig | None
    client_ca: CaFile | None
    request_header_ca: CaFile | None
    reads_config_map: bool


class Authorization(msgspec.Struct, frozen=True):
    server: RestConfig | None
    always_allowed: tuple[str, ...]


class Delegation(msgspec.Struct, frozen=True):
    """Authentication and authorization of callers, and the trust both rest on.

    `published` is to be taken before anybody is let in, and `informers` keep it up to date while
    they run; both None if nothing is looked up.
    """

    trust: Trust
    authenticator: Authenticator
    authorizer: Authorizer
    published: Published | None
    informers: InformerFactory | None

    async def refresh_trust(self) -> None:
        """Watch the published authorities until cancelled; returns at once if there are none."""
        if self.informers is not None:
            async with asyncio.TaskGroup() as tasks:
                self.informers.start(tasks)


async def delegate(held: AsyncExitStack, options: Options, metrics: Metrics) -> Delegation:
    """Everything that must be known before callers can be let in; `held` gets the connections."""
    observer, access = RestClientMetrics(metrics), AccessObserver(metrics)
    authentication = delegated_authentication(options)
    client, published = None, None
    if authentication.server is not None:
        transport = await held.enter_async_context(_transport(authentication.server, observer))
        client = KubeClient(transport)
        if authentication.reads_config_map:
            published = Published(await _read_published(client, options))
    authorization = delegated_authorization(options)
    reviews = None
    if authorization.server is not None:
        transport = await held.enter_async_context(
            _transport(authorization.server, observer, REVIEW_SECONDS)
        )
        reviews = AccessReviews(
            KubeClient(transport),
            keep_allowed_seconds=options.authorization_webhook_cache_authorized_ttl.seconds,
            keep_refused_seconds=options.authorization_webhook_cache_unauthorized_ttl.seconds,
            observer=access,
        )
    trust = Trust(
        client_file=authentication.client_ca,
        proxy_file=authentication.request_header_ca,
        proxy_headers=_headers(options),
        published=published,
    )
    informers = None
    if client and published:
        informers = InformerFactory(client)
        informers.informer(
            CONFIG_MAPS, namespace=NAMESPACE, field_selector=f"metadata.name={CONFIG_MAP}"
        ).add_handler(Refreshed(published, metrics))
    ttl = options.authentication_token_webhook_cache_ttl.seconds
    return Delegation(
        trust,
        Authenticator(trust, TokenReviews(client, ttl, access) if client else None, access),
        Authorizer(authorization.always_allowed, reviews),
        published,
        informers,
    )


def delegated_authentication(options: Options) -> Authentication:
    try:
        server = _server(options.authentication_kubeconfig, "authentication")
        if server:
            check_usable(server)
    except ConfigError as err:
        raise ConfigError(f"failed to get delegated authentication kubeconfig: {err}") from err
    lacks_server = server is None and not options.authentication_skip_lookup
    client_ca = _client_ca(options, warn=lacks_server)
    request_header_ca = _request_header_ca(options, warn=lacks_server)
    return Authentication(
        server,
        client_ca,
        request_header_ca,
        reads_config_map=server is not None
        and not options.authentication_skip_lookup
        and None in (client_ca, request_header_ca),
    )


def delegated_authorization(options: Options) -> Authorization:
    server = _server(options.authorization_kubeconfig, "authorization")
    if server:
        check_usable(server)
    paths = tuple(path.removeprefix("/") for path in options.authorization_always_allow_paths)
    for path in paths:
        if "*" in path[:-1]:
            raise ConfigError(f"only trailing * allowed in {quote(path)}")
    if server is None:
        log.text_warning(
            "No authorization-kubeconfig provided, "
            "so SubjectAccessReview of authorization tokens won't work."
        )
    return Authorization(server, paths)


async def _read_published(client: KubeClient, options: Options) -> ConfigMap | None:
    """The ConfigMap as it is now; not having it is fatal only if the flags say so."""
    try:
        async with asyncio.timeout(LOOKUP_SECONDS):
            return _decode(await client.get(CONFIG_MAPS, CONFIG_MAP, NAMESPACE))
    except NotFound:
        return None
    except (ApiError, DecodeError, TimeoutError) as error:
        if isinstance(error, Forbidden):
            log.text_warning(
                f"Unable to get {WHERE}.  Usually fixed by 'kubectl create rolebinding "
                f"-n {NAMESPACE} ROLEBINDING_NAME --role={READER} --serviceaccount=YOUR_NS:YOUR_SA'"
            )
        if isinstance(error, TimeoutError):
            error = DeadlineExceeded(f"Get {WHERE}", "context deadline exceeded")
        if not options.authentication_tolerate_lookup_failure:
            raise ConfigError(
                f"unable to load configmap based request-header-client-ca-file: {error}"
            ) from error
        log.text_warning(f"Error looking up in-cluster authentication configuration: {error}")
        log.text_warning(
            "Continuing without authentication configuration. "
            "This may treat all requests as anonymous."
        )
        log.text_warning(
            "To require authentication configuration lookup to succeed, "
            "set --authentication-tolerate-lookup-failure=false"
        )
        return None


class Refreshed:
    """The informer's handler: takes over the published authorities and headers, and counts that."""

    def __init__(self, published: Published, metrics: Metrics) -> None:
        self._published = published
        self._authorities = Upkeep(metrics, CLIENT_AUTHORITIES)
        self._headers = Upkeep(metrics, PROXY_HEADERS)

    def on_add(self, item: ConfigMap, *, is_initial: bool) -> None:
        self._take(item)

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        self._take(new)

    def on_delete(self, item: ConfigMap, *, final_state_unknown: bool) -> None:
        """The last version stays in force."""

    def _take(self, item: ConfigMap) -> None:
        self._authorities(lambda: self._published.take_authorities(item))
        self._headers(lambda: self._published.take_headers(item))


def _transport(
    server: RestConfig, observer: RestClientMetrics, timeout_seconds: float | None = None
) -> Transport:
    observer.opened()
    return Transport(
        server,
        agent=user_agent("").rstrip("/"),
        qps=QPS,
        burst=BURST,
        timeout_seconds=timeout_seconds,
        observer=observer,
    )


def _server(kubeconfig: str, purpose: str) -> RestConfig | None:
    if kubeconfig:
        try:
            return load_rest_config(kubeconfig)
        except ConfigError as err:
            raise ConfigError(f"failed to get delegated {purpose} kubeconfig: {err}") from err
    try:
        return in_cluster_config()
    except ConfigError as err:
        if not str(err).startswith(NOT_IN_CLUSTER):
            log.text_warning(f"failed to read in-cluster kubeconfig for delegated {purpose}: {err}")
        return None


def _client_ca(options: Options, *, warn: bool) -> CaFile | None:
    if options.client_ca_file:
        try:
            return CaFile("client-ca-bundle", options.client_ca_file)
        except ConfigError as err:
            raise ConfigError(f"unable to load client CA provider: {err}") from err
    if warn:
        log.text_warning(
            f"No authentication-kubeconfig provided in order to lookup client-ca-file in "
            f"{WHERE}, so client certificate authentication won't work."
        )
    return None


def _request_header_ca(options: Options, *, warn: bool) -> CaFile | None:
    if options.requestheader_client_ca_file:
        try:
            return CaFile("request-header", options.requestheader_client_ca_file)
        except ConfigError as err:
            raise ConfigError(
                f"unable to create request header authentication config: {err}"
            ) from err
    if warn:
        log.text_warning(
            "No authentication-kubeconfig provided in order to lookup "
            f"requestheader-client-ca-file in {WHERE}, "
            "so request-header client certificate authentication won't work."
        )
    return None


def _headers(options: Options) -> Headers:
    def trimmed(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name.strip() for name in names)

    return Headers(
        usernames=trimmed(options.requestheader_username_headers),
        uids=trimmed(options.requestheader_uid_headers),
        groups=trimmed(options.requestheader_group_headers),
        extra_prefixes=trimmed(options.requestheader_extra_headers_prefix),
        proxies=options.requestheader_allowed_names,
    )
