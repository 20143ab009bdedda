"""A kubeconfig file: its entries, and those that its current context uses."""

import os
from functools import cache
from typing import Annotated, Any, ClassVar, get_args, get_origin

import msgspec

from kscheduler.errors import ConfigError
from kscheduler.gotext import files
from kscheduler.gotext.document import INTERNAL_VERSION, Kind, kind_of, parse_yaml, with_default
from kscheduler.gotext.json_text import Node, plain
from kscheduler.gotext.strconv import quote
from kscheduler.gotext.unmarshal import (
    BOOL,
    STRING,
    Bytes,
    GoType,
    ListOf,
    MapOf,
    Pointer,
    Raw,
    Scalar,
    Struct,
    StructField,
    UnmarshalError,
    format_v,
    unmarshal,
)

CONFIG = Kind("", "v1", "Config")
SCHEME = quote("k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50")


# `go_name` is the Go struct that a type stands for, as type errors name it; the order of the
# fields is the one in which Go prints them. Fields that are not used here are still type-checked.


class Part(msgspec.Struct, frozen=True, rename="kebab"):
    """A mapping in a kubeconfig; unknown keys are ignored, as clientcmd does."""

    go_name: ClassVar[str]


class Extension(Part, frozen=True):
    go_name = "v1.NamedExtension"
    name: str = ""
    extension: Any = None


class Preferences(Part, frozen=True):
    go_name = "v1.Preferences"
    colors: bool = False
    extensions: tuple[Extension, ...] = ()


class Cluster(Part, frozen=True):
    go_name = "v1.Cluster"
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: tuple[Extension, ...] = ()


class Variable(Part, frozen=True):
    go_name = "v1.ExecEnvVar"
    name: str = ""
    value: str = ""


class ExecEntry(Part, frozen=True, rename="camel"):
    go_name = "v1.ExecConfig"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: Annotated[str, Scalar("string", "v1.ExecInteractiveMode")] = ""

    @property
    def mode(self) -> str:
        """The interactive mode; only v1 of the exec API has no default for it."""
        optional = self.api_version.endswith(("/v1alpha1", "/v1beta1"))
        return self.interactive_mode or ("IfAvailable" if optional else "")


class AuthProvider(Part, frozen=True):
    go_name = "v1.AuthProviderConfig"
    name: str = ""
    config: dict[str, str] = {}


class User(Part, frozen=True):
    go_name = "v1.AuthInfo"
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
    extensions: tuple[Extension, ...] = ()


class Context(Part, frozen=True):
    go_name = "v1.Context"
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    extensions: tuple[Extension, ...] = ()


class NamedCluster(Part, frozen=True):
    go_name = "v1.NamedCluster"
    name: str = ""
    cluster: Cluster = Cluster()


class NamedUser(Part, frozen=True):
    go_name = "v1.NamedAuthInfo"
    name: str = ""
    user: User = User()


class NamedContext(Part, frozen=True):
    go_name = "v1.NamedContext"
    name: str = ""
    context: Context = Context()


class Kubeconfig(Part, frozen=True):
    go_name = "v1.Config"
    kind: str = ""
    api_version: str = msgspec.field(name="apiVersion", default="")
    preferences: Preferences = Preferences()
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()
    current_context: str = ""
    extensions: tuple[Extension, ...] = ()


@cache
def go_type(hint: Any) -> GoType:
    """The Go type that a field's annotation stands for."""
    if get_origin(hint) is Annotated:
        scalar = get_args(hint)[1]
        assert isinstance(scalar, Scalar)
        return scalar
    args = get_args(hint)
    if get_origin(hint) is tuple:
        return ListOf(go_type(args[0]))
    if get_origin(hint) is dict:
        return MapOf(go_type(args[1]))
    if args:  # X | None
        return Pointer(go_type(args[0]))
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    fields = [(one.encode_name, go_type(one.type)) for one in msgspec.structs.fields(hint)]
    return Struct(hint.go_name, tuple(StructField(name, kind, name) for name, kind in fields))


_SIMPLE: dict[Any, GoType] = {str: STRING, bool: BOOL, bytes: Bytes(), Any: Raw(plain)}


class ActiveContext(msgspec.Struct, frozen=True):
    """The context in use, with everything it points at."""

    cluster_name: str = ""
    user_name: str = ""
    cluster: Cluster = msgspec.field(default_factory=Cluster)
    user: User = msgspec.field(default_factory=User)
    has_cluster: bool = False
    namespace: str = ""
    problems: tuple[str, ...] = ()


def load(path: str) -> Kubeconfig:
    """The file's entries, with relative paths made absolute."""
    try:
        os.stat(path)
    except FileNotFoundError as error:
        raise ConfigError(f"stat {path}: {files.reason(error)}") from error
    except OSError:
        pass  # Opening it fails as well, and with upstream's text.
    try:
        parsed = _parse(files.read(path))
    except ConfigError as error:
        raise ConfigError(f'error loading config file "{path}": {error}') from error
    return _with_resolved_paths(parsed, os.path.abspath(os.path.dirname(path)))


def _parse(data: bytes) -> Kubeconfig:
    """The entries in the text of a kubeconfig; the checks come in the order of Go's decoder."""
    if not data:
        return Kubeconfig()
    node = parse_yaml(data).node
    kind = with_default(kind_of(node), CONFIG)
    if (kind.group, kind.name) != ("", "Config") or kind.version not in ("v1", INTERNAL_VERSION):
        raise ConfigError(
            f"no kind {quote(kind.name)} is registered for version {quote(kind.api_version)} "
            f"in scheme {SCHEME}"
        )
    try:
        tree, _ = unmarshal(node, go_type(Kubeconfig))
    except UnmarshalError as error:
        raise ConfigError(str(error)) from error
    _check_names(node)
    return msgspec.convert(tree or {}, Kubeconfig)


def _check_names(node: Node) -> None:
    """Raises if a list has two entries of one name: Go makes maps of these lists.

    Go shows the whole list, we do so unless it holds secrets.
    """
    for key, name, entry_type in (
        ("clusters", "cluster", NamedCluster),
        ("users", "user", NamedUser),
        ("contexts", "context", NamedContext),
    ):
        named = _member(node, key)
        for entry in named.items if named else ():
            if part := _member(entry, name):
                _check_list(_member(part, "extensions"), Extension, "runtime.Object")
        inner = entry_type.go_name.removeprefix("v1.Named")
        _check_list(named, entry_type, f"*api.{inner}")
    _check_list(_member(node, "extensions"), Extension, "runtime.Object")


def _check_list(named: Node | None, entry_type: type[Part], to: str) -> None:
    items = named.items if named else ()
    names = [name.text if (name := _member(item, "name")) else "" for item in items]
    repeated = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if repeated is not None:
        is_secret = entry_type is NamedUser
        shown = "" if is_secret else f": {format_v(named, ListOf(go_type(entry_type)))}"
        raise ConfigError(
            f"error converting *[]{entry_type.go_name.removeprefix('v1.')} into *map[string]{to}: "
            f'duplicate name "{repeated}" in list{shown}'
        )


def _member(node: Node, key: str) -> Node | None:
    return next((value for name, value in reversed(node.members) if name == key), None)


def _with_resolved_paths(parsed: Kubeconfig, folder: str) -> Kubeconfig:
    """These entries with absolute paths: relative ones start at the kubeconfig's own folder."""

    def resolved(part: Any, *names: str) -> Any:
        paths = {name: getattr(part, name) for name in names}
        changed = {
            name: os.path.normpath(os.path.join(folder, path))
            for name, path in paths.items()
            if path and not os.path.isabs(path)
        }
        return msgspec.structs.replace(part, **changed)

    def resolved_user(user: User) -> Any:
        # A bare name is a program in PATH, not a path.
        if user.exec is not None and os.sep in user.exec.command:
            user = msgspec.structs.replace(user, exec=resolved(user.exec, "command"))
        return resolved(user, "client_certificate", "client_key", "token_file")

    clusters = tuple(
        NamedCluster(entry.name, resolved(entry.cluster, "certificate_authority"))
        for entry in parsed.clusters
    )
    users = tuple(NamedUser(entry.name, resolved_user(entry.user)) for entry in parsed.users)
    return msgspec.structs.replace(parsed, clusters=clusters, users=users)


def active_context(parsed: Kubeconfig) -> ActiveContext:
    """The current context; a cluster or user that it names in vain is an empty one, as upstream."""
    context = next(
        (entry.context for entry in parsed.contexts if entry.name == parsed.current_context), None
    )
    problems: tuple[str, ...] = ()
    if context is None and parsed.current_context:
        problems = (f"context was not found for specified context: {parsed.current_context}",)
    context = context or Context()
    clusters = {entry.name: entry.cluster for entry in parsed.clusters}
    users = {entry.name: entry.user for entry in parsed.users}
    return ActiveContext(
        cluster_name=context.cluster,
        user_name=context.user,
        cluster=clusters.get(context.cluster, Cluster()),
        user=users.get(context.user, User()),
        has_cluster=context.cluster in clusters,
        namespace=context.namespace,
        problems=problems,
    )
