"""Validation of a kubeconfig's current context: all problems at once, in clientcmd's words."""

import os

from kscheduler.client.clientcmd.kubeconfig import ActiveContext, Cluster, User
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import quote
from kscheduler.gotext.url import parse_url

NO_CONFIGURATION = (
    "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"
)
NO_SERVER = "cluster has no server defined"


def validate(active: ActiveContext) -> None:
    """Raises one error with all problems, in upstream's order: context, user, cluster."""
    problems = [
        *active.problems,
        *_user_problems(active.user_name, active.user),
        *_cluster_problems(active),
    ]
    if problems == [NO_SERVER]:
        problems = [NO_CONFIGURATION]
    if len(problems) == 1:
        raise ConfigError(f"invalid configuration: {problems[0]}")
    if problems:
        raise ConfigError(f"invalid configuration: [{', '.join(problems)}]")


def _cluster_problems(active: ActiveContext) -> list[str]:
    name, cluster = active.cluster_name, active.cluster
    if cluster == Cluster() and not active.has_cluster:
        return [NO_SERVER]
    problems = []
    if not cluster.server:
        missing = f"no server found for cluster {quote(name)}" if name else ""
        problems.append(missing or "default cluster has no server defined")
    reason = ""
    if cluster.proxy_url:
        try:
            scheme = parse_url(cluster.proxy_url).scheme
        except ConfigError:
            reason = f"could not parse: {cluster.proxy_url}"
        else:
            if scheme not in ("http", "https", "socks5"):
                reason = f"unsupported scheme {quote(scheme)}, must be http, https, or socks5"
    if reason:
        problems.append(
            f"invalid 'proxy-url' {quote(cluster.proxy_url)} for cluster {quote(name)}: {reason}"
        )
    if cluster.certificate_authority and cluster.certificate_authority_data:
        problems.append(
            "certificate-authority-data and certificate-authority are both specified "
            f"for {name}. certificate-authority-data will override."
        )
    if reason := _unreadable(cluster.certificate_authority):
        problems.append(
            f"unable to read certificate-authority {cluster.certificate_authority} "
            f"for {name} due to {reason}"
        )
    return problems


def _user_problems(name: str, user: User) -> list[str]:
    problems = []
    # A key without a certificate is not used, hence not looked at.
    if user.client_certificate or user.client_certificate_data:
        problems += _certificate_problems(name, user)
    if (plugin := user.exec) is not None:
        use = f"for {name} to use exec authentication plugin"
        if user.auth_provider is not None:
            problems.append(
                f"authProvider cannot be provided in combination with an exec plugin for {name}"
            )
        if not plugin.command:
            problems.append(f"command must be specified {use}")
        if not plugin.api_version:
            problems.append(f"apiVersion must be specified {use}")
        unnamed = sum(not variable.name for variable in plugin.env)
        problems += [f"env variable name must be specified {use}"] * unnamed
        if not plugin.mode:
            problems.append(f"interactiveMode must be specified {use}")
        elif plugin.mode not in ("Never", "IfAvailable", "Always"):
            problems.append(f'invalid interactiveMode for {name}: "{plugin.mode}"')
    if user.token and (user.username or user.password):
        problems.append(
            f"more than one authentication method found for {name}; "
            "found [token basicAuth], only one is allowed"
        )
    details = user.impersonate_uid or user.impersonate_groups or user.impersonate_extra
    if details and not user.impersonate:
        problems.append(
            f"requesting uid, groups or user-extra for {name} without impersonating a user"
        )
    return problems


def _certificate_problems(name: str, user: User) -> list[str]:
    problems = []
    if user.client_certificate and user.client_certificate_data:
        problems.append(
            f"client-cert-data and client-cert are both specified for {name}. "
            "client-cert-data will override."
        )
    if user.client_key and user.client_key_data:
        problems.append(
            f"client-key-data and client-key are both specified for {name}; "
            "client-key-data will override"
        )
    if not user.client_key and not user.client_key_data:
        problems.append(
            f"client-key-data or client-key must be specified for {name} "
            "to use the clientCert authentication method."
        )
    for what, path in (("client-cert", user.client_certificate), ("client-key", user.client_key)):
        if reason := _unreadable(path):
            problems.append(f"unable to read {what} {path} for {name} due to {reason}")
    return problems


def _unreadable(path: str) -> str:
    """Why a file cannot be opened; empty when it can, or when there is none."""
    if path:
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError as error:
            return f"open {path}: {files.reason(error)}"
    return ""
