"""A kubeconfig file: what is in it, and which of that its current context uses."""

import os
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kscheduler.api.decode import DecodeError, convert
from kscheduler.client.clientcmd.go_types import mismatch, printed
from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.document import INTERNAL_VERSION, Kind, kind_of, parse_yaml, with_default
from kscheduler.gotext.json_text import Node, plain
from kscheduler.logs import quote

CONFIG = Kind("", "v1", "Config")
SCHEME = quote("k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50")


class Part(msgspec.Struct, frozen=True, rename="kebab"):
    """A mapping in a kubeconfig; unknown keys are ignored, as clientcmd does."""


class Extension(Part, frozen=True):
    name: str = ""
    extension: Any = None


class Cluster(Part, frozen=True):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()


class Variable(Part, frozen=True):
    name: str = ""
    value: str = ""


class ExecEntry(msgspec.Struct, frozen=True, rename="camel"):
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""

    @property
    def mode(self) -> str:
        """Only v1 insists on being told."""
        optional = self.api_version.endswith(("/v1alpha1", "/v1beta1"))
        return self.interactive_mode or ("IfAvailable" if optional else "")


class AuthProvider(Part, frozen=True):
    name: str = ""


class User(Part, frozen=True):
    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    impersonate: str = msgspec.field(name="as", default="")
    impersonate_uid: str = msgspec.field(name="as-uid", default="")
    impersonate_groups: tuple[str, ...] = msgspec.field(name="as-groups", default=())
    impersonate_extra: dict[str, tuple[str, ...]] = msgspec.field(
        name="as-user-extra", default_factory=dict
    )
    username: str = ""
    password: str = ""
    auth_provider: AuthProvider | None = None
    exec: ExecEntry | None = None


class Context(Part, frozen=True):
    cluster: str = ""
    user: str = ""


class NamedCluster(Part, frozen=True):
    name: str = ""
    cluster: Cluster = Cluster()


class NamedUser(Part, frozen=True):
    name: str = ""
    user: User = User()


class NamedContext(Part, frozen=True):
    name: str = ""
    context: Context = Context()


class Kubeconfig(Part, frozen=True):
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = ""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The context in use, with everything it points at."""

    cluster_name: str = ""
    user_name: str = ""
    cluster: Cluster = field(default_factory=Cluster)
    user: User = field(default_factory=User)
    has_cluster: bool = False
    problems: tuple[str, ...] = ()


def load(path: str) -> Kubeconfig:
    try:
        os.stat(path)
    except FileNotFoundError as error:
        raise ConfigError(f"stat {path}: {files.reason(error)}") from error
    except OSError:
        pass  # told better by the attempt to open it
    try:
        parsed = _parse(files.read(path))
    except ConfigError as error:
        raise ConfigError(f'error loading config file "{path}": {error}') from error
    return _with_resolved_paths(parsed, os.path.abspath(os.path.dirname(path)))


def _parse(data: bytes) -> Kubeconfig:
    if not data:
        return Kubeconfig()
    node = parse_yaml(data).node
    kind = with_default(kind_of(node), CONFIG)
    if (kind.group, kind.name) != ("", "Config") or kind.version not in ("v1", INTERNAL_VERSION):
        raise ConfigError(
            f"no kind {quote(kind.name)} is registered for version {quote(kind.api_version)} "
            f"in scheme {SCHEME}"
        )
    if problem := mismatch(node, "v1.Config"):
        raise ConfigError(problem)
    _check_names(node)
    try:
        return convert(plain(node) or {}, Kubeconfig)
    except DecodeError as error:
        raise ConfigError(str(error).replace("Kubeconfig", "Config")) from error


def _check_names(node: Node) -> None:
    """A name stands for one entry; Go shows the whole list, we do so unless it holds secrets."""
    for key, name, kind in (
        ("clusters", "cluster", "Cluster"),
        ("users", "user", "AuthInfo"),
        ("contexts", "context", "Context"),
    ):
        named = _member(node, key)
        for entry in named.items if named else ():
            if part := _member(entry, name):
                _check_list(_member(part, "extensions"), "Extension", "runtime.Object")
        _check_list(named, kind, f"*api.{kind}")
    _check_list(_member(node, "extensions"), "Extension", "runtime.Object")


def _check_list(named: Node | None, kind: str, to: str) -> None:
    items = named.items if named else ()
    names = [name.text if (name := _member(item, "name")) else "" for item in items]
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        shown = "" if kind == "AuthInfo" else f": {printed(named, f'[]v1.Named{kind}')}"
        raise ConfigError(
            f"error converting *[]Named{kind} into *map[string]{to}: "
            f'duplicate name "{repeated}" in list{shown}'
        )


def _member(node: Node, key: str) -> Node | None:
    return next((value for name, value in reversed(node.members) if name == key), None)


def _with_resolved_paths(parsed: Kubeconfig, folder: str) -> Kubeconfig:
    """Relative paths start at the kubeconfig's own folder."""

    def resolved(part: Any, *names: str) -> Any:
        paths = {name: getattr(part, name) for name in names}
        changed = {
            name: os.path.normpath(os.path.join(folder, path))
            for name, path in paths.items()
            if path and not os.path.isabs(path)
        }
        return msgspec.structs.replace(part, **changed)

    def resolved_user(user: User) -> Any:
        # A bare name is looked for in PATH.
        if user.exec is not None and os.sep in user.exec.command:
            user = msgspec.structs.replace(user, exec=resolved(user.exec, "command"))
        return resolved(user, "client_certificate", "client_key", "token_file")

    clusters = tuple(
        NamedCluster(entry.name, resolved(entry.cluster, "certificate_authority"))
        for entry in parsed.clusters
    )
    users = tuple(NamedUser(entry.name, resolved_user(entry.user)) for entry in parsed.users)
    return msgspec.structs.replace(parsed, clusters=clusters, users=users)


def choose(parsed: Kubeconfig) -> Chosen:
    context = next(
        (entry.context for entry in parsed.contexts if entry.name == parsed.current_context), None
    )
    problems: tuple[str, ...] = ()
    if context is None and parsed.current_context:
        problems = (f"context was not found for specified context: {parsed.current_context}",)
    context = context or Context()
    clusters = {entry.name: entry.cluster for entry in parsed.clusters}
    users = {entry.name: entry.user for entry in parsed.users}
    return Chosen(
        cluster_name=context.cluster,
        user_name=context.user,
        cluster=clusters.get(context.cluster, Cluster()),
        user=users.get(context.user, User()),
        has_cluster=context.cluster in clusters,
        problems=problems,
    )
