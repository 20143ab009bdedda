"""Address and credentials of the API server: from a kubeconfig, --master, or the pod's own volume.

Mirrors client-go's clientcmd for one explicit file, with its texts and warnings. Differs: the error
about a user that is listed twice names the user, but does not show its secrets.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from kscheduler import logs
from kscheduler.client.clientcmd.kubeconfig import (
    ActiveContext,
    Cluster,
    ExecEntry,
    active_context,
    load,
)
from kscheduler.client.clientcmd.validation import validate
from kscheduler.client.credentials import NOT_IN_VALUE, Exec, Identity, Impersonation
from kscheduler.client.tls import TlsConfig, check_authority, make_context
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import quote
from kscheduler.gotext.url import Url, parse_url

log = logs.logger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CLUSTER_INFO_EXTENSION = "client.authentication.k8s.io/exec"
EXEC_API_VERSIONS = (
    "client.authentication.k8s.io/v1beta1",
    "client.authentication.k8s.io/v1",
)


class RestConfig(msgspec.Struct, frozen=True):
    """client-go's rest.Config; `server` is scheme, host and prefix, no slash at the end.

    `problem` is why no client can be made of it: upstream does not report that when it reads the
    kubeconfig, but when it makes the client.
    """

    server: str
    tls: TlsConfig = msgspec.field(default_factory=TlsConfig)
    identity: Identity = msgspec.field(default_factory=Identity)
    proxy: str = ""
    problem: str = ""

    @property
    def host(self) -> str:
        """host:port, as metrics name the server."""
        return urlsplit(self.server).netloc

    @property
    def secure(self) -> bool:
        return self.server.startswith("https://")


def load_rest_config(
    kubeconfig: str = "",
    master: str = "",
    *,
    is_flag_ignored: bool = False,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> RestConfig:
    """Reads the kubeconfig; without one and without `master`, the pod's own service account.

    `is_flag_ignored` is whether --kubeconfig was given beside a --config, which takes its place.
    """
    if not kubeconfig and not master:
        why = (
            "--kubeconfig is ignored beside --config, whose clientConnection.kubeconfig is empty."
            if is_flag_ignored
            else "Neither --kubeconfig nor --master was specified."
        )
        log.text_warning(f"{why}  Using the inClusterConfig.  This might not work.")
        try:
            return in_cluster_config(environ, service_account)
        except ConfigError as error:
            log.text_warning(
                f"error creating inClusterConfig, falling back to default config: {error}"
            )
    active = active_context(load(kubeconfig)) if kubeconfig else ActiveContext()
    if master:
        cluster = msgspec.structs.replace(active.cluster, server=master, tls_server_name="")
        active = replace(active, cluster=cluster)
    validate(active)
    return rest_config_of(active)


def check_usable(config: RestConfig) -> None:
    """Raises what would keep a client from being made."""
    if config.problem:
        raise ConfigError(config.problem)
    if config.secure:
        make_context(config.tls)


def in_cluster_config(
    environ: Mapping[str, str] = os.environ, service_account: Path = SERVICE_ACCOUNT
) -> RestConfig:
    """The configuration that a pod finds in its own environment and volume."""
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        raise ConfigError(
            "unable to load in-cluster configuration, "
            "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined"
        )
    token_file = service_account / "token"
    token = files.read(str(token_file)).decode(errors="replace")
    authority = str(service_account / "ca.crt")
    try:
        check_authority(files.read(authority))
    except ConfigError as error:
        log.text_error(f"Expected to load root CA config from {authority}, but got err: {error}")
        authority = ""
    bracketed = f"[{host}]" if ":" in host else host
    return RestConfig(
        server=f"https://{bracketed}:{port}",
        tls=TlsConfig(ca_file=authority),
        identity=Identity(token=token, token_file=str(token_file)),
    )


def rest_config_of(active: ActiveContext) -> RestConfig:
    """The configuration that a context stands for, once it is validated."""
    cluster, user = active.cluster, active.user
    tls = TlsConfig(
        ca_file="" if cluster.certificate_authority_data else cluster.certificate_authority,
        ca_data=cluster.certificate_authority_data,
        insecure=cluster.insecure_skip_tls_verify,
        server_name=cluster.tls_server_name,
    )
    try:
        server = _server_url(cluster.server)
    except ConfigError as error:
        return RestConfig(cluster.server, problem=str(error))
    impersonation = Impersonation(
        user.impersonate, user.impersonate_uid, user.impersonate_groups, user.impersonate_extra
    )
    problem = ""
    for name, value in impersonation.headers():
        if NOT_IN_VALUE.search(value):
            problem = f"net/http: invalid header field value for {quote(name)}"
            break
    config = RestConfig(server, proxy=cluster.proxy_url, problem=problem)
    if not config.secure:
        # Credentials never travel in clear text: clientcmd does not even read them. The user to
        # impersonate is no credential: without it we would have more rights than intended.
        return replace(config, identity=Identity(impersonation=impersonation))
    tls = replace(
        tls,
        cert_file="" if user.client_certificate_data else user.client_certificate,
        cert_data=user.client_certificate_data,
        key_file="" if user.client_key_data else user.client_key,
        key_data=user.client_key_data,
    )
    token = user.token
    if user.auth_provider is not None:
        problem = f"no Auth Provider found for name {quote(user.auth_provider.name)}"
    elif user.exec is not None and user.exec.api_version not in EXEC_API_VERSIONS:
        problem = f"exec plugin: invalid apiVersion {quote(user.exec.api_version)}"
    elif user.token_file and not token:
        content = files.read(user.token_file)
        if not content.strip():
            problem = f"read empty token from file {quote(user.token_file)}"
        token = content.decode(errors="replace")
    if problem:
        return replace(config, tls=tls, problem=problem)
    identity = Identity(
        token=token,
        token_file=user.token_file,
        username=user.username,
        password=user.password,
        exec=_exec_plugin(user.exec, cluster, server) if user.exec else None,
        impersonation=impersonation,
    )
    return replace(config, tls=tls, identity=identity)


def _exec_plugin(plugin: ExecEntry, cluster: Cluster, server: str) -> Exec:
    """The exec plugin of a user, with what it gets to know of the cluster if it asks for that."""
    info: dict[str, Any] | None = None
    if plugin.provide_cluster_info:
        authority = cluster.certificate_authority_data
        if not authority and cluster.certificate_authority:
            authority = files.read(cluster.certificate_authority)
        extension = next(
            (e.extension for e in cluster.extensions if e.name == CLUSTER_INFO_EXTENSION), None
        )
        # In the order of Go's fields, without the empty ones; `config` is there in any case.
        info = {
            "server": server,
            **({"tls-server-name": cluster.tls_server_name} if cluster.tls_server_name else {}),
            **({"insecure-skip-tls-verify": True} if cluster.insecure_skip_tls_verify else {}),
            **({"certificate-authority-data": authority} if authority else {}),
            **({"proxy-url": cluster.proxy_url} if cluster.proxy_url else {}),
            "config": extension,
        }
    return Exec(
        command=plugin.command,
        args=plugin.args,
        env={variable.name: variable.value for variable in plugin.env},
        api_version=plugin.api_version,
        install_hint=plugin.install_hint,
        interactive_mode=plugin.mode,
        cluster=info,
    )


def _server_url(server: str) -> str:
    """A URL from a URL, a host or a host:port pair."""
    try:
        url = parse_url(server)
    except ConfigError:
        url = Url("", "", "")
    if not url.scheme or not url.host:
        url = parse_url(f"http://{server}")
        if url.path not in ("", "/"):
            raise ConfigError(f"host must be a URL or a host:port pair: {quote(server)}")
    return f"{url.scheme}://{url.authority}{url.path.rstrip('/')}"
