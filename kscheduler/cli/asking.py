"""Flags and manners of commands that ask a running scheduler: kubectl's flags, and exit codes.

0 is yes (it is placed, it fits), 1 is no, 2 is an error, which is told in a sentence.
"""

from __future__ import annotations

import asyncio
import functools
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.api.validation import dns_label_errors, dns_subdomain_errors
from kscheduler.cli.page import tamed
from kscheduler.client.clientcmd.loading_rules import (
    DEFAULT_NAMESPACE,
    ClientConfig,
    Overrides,
    load_client_config,
)
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import Identity
from kscheduler.client.explanation_client import ExplanationClient, Target, reach
from kscheduler.client.transport import user_agent
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.gotext.duration import SECOND, DurationError, parse_duration

YES, NO, FAILED = 0, 1, 2
INTERRUPTED = 130
TABLE, WIDE, YAML, JSON = OUTPUTS = ("table", "wide", "yaml", "json")
MAX_DIGITS = 9

F = TypeVar("F", bound=Callable[..., Any])


class Asker(msgspec.Struct, frozen=True):
    """Scheduler to ask, as flags say it, and the form in which the answer is wanted."""

    overrides: Overrides
    target: Target
    timeout_seconds: float | None
    output: str = TABLE


class Question(msgspec.Struct, frozen=True):
    """A scheduler that can be asked, the namespace meant by default, and the form of the answer."""

    client: ExplanationClient
    namespace: str
    output: str

    @property
    def is_for_programs(self) -> bool:
        return self.output in (YAML, JSON)

    def pod(self, text: str) -> tuple[str, str]:
        """Namespace and name that POD stands for: `NAME`, `pod/NAME` or `NAMESPACE/NAME`."""
        first, slash, name = text.rpartition("/")
        if slash and first not in ("pod", "pods", "po"):
            namespace = first.removeprefix("pod/").removeprefix("pods/")
        else:
            namespace = self.namespace
        # They become parts of a path.
        if dns_subdomain_errors(name) or dns_label_errors(namespace):
            raise Failure(f'POD has to be NAME, pod/NAME or NAMESPACE/NAME, not "{text}".')
        return namespace, name


class Failure(click.ClickException):
    """A sentence for the user; ends the command with the exit code of errors."""

    exit_code = FAILED

    def format_message(self) -> str:
        return tamed(self.message)


class AskingCommand(click.Command):
    """A command that speaks of itself by the name it was called by, `kubectl why` included."""

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_help(ctx, formatter)
        text = formatter.getvalue().replace("{me}", ctx.command_path)
        formatter.buffer[:] = [text]


def _seconds(ctx: click.Context, param: click.Parameter, text: str) -> float | None:
    """A duration as kubectl takes it: 30s, 1m, or a number of seconds; 0 is no limit."""
    is_number = text.isascii() and text.isdigit() and len(text) < MAX_DIGITS
    try:
        seconds = float(text) if is_number else parse_duration(text) / SECOND
    except DurationError as error:
        raise click.BadParameter(f"{error}: say 30s or 2m", ctx, param) from error
    if seconds < 0:
        raise click.BadParameter("must not be negative", ctx, param)
    return seconds or None


OPTIONS = (
    click.option("--kubeconfig", default="", metavar="FILE", help="The kubeconfig to use."),
    click.option("--context", default="", metavar="NAME", help="The kubeconfig's context to use."),
    click.option("--cluster", default="", metavar="NAME", help="The kubeconfig's cluster to use."),
    click.option("--user", default="", metavar="NAME", help="The kubeconfig's user to use."),
    click.option(
        "-n", "--namespace", default="", help="The namespace.  [default: that of the context]"
    ),
    click.option("--token", default="", help="A bearer token, instead of the user's credentials."),
    click.option(
        "--as", "impersonate", default="", metavar="USER", help="Act as another user (aggregated)."
    ),
    click.option(
        "--as-group", "groups", multiple=True, metavar="GROUP", help="And as member of a group."
    ),
    click.option("--as-uid", "uid", default="", metavar="UID", help="And by this UID."),
    click.option(
        "--request-timeout",
        "timeout_seconds",
        default="1m",
        show_default=True,
        metavar="DURATION",
        callback=_seconds,
        help="How long to wait for one answer: 30s, 2m; 0 is for ever.",
    ),
    click.option(
        "--lease",
        default="",
        metavar="NAMESPACE/NAME",
        help="Ask the scheduler that leads by this Lease, if there are several.",
    ),
    click.option(
        "--server",
        default="",
        metavar="HOST:PORT",
        help="Ask the scheduler at this address, whatever Leases say.",
    ),
    click.option(
        "--aggregated", is_flag=True, help="Ask through the API server, by its APIService."
    ),
    click.option(
        "--certificate-authority",
        "ca_file",
        default="",
        metavar="FILE",
        help="Verify the scheduler's certificate by this authority.  [default: by its digest on "
        "the Lease]",
    ),
    click.option(
        "--tls-server-name",
        "server_name",
        default="",
        metavar="NAME",
        help="The name that the scheduler's certificate has to have.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        "insecure",
        is_flag=True,
        help="Do not verify the scheduler's certificate. Somebody else may get your token.",
    ),
)
OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(OUTPUTS),
    default=TABLE,
    show_default=True,
    help="The form of the answer: for people, with more in it, or the API's own objects.",
)


def asking(command: F) -> F:
    """Gives a command the flags above, and calls it with what they say as its `asker`."""
    return reaching(OUTPUT(command))


def reaching(command: F) -> F:
    """The flags without the form of the answer."""

    @functools.wraps(command)
    def with_asker(
        *,
        kubeconfig: str,
        context: str,
        cluster: str,
        user: str,
        namespace: str,
        token: str,
        impersonate: str,
        groups: tuple[str, ...],
        uid: str,
        timeout_seconds: float | None,
        lease: str,
        server: str,
        aggregated: bool,
        ca_file: str,
        server_name: str,
        insecure: bool,
        output: str = TABLE,
        **others: Any,
    ) -> Any:
        ways = [name for name, is_said in (("--lease", lease), ("--server", server)) if is_said]
        if aggregated and ways:
            raise click.UsageError(f"--aggregated and {ways[0]} are two ways; choose one")
        if len(ways) > 1:
            raise click.UsageError("--lease and --server are two ways; choose one")
        if insecure and ca_file:
            raise click.UsageError(
                "--certificate-authority and --insecure-skip-tls-verify exclude each other"
            )
        overrides = Overrides(
            kubeconfig, context, cluster, user, namespace, token, impersonate, uid, groups
        )
        target = Target(lease, server, aggregated, ca_file, server_name, insecure)
        asker = Asker(overrides, target, timeout_seconds, output)
        return command(asker=asker, **others)

    for option in reversed(OPTIONS):
        with_asker = option(with_asker)
    return with_asker  # type: ignore[return-value]


def answer(asker: Asker, ask: Callable[[Question], Awaitable[int]]) -> NoReturn:
    """Asks, and ends the command with the code of the answer."""
    try:
        sys.exit(asyncio.run(_asked(asker, ask)))
    except KschedulerError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


async def _asked(asker: Asker, ask: Callable[[Question], Awaitable[int]]) -> int:
    config = client_configuration(asker)
    async with reach(
        config,
        asker.target,
        agent=user_agent("explanation"),
        timeout_seconds=asker.timeout_seconds,
    ) as client:
        return await ask(Question(client, config.namespace, asker.output))


def client_configuration(asker: Asker) -> ClientConfig:
    """The kubeconfig and flags in one; with --server, there need not be a kubeconfig."""
    overrides = asker.overrides
    try:
        return load_client_config(overrides)
    except ConfigError:
        if not asker.target.server or overrides.kubeconfig or overrides.context:
            raise
        own = RestConfig("", identity=Identity(token=overrides.token))
        return ClientConfig(RestConfig(""), own, overrides.namespace or DEFAULT_NAMESPACE)


def print_object(output: str, resource: Resource, item: ApiObject) -> None:
    """An object in the API's own form."""
    print_manifest(output, msgspec.json.decode(resource.encode(item)))


def print_list(output: str, resource: Resource, items: Iterable[ApiObject]) -> None:
    manifests = [msgspec.json.decode(resource.encode(one)) for one in items]
    head = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
    print_manifest(output, head | {"metadata": {}, "items": manifests})


def print_manifest(output: str, manifest: Mapping[str, Any]) -> None:
    if output == JSON:
        text = msgspec.json.format(msgspec.json.encode(manifest), indent=4).decode()
    else:
        import yaml

        text = yaml.dump(dict(manifest), sort_keys=False, allow_unicode=True, width=100).rstrip()
    click.echo(text)
