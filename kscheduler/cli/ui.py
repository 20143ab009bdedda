"""`kscheduler ui`: a page on which a cluster's scheduling can be seen and asked."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import webbrowser
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import click

from kscheduler.cli.asking import INTERRUPTED, Asker, Failure, client_configuration, reaching
from kscheduler.client.explanation_client import ExplanationClient, reach
from kscheduler.client.transport import user_agent
from kscheduler.errors import KschedulerError

# So that an address can be sent to a colleague who runs the command, too.
DEFAULT_PORT = 8910


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help=f"Port on 127.0.0.1; 0 takes any free one.  [default: {DEFAULT_PORT}, or a free one]",
)
@click.option("--browser/--no-browser", default=True, help="Whether to open the page in a browser.")
@reaching
def ui(*, asker: Asker, port: int | None, browser: bool) -> None:
    """Open a page that shows a cluster's scheduling and answers questions about it.

    It is served on this machine alone, asks the cluster with your own rights, and opens only by the
    address that is printed. Ctrl-C ends it.
    """
    try:
        asyncio.run(_run(asker, port, opens_browser=browser))
    except KschedulerError as error:
        raise Failure(str(error)) from error
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


async def _run(asker: Asker, port: int | None, *, opens_browser: bool) -> None:
    from kscheduler.ui.reached import ReachedSource
    from kscheduler.ui.server import Server

    config = client_configuration(asker)

    def connect() -> AbstractAsyncContextManager[ExplanationClient]:
        timeout = asker.timeout_seconds
        return reach(config, asker.target, agent=user_agent("ui"), timeout_seconds=timeout)

    async with AsyncExitStack() as stack:
        source = ReachedSource(connect, namespace=config.namespace, flags=_flags(asker))
        server = Server(await stack.enter_async_context(source))
        # Whoever cannot be reached at all is told here; later troubles are told by the page.
        await source.reached()
        try:
            await stack.enter_async_context(server.serving(DEFAULT_PORT if port is None else port))
        except OSError as error:
            if port is not None:
                raise Failure(f"port {port}: {os.strerror(error.errno or 0)}") from error
            await stack.enter_async_context(server.serving())
        click.echo(f"page:  {server.address}")
        if opens_browser:
            await asyncio.to_thread(webbrowser.open, server.address)
        if not sys.stdin.isatty():
            await asyncio.Event().wait()
        click.echo("It opens once. Enter prints another address, Ctrl-C ends it.")
        asked = asyncio.Queue[str]()
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin, lambda: asked.put_nowait(sys.stdin.readline()))
        while await asked.get():
            click.echo(f"page:  {server.address}")
        await asyncio.Event().wait()


def _flags(asker: Asker) -> str:
    """The flags by which other commands ask the same scheduler; a token is not among them."""
    said, target = asker.overrides, asker.target
    flags = {
        "--kubeconfig": said.kubeconfig,
        "--context": said.context,
        "--cluster": said.cluster,
        "--user": said.user,
        "--as": said.impersonate,
        "--lease": target.lease,
        "--server": target.server,
        "--certificate-authority": target.ca_file,
    }
    words = [f"{name}={value}" for name, value in flags.items() if value]
    return shlex.join([*words, *(["--aggregated"] if target.aggregated else [])])
