"""Whom to ask about callers: API servers for token and access reviews, and local authorities.

Both kubeconfigs are optional. Without one, and outside a cluster, the flags still work: callers are
anonymous, and only what needs no permission is served.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kscheduler import logs
from kscheduler.client import files
from kscheduler.client.key_pair import check_bundle
from kscheduler.client.kubeconfig import (
    RestConfig,
    check_usable,
    in_cluster_config,
    load_rest_config,
)
from kscheduler.config.options import Options
from kscheduler.errors import ConfigError
from kscheduler.logs import quote

log = logs.logger(__name__)

CONFIG_MAP = "configmap/extension-apiserver-authentication in kube-system"
NOT_IN_CLUSTER = "unable to load in-cluster configuration"


@dataclass(frozen=True, slots=True)
class Authentication:
    """None for a server or a bundle means that this way of proving identity is closed."""

    server: RestConfig | None
    client_ca: bytes | None
    request_header_ca: bytes | None


@dataclass(frozen=True, slots=True)
class Authorization:
    server: RestConfig | None
    always_allowed: tuple[str, ...]


def delegated_authentication(options: Options) -> Authentication:
    try:
        server = _server(options.authentication_kubeconfig, "authentication")
        if server:
            check_usable(server)
    except ConfigError as err:
        raise ConfigError(f"failed to get delegated authentication kubeconfig: {err}") from err
    lookup = server is None and not options.authentication_skip_lookup
    return Authentication(
        server,
        client_ca=_client_ca(options, warn=lookup),
        request_header_ca=_request_header_ca(options, warn=lookup),
    )


def delegated_authorization(options: Options) -> Authorization:
    server = _server(options.authorization_kubeconfig, "authorization")
    if server:
        check_usable(server)
    paths = _always_allowed(options.authorization_always_allow_paths)
    if server is None:
        log.text_warning(
            "No authorization-kubeconfig provided, "
            "so SubjectAccessReview of authorization tokens won't work."
        )
    return Authorization(server, paths)


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


def _client_ca(options: Options, *, warn: bool) -> bytes | None:
    if options.client_ca_file:
        try:
            return _bundle("client-ca-bundle", options.client_ca_file)
        except ConfigError as err:
            raise ConfigError(f"unable to load client CA provider: {err}") from err
    if warn:
        log.text_warning(
            f"No authentication-kubeconfig provided in order to lookup client-ca-file in "
            f"{CONFIG_MAP}, so client certificate authentication won't work."
        )
    return None


def _request_header_ca(options: Options, *, warn: bool) -> bytes | None:
    if options.requestheader_client_ca_file:
        try:
            return _bundle("request-header", options.requestheader_client_ca_file)
        except ConfigError as err:
            raise ConfigError(
                f"unable to create request header authentication config: {err}"
            ) from err
    if warn:
        log.text_warning(
            "No authentication-kubeconfig provided in order to lookup "
            f"requestheader-client-ca-file in {CONFIG_MAP}, "
            "so request-header client certificate authentication won't work."
        )
    return None


def _bundle(purpose: str, path: str) -> bytes:
    content = files.read(path)
    name = quote(f"{purpose}::{path}")
    if not content:
        raise ConfigError(f"missing content for CA bundle {name}")
    try:
        check_bundle(content)
    except ConfigError as err:
        raise ConfigError(f"error loading CA bundle for {name}: {err}") from err
    return content


def _always_allowed(paths: Sequence[str]) -> tuple[str, ...]:
    bare = tuple(path.removeprefix("/") for path in paths)
    for path in bare:
        if "*" in path[:-1]:
            raise ConfigError(f"only trailing * allowed in {quote(path)}")
    return bare
