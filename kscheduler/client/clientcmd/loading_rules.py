"""The configuration of a command that a person runs: kubeconfig files as kubectl finds them.

Mirrors client-go's ClientConfigLoadingRules and ConfigOverrides, as far as flags need them: the
file of --kubeconfig, else those of $KUBECONFIG merged, else ~/.kube/config, else the pod's own
service account. Differs: files of $KUBECONFIG that are missing are passed over without a warning.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kscheduler.client.clientcmd.kubeconfig import (
    ActiveContext,
    Kubeconfig,
    NamedCluster,
    NamedContext,
    NamedUser,
    User,
    active_context,
    load,
)
from kscheduler.client.clientcmd.rest_config import (
    SERVICE_ACCOUNT,
    RestConfig,
    check_usable,
    in_cluster_config,
    rest_config_of,
)
from kscheduler.client.clientcmd.validation import validate
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.strconv import quote

DEFAULT_NAMESPACE = "default"
ANY_SERVER = "https://localhost"

N = TypeVar("N", NamedCluster, NamedUser, NamedContext)


class Overrides(msgspec.Struct, frozen=True):
    """Flags that go before what is in the files; empty ones leave it as it is."""

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    token: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()


class ClientConfig(msgspec.Struct, frozen=True):
    """An API server, who we are there, and the namespace that is meant when none is said.

    `own` is who we are to another server of the cluster, which speaks TLS: an API server that does
    not is never told.
    """

    rest: RestConfig
    own: RestConfig
    namespace: str = DEFAULT_NAMESPACE


def load_client_config(
    overrides: Overrides,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> ClientConfig:
    """ConfigError if there is nothing to go by, or it cannot be used."""
    merged = _merged(load(path) for path in _paths(overrides.kubeconfig, environ))
    if not merged.clusters and not overrides.kubeconfig:
        config = _in_cluster(overrides, environ, service_account)
        if config is not None:
            return config
        raise ConfigError(
            "There is no kubeconfig: name one with --kubeconfig FILE or KUBECONFIG in the "
            "environment, or put it to ~/.kube/config."
        )
    active = _active(merged, overrides)
    validate(active)
    rest = rest_config_of(active)
    check_usable(rest)
    own = rest
    if not rest.secure:
        cluster = replace(active.cluster, server=ANY_SERVER)
        own = rest_config_of(replace(active, cluster=cluster))
    namespace = overrides.namespace or active.namespace or DEFAULT_NAMESPACE
    return ClientConfig(rest, own, namespace)


def _paths(explicit: str, environ: Mapping[str, str]) -> list[str]:
    """Files to read, in the order of their precedence; only an explicit one has to be there."""
    if explicit:
        return [explicit]
    listed = environ.get("KUBECONFIG", "")
    if listed:
        found = list(dict.fromkeys(filter(None, listed.split(os.pathsep))))
    else:
        found = [os.path.join(environ.get("HOME", ""), ".kube", "config")]
    return [path for path in found if os.path.exists(path)]


def _merged(parsed: Iterable[Kubeconfig]) -> Kubeconfig:
    """The first file to name a thing decides what it is."""
    merged = Kubeconfig()
    for one in parsed:
        merged = replace(
            merged,
            clusters=_joined(merged.clusters, one.clusters),
            users=_joined(merged.users, one.users),
            contexts=_joined(merged.contexts, one.contexts),
            current_context=merged.current_context or one.current_context,
        )
    return merged


def _joined(first: tuple[N, ...], second: tuple[N, ...]) -> tuple[N, ...]:
    names = {entry.name for entry in first}
    return first + tuple(entry for entry in second if entry.name not in names)


def _in_cluster(
    overrides: Overrides, environ: Mapping[str, str], service_account: Path
) -> ClientConfig | None:
    """The configuration of the pod we run in; None outside of one."""
    if not environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    rest = in_cluster_config(environ, service_account)
    if overrides.token:
        rest = replace(rest, identity=replace(rest.identity, token=overrides.token, token_file=""))
    namespace = overrides.namespace
    if not namespace:
        try:
            namespace = files.read(str(service_account / "namespace")).decode().strip()
        except ConfigError:
            namespace = DEFAULT_NAMESPACE
    return ClientConfig(rest, rest, namespace)


def _active(merged: Kubeconfig, overrides: Overrides) -> ActiveContext:
    """The context in use after all flags; a name that a flag gives has to be there."""
    if overrides.context:
        _check(overrides.context, merged.contexts, "context")
        merged = replace(merged, current_context=overrides.context)
    active = active_context(merged)
    if overrides.cluster:
        _check(overrides.cluster, merged.clusters, "cluster")
        (cluster,) = (one for one in merged.clusters if one.name == overrides.cluster)
        active = replace(
            active, cluster_name=cluster.name, cluster=cluster.cluster, has_cluster=True
        )
    if overrides.user:
        _check(overrides.user, merged.users, "auth info")
        (user,) = (one for one in merged.users if one.name == overrides.user)
        active = replace(active, user_name=user.name, user=user.user)
    user_entry = active.user
    if overrides.token:
        # A token takes the place of certificates and plugins, as upstream has it.
        user_entry = User(
            token=overrides.token,
            impersonate=user_entry.impersonate,
            impersonate_uid=user_entry.impersonate_uid,
            impersonate_groups=user_entry.impersonate_groups,
            impersonate_extra=user_entry.impersonate_extra,
        )
    if overrides.impersonate:
        user_entry = replace(user_entry, impersonate=overrides.impersonate)
    if overrides.impersonate_uid:
        user_entry = replace(user_entry, impersonate_uid=overrides.impersonate_uid)
    if overrides.impersonate_groups:
        user_entry = replace(user_entry, impersonate_groups=overrides.impersonate_groups)
    return replace(active, user=user_entry)


def _check(
    name: str, entries: Iterable[NamedCluster | NamedUser | NamedContext], what: str
) -> None:
    names = [entry.name for entry in entries]
    if name not in names:
        known = f"; there is {', '.join(map(quote, sorted(names)))}" if names else ""
        raise ConfigError(f"{what} {quote(name)} does not exist{known}")
