"""`kscheduler sandbox`: an embedded cluster, and the scheduler at work on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import click
import msgspec

from kscheduler import logs
from kscheduler.cli.manifests import Manifest, read_manifests, title
from kscheduler.errors import KschedulerError
from kscheduler.logs.stream import FileStream
from kscheduler.private_files import private_folder, remove_folder, write_private_file

if TYPE_CHECKING:
    from kscheduler.cli.sandbox_content import Content
    from kscheduler.sandbox import ApiServer, ControllerManager, Kubelets

DEFAULT_NODES = 6
MAX_NODES = 20_000
MAX_GPUS = 8  # of a node
# Between two objects of the demo, so that one can follow.
DEMO_PAUSE_SECONDS = 0.5
# Pods that a kubelet is about to start, or to finish, within this time are waited for by --once.
SOON_SECONDS = 3.0
# make passes a signal on to a process that has got it already.
ECHO_SECONDS = 1.0


class SandboxOptions(msgspec.Struct, frozen=True):
    """The flags of the command, with the files they name read."""

    nodes: int
    gpus: int
    content: Content
    demo: bool
    config: str
    plugins: Sequence[str]
    port: int
    kubeconfig: Path
    # Private to this run, and removed at its end.
    folder: Path
    server_only: bool
    page: bool
    once: bool
    timeout: float
    seed: int | None = None


@click.command()
@click.option(
    "--nodes",
    type=click.IntRange(0, MAX_NODES),
    default=None,
    help="How many nodes to simulate.  [default: 6, or none if nodes are given otherwise]",
)
@click.option(
    "--nodes-file",
    "nodes_files",
    multiple=True,
    metavar="FILE",
    help="Nodes to use instead of --nodes, as manifests or as `kubectl get nodes -o yaml` shows "
    "them; repeatable.",
)
@click.option(
    "--from-cluster",
    "context",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="[CONTEXT]",
    help="Begin with a copy of a live cluster, that of your kubeconfig's current context or of "
    "another one. It is only read.",
)
@click.option(
    "--gpus",
    type=click.IntRange(0, MAX_GPUS),
    default=0,
    show_default=True,
    help="Example GPUs of each node: two models in turn, the second one partitionable.",
)
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    metavar="FILE",
    help="Manifests to apply instead of the demo, or dumps of `kubectl get -o yaml`: files, "
    "folders, or - for standard input; repeatable.",
)
@click.option(
    "--validate",
    "validation",
    type=click.Choice(("strict", "warn", "ignore")),
    default="strict",
    show_default=True,
    help="What becomes of manifests with unknown fields, as in kubectl.",
)
@click.option(
    "--demo/--no-demo",
    default=None,
    help="Run the small mixed workload; the default unless -f or --server-only is given.",
)
@click.option(
    "--config", default="", metavar="FILE", help="KubeSchedulerConfiguration for the scheduler."
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A plugin of your own, as for the daemon; repeatable.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API server on 127.0.0.1; 0 takes any free one.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="Where to write the kubeconfig, to be kept.  [default: a folder of its own, removed at "
    "the end]",
)
@click.option(
    "--server-only",
    is_flag=True,
    help="Only the cluster; start a scheduler of your own against it.",
)
@click.option(
    "--page/--no-page",
    default=True,
    help="Serve the page of `kscheduler ui` and print its address; not with --once.",
)
@click.option(
    "--once",
    is_flag=True,
    help="End when every pod has been dealt with: exit 0 if all are placed, 1 with the "
    "reasons if not.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.1),
    default=120.0,
    show_default=True,
    help="With --once: seconds to wait at most.",
)
@click.option(
    "--seed",
    type=int,
    default=None,
    metavar="NUMBER",
    help="Make chance repeatable: names, uids, and choices among equally good nodes.",
)
@click.option(
    "-v",
    "verbosity",
    type=click.IntRange(min=0),
    default=0,
    help="Verbosity of the scheduler's log on standard error.",
)
def sandbox(
    *,
    nodes: int | None,
    nodes_files: Sequence[str],
    context: str | None,
    gpus: int,
    filenames: Sequence[str],
    validation: str,
    demo: bool | None,
    config: str,
    plugins: Sequence[str],
    port: int,
    kubeconfig: Path | None,
    server_only: bool,
    page: bool,
    once: bool,
    timeout: float,
    seed: int | None,
    verbosity: int,
) -> None:
    """Run an embedded cluster and watch pods being placed on it.

    \b
    The API server is real enough for kubectl:
        kscheduler sandbox --nodes 10
        kubectl --kubeconfig FILE get pods -o wide       (FILE is printed at start)
        kubectl --kubeconfig FILE get decisions          why each pod is where it is

    Simulated kubelets run what is bound to their nodes. Nothing is kept after the end.
    """
    if once and server_only:
        raise click.UsageError("--once needs a scheduler; leave out --server-only")
    content = _read_content(nodes_files, filenames, context, validation)
    if nodes is None:
        nodes = 0 if content.of_kind("Node") else DEFAULT_NODES
    with _unwound_by_signals(), _folder() as folder, _log_beside_picture(verbosity, folder):
        options = SandboxOptions(
            nodes=nodes,
            gpus=gpus,
            content=content,
            demo=_wants_demo(
                demo=demo, given=bool(filenames) or context is not None, server_only=server_only
            ),
            config=config,
            plugins=plugins,
            port=port,
            kubeconfig=kubeconfig or folder / "kubeconfig",
            folder=folder,
            server_only=server_only,
            page=page and not once,
            once=once,
            timeout=timeout,
            seed=seed,
        )
        sys.exit(run(options))


def _read_content(
    nodes_files: Sequence[str], filenames: Sequence[str], context: str | None, validation: str
) -> Content:
    """All objects that were given, before anything starts."""
    from kscheduler.cli.sandbox_content import Content

    nodes, manifests = read_manifests(nodes_files), read_manifests(filenames)
    if nodes_files and not any(one["kind"] == "Node" for one in nodes):
        raise click.ClickException(f"{', '.join(nodes_files)}: there are no nodes in it")
    live: list[Manifest] = []
    if context is not None:
        from kscheduler.cli.live_cluster import read_live_cluster

        live = read_live_cluster(context, click.echo)
    return Content([*live, *nodes, *manifests], validation=validation)


def _wants_demo(*, demo: bool | None, given: bool, server_only: bool) -> bool:
    return demo if demo is not None else not (given or server_only)


@contextlib.contextmanager
def _unwound_by_signals() -> Iterator[None]:
    """Signals that would end the process at once raise SystemExit instead, so that nothing stays
    behind. While the event loop runs, they are the loop's.
    """

    def exit_by_signal(number: int, frame: FrameType | None) -> NoReturn:
        sys.exit(128 + number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is signal.SIG_DFL:
            signal.signal(number, exit_by_signal)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(private_folder("kscheduler-sandbox-"))
        except OSError as error:
            raise click.ClickException(f"temporary folder: {error.strerror}") from error
        yield folder


@contextlib.contextmanager
def _log_beside_picture(verbosity: int, folder: Path) -> Iterator[None]:
    """The scheduler's log: in a file while a picture is on the terminal, else on standard error,
    where only errors and warnings are shown unless more is asked for.
    """
    settings = logs.Logging(verbosity=verbosity)
    if not sys.stdout.isatty():
        if verbosity:
            logs.configure(settings)
            yield
            return
        with open(os.devnull, "wb") as nowhere:
            apart = msgspec.structs.replace(settings, split_stream=True)
            logs.configure(apart, stdout=FileStream(nowhere.fileno()))
            try:
                yield
            finally:
                logs.configure(settings)
        return
    path = folder / "log"
    with _reporting(path):
        file = path.open("w")
    with file:
        click.echo(f"log:        {path}")
        logs.configure(settings, stderr=FileStream(file.fileno()))
        try:
            yield
        finally:
            logs.configure(settings)  # writes the rest, and leaves the file to be closed


@contextlib.contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """A file that cannot be written is reported by its name."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error


def run(options: SandboxOptions) -> int:
    """Runs the cluster to its end; what ends a group of tasks is reported as if there were none."""
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run_cluster(options))
    except ExceptionGroup as group:
        error: Exception = group
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if isinstance(error, KschedulerError):
            error = click.ClickException(str(error))
        raise error from group
    finally:
        # All that is left is tidying up: not to be cut short by the echo of a signal.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)


async def run_cluster(options: SandboxOptions) -> int:
    """API server, kubelets and controllers; and on them the workload and the scheduler."""
    from kscheduler.app.signals import stop_on_signals
    from kscheduler.cli.sandbox_view import introduce
    from kscheduler.cli.workload_outcome import shortfalls
    from kscheduler.sandbox import ApiServer, ControllerManager, Kubelets, default_storage_class
    from kscheduler.sandbox.metadata import seed_names

    stop = asyncio.Event()
    stop_on_signals(
        stop.set,
        echo_seconds=ECHO_SECONDS,
        hang_up=True,
        before_exit=lambda: remove_folder(options.folder),
    )
    if options.seed is not None:
        seed_names(options.seed)
    api = ApiServer(tls=True)
    try:
        await api.start(port=options.port)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise click.ClickException(f"port {options.port}: {why}") from error
    try:
        with _reporting(options.kubeconfig):
            api.write_kubeconfig(options.kubeconfig)
        kubelets = Kubelets(api.registry)
        kubelets.add_nodes(options.nodes)
        for name in options.content.restore(api):
            kubelets.pause(name)  # of a copied node that is not ready
        await options.content.create_nodes(api)
        if options.gpus:
            _add_gpus(api, options)
        if not options.content.of_kind("StorageClass"):
            api.objects.create(default_storage_class())
        controllers = ControllerManager(api.registry)
        async with (
            _running(kubelets.run(), "kubelets"),
            _running(controllers.run(), "controllers"),
        ):
            introduce(api.url, options.kubeconfig, server_only=options.server_only)
            async with _running(apply_manifests(api, options), "workload") as applying:
                if not options.server_only:
                    at_rest = _AtRest(kubelets, controllers)
                    missing = partial(shortfalls, api)
                    return await schedule(api, options, stop, applying, at_rest, missing)
                await stop.wait()
                return 0
    finally:
        await api.stop()


def _add_gpus(api: ApiServer, options: SandboxOptions) -> None:
    """Classes and slices of example GPUs; classes that the manifests bring are theirs."""
    from kscheduler.sandbox import example_device_classes, example_resource_slices

    brought = {title(manifest) for manifest in options.content.of_kind("DeviceClass")}
    for device_class in example_device_classes():
        if title(device_class) not in brought:
            api.objects.create(device_class)
    for index, node in enumerate(api.objects.list("nodes")):
        for slice_ in example_resource_slices(node["metadata"]["name"], index, options.gpus):
            api.objects.create(slice_)


async def apply_manifests(api: ApiServer, options: SandboxOptions) -> None:
    """Creates the given objects, or the demo's slowly enough to watch."""
    from kscheduler.cli.demo import gpu_workload, scheduler_name, with_scheduler, workload
    from kscheduler.cli.sandbox_content import create

    await options.content.create(api)
    if options.demo:
        nodes = api.objects.count("nodes")
        name = scheduler_name(options.config)
        for manifest in (*workload(nodes), *(gpu_workload() if options.gpus else ())):
            create(api, with_scheduler(manifest, name))
            await asyncio.sleep(0 if options.once else DEMO_PAUSE_SECONDS)


class _AtRest:
    """Whether kubelets and controllers have nothing to do, now or in a moment."""

    def __init__(self, kubelets: Kubelets, controllers: ControllerManager) -> None:
        self._kubelets = kubelets
        self._controllers = controllers

    def __call__(self) -> bool:
        return self._controllers.is_idle and self._kubelets.is_idle(SOON_SECONDS)


async def schedule(
    api: ApiServer,
    options: SandboxOptions,
    stop: asyncio.Event,
    applying: asyncio.Task[None],
    at_rest: Callable[[], bool],
    shortfalls: Callable[[], Iterable[str]],
) -> int:
    """The scheduler, started as on any cluster, talking to the sandbox over loopback.

    Runs until `stop`, or with --once until nothing moves any more or its time is up.
    """
    from kscheduler.app import setup
    from kscheduler.cli.command_line import parse
    from kscheduler.cli.sandbox_view import View

    flags = ["--leader-elect=false"]
    flags.append(f"--config={options.config}" if options.config else "--kube-api-qps=-1")
    flags += (f"--plugin={spec}" for spec in options.plugins)
    async with contextlib.AsyncExitStack() as held:
        flags += _register_explanation_api(api, options, held.enter_context(_reserved_port()))
        parsed, _ = parse(flags)
        # An empty mapping of labels is one nobody has to be warned of.
        daemon_options = msgspec.structs.replace(parsed, allow_metric_labels={})
        daemon = await held.enter_async_context(
            setup(daemon_options, daemon_options.gates(), kubeconfig=str(options.kubeconfig))
        )
        await held.enter_async_context(_running(daemon.run(), "scheduler"))
        if options.seed is not None:
            daemon.scheduler.rng.seed(options.seed)
        if options.page:
            click.echo(f"page:       {await _serve_page(options, held)}")
        view = View(daemon.scheduler)
        in_time = True
        async with view.shown():
            if options.once:
                try:
                    async with asyncio.timeout(options.timeout):
                        await applying
                        await view.settled(stop)
                        while not (at_rest() or stop.is_set()):
                            await view.settled(stop)
                except TimeoutError:
                    in_time = False
            else:
                await stop.wait()
        code = view.conclude(once=options.once)
        for sentence in shortfalls() if options.once else ():
            click.echo(f"  {sentence}")
            code = 1
        if not in_time:
            click.echo(f"not finished after {options.timeout:g} seconds")
        return code if in_time else 1


def _register_explanation_api(api: ApiServer, options: SandboxOptions, port: int) -> list[str]:
    """Have the API server pass kscheduler.dev on to the scheduler; flags to serve it with.

    The scheduler asks the API server who its callers are and what they may, as in any cluster.
    """
    from kscheduler.api.explanation import GROUP, VERSION

    pair = api.aggregator.register(
        GROUP, VERSION, namespace="kube-system", service="kscheduler", port=port
    )
    certificate, key = options.folder / "serving.crt", options.folder / "serving.key"
    with _reporting(options.folder):
        write_private_file(certificate, pair.certificate)
        write_private_file(key, pair.key)
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--permit-port-sharing",
        f"--tls-cert-file={certificate}",
        f"--tls-private-key-file={key}",
        f"--authentication-kubeconfig={options.kubeconfig}",
        f"--authorization-kubeconfig={options.kubeconfig}",
    ]


async def _serve_page(options: SandboxOptions, held: contextlib.AsyncExitStack) -> str:
    """The page of `kscheduler ui` until the end; the address that opens it."""
    from kscheduler.client.clientcmd.loading_rules import Overrides, load_client_config
    from kscheduler.client.explanation_client import Target, reach
    from kscheduler.client.transport import user_agent
    from kscheduler.ui.reached import ReachedSource
    from kscheduler.ui.server import Server

    config = load_client_config(Overrides(kubeconfig=str(options.kubeconfig)))
    target, agent = Target(aggregated=True), user_agent("ui")
    source = ReachedSource(
        lambda: reach(config, target, agent=agent, timeout_seconds=None),
        namespace=config.namespace,
        flags=f"--kubeconfig={options.kubeconfig} --aggregated",
    )
    server = Server(await held.enter_async_context(source))
    await held.enter_async_context(server.serving())
    return server.address


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """A port on loopback that is free, and that no other program is given meanwhile."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@contextlib.asynccontextmanager
async def _running(work: Coroutine[Any, Any, Any], name: str) -> AsyncIterator[asyncio.Task[Any]]:
    """Work that ends with the block, and whose failure ends the block."""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(work, name=name)
        try:
            yield task
        finally:
            task.cancel()
