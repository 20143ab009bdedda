"""A kubeconfig file: what is in it, and which of that its current context uses."""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kscheduler.api.decode import DecodeError, convert
from kscheduler.client import files
from kscheduler.errors import ConfigError


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
        _check_names(parsed)
    except ConfigError as error:
        raise ConfigError(f'error loading config file "{path}": {error}') from error
    return _with_resolved_paths(parsed, Path(path).parent)


def _parse(data: bytes) -> Kubeconfig:
    try:
        document = yaml.load(data, yaml.CSafeLoader)
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"yaml: {_yaml_place(error)}{error.problem}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"yaml: {error}") from error
    if document is None:
        return Kubeconfig()
    try:
        return convert(document, Kubeconfig)
    except DecodeError as error:
        raise ConfigError(str(error).replace("Kubeconfig", "Config")) from error


def _yaml_place(error: yaml.MarkedYAMLError) -> str:
    """The line go-yaml would name: zero-based, but for errors of the scanner."""
    for mark in (error.context_mark, error.problem_mark):
        if mark is not None and mark.line:
            return f"line {mark.line + isinstance(error, yaml.scanner.ScannerError)}: "
    return ""


def _check_names(parsed: Kubeconfig) -> None:
    for kind, entries in (
        ("NamedCluster", parsed.clusters),
        ("NamedAuthInfo", parsed.users),
        ("NamedContext", parsed.contexts),
    ):
        names = [entry.name for entry in entries]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f'error converting *[]{kind}: duplicate name "{name}" in list')


def _with_resolved_paths(parsed: Kubeconfig, folder: Path) -> Kubeconfig:
    """Relative paths start at the kubeconfig's own folder."""

    def resolved(part: Any, *names: str) -> Any:
        paths = {name: getattr(part, name) for name in names}
        changed = {name: str(folder / path) for name, path in paths.items() if path}
        return msgspec.structs.replace(part, **changed)

    clusters = tuple(
        NamedCluster(entry.name, resolved(entry.cluster, "certificate_authority"))
        for entry in parsed.clusters
    )
    users = tuple(
        NamedUser(
            entry.name, resolved(entry.user, "client_certificate", "client_key", "token_file")
        )
        for entry in parsed.users
    )
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
        problems=problems,
    )
