"""The cluster of `kscheduler sandbox` from start to end: API server, kubelets, controllers, a
scenario or manifests, the scheduler, and a view of it all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click
import msgspec

from kscheduler.api.explanation import GROUP, VERSION
from kscheduler.app import setup
from kscheduler.app.signals import stop_on_signals
from kscheduler.cli.asking import TABLE, Failure, Question
from kscheduler.cli.command_line import parse
from kscheduler.cli.explain import explanation_of
from kscheduler.cli.manifests import title
from kscheduler.cli.real_controllers import RealControllers
from kscheduler.cli.sandbox import SandboxOptions, reporting
from kscheduler.cli.sandbox_content import create
from kscheduler.cli.sandbox_view import Audience, Lines, View, commands, introduce
from kscheduler.cli.scenarios.chapters import chapters_of, play
from kscheduler.cli.scenarios.stage import READING_SECONDS, Stage
from kscheduler.cli.scenarios.workload import (
    gpu_workload,
    scheduler_name,
    with_scheduler,
    workload,
)
from kscheduler.cli.workload_outcome import shortfalls
from kscheduler.client.clientcmd.loading_rules import (
    DEFAULT_NAMESPACE,
    Overrides,
    load_client_config,
)
from kscheduler.client.explanation_client import ExplanationClient, Target, reach
from kscheduler.client.transport import user_agent
from kscheduler.private_files import remove_folder, write_private_file
from kscheduler.sandbox import (
    ApiServer,
    ControllerManager,
    Kubelets,
    default_storage_class,
    example_device_classes,
    example_resource_slices,
)
from kscheduler.sandbox.controllers.node_lifecycle import GRACE_SECONDS
from kscheduler.sandbox.kubelets.nodes import RENEW_SECONDS
from kscheduler.sandbox.metadata import seed_names

# Between two objects of the first workload, so that one can follow.
PAUSE_SECONDS = 0.5
# Pods that a kubelet is about to start, or to finish, within this time are waited for by --once.
SOON_SECONDS = 3.0
# make passes a signal on to a process that has got it already.
ECHO_SECONDS = 1.0
# Where somebody watches, a silent kubelet is noticed sooner than on a real cluster; with many
# nodes, renewing their leases so often would cost too much.
WATCHED_GRACE_SECONDS, WATCHED_RENEW_SECONDS, WATCHED_NODES = 10.0, 2.0, 500


async def run_cluster(options: SandboxOptions) -> int:
    """API server, kubelets and controllers; and on them the workload and the scheduler."""
    stop = asyncio.Event()
    with contextlib.ExitStack() as held:
        audience = held.enter_context(Audience.of(wants_board=options.board))

        def before_exit() -> None:
            audience.leave()
            remove_folder(options.folder)

        stop_on_signals(stop.set, echo_seconds=ECHO_SECONDS, hang_up=True, before_exit=before_exit)
        if options.seed is not None:
            seed_names(options.seed)
        return await _run_server(options, audience, stop)


async def _run_server(options: SandboxOptions, audience: Audience, stop: asyncio.Event) -> int:
    api = ApiServer(tls=True)
    try:
        await api.start(port=options.port)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise click.ClickException(f"port {options.port}: {why}") from error
    try:
        with reporting(options.kubeconfig):
            api.write_kubeconfig(options.kubeconfig)
        grace_seconds, renew_seconds = _node_monitoring(options)
        kubelets = Kubelets(api.registry, renew_seconds=renew_seconds)
        kubelets.add_nodes(options.nodes)
        for name in options.content.restore(api):
            kubelets.pause(name)  # of a copied node that is not ready
        await options.content.create_nodes(api)
        if options.gpus:
            _add_gpus(api, options)
        if not options.content.of_kind("StorageClass"):
            api.objects.create(default_storage_class())
        controllers: ControllerManager | RealControllers = (
            ControllerManager(api.registry, node_grace_seconds=grace_seconds)
            if options.controllers is None
            else RealControllers(api, options.controllers, options.folder)
        )
        stage = Stage(
            api.objects,
            audience.tell,
            scheduler_name=scheduler_name(options.config),
            seed=options.seed,
            reading_seconds=0.0 if options.once else READING_SECONDS,
            on_board=options.board,
        )
        async with (
            _running(kubelets.run(), "kubelets"),
            _running(controllers.run(), "controllers"),
        ):
            introduce(
                api.url,
                options.kubeconfig,
                server_only=options.server_only,
                to_stderr=options.repeatable,
            )
            options.content.say = audience.notice
            async with _running(_play(api, stage, options), "workload") as playing:
                if not options.server_only:
                    at_rest = _AtRest(kubelets, controllers)
                    return await _schedule(api, options, stop, audience, stage, playing, at_rest)
                await stop.wait()
                return 0
    finally:
        await api.stop()


def _node_monitoring(options: SandboxOptions) -> tuple[float, float]:
    """Seconds until a silent kubelet is noticed, and between renewals of a node's lease."""
    nodes = options.nodes + len(options.content.of_kind("Node"))
    is_watched = not options.server_only and (
        not options.once or options.scenario in ("tour", "node-failure")
    )
    if is_watched and nodes <= WATCHED_NODES:
        return WATCHED_GRACE_SECONDS, WATCHED_RENEW_SECONDS
    return GRACE_SECONDS, RENEW_SECONDS


def _add_gpus(api: ApiServer, options: SandboxOptions) -> None:
    """Classes and slices of example GPUs; classes that the manifests bring are theirs."""
    brought = {title(manifest) for manifest in options.content.of_kind("DeviceClass")}
    for device_class in example_device_classes():
        if title(device_class) not in brought:
            api.objects.create(device_class)
    for index, node in enumerate(api.objects.list("nodes")):
        for slice_ in example_resource_slices(node["metadata"]["name"], index, options.gpus):
            api.objects.create(slice_)


async def _play(api: ApiServer, stage: Stage, options: SandboxOptions) -> None:
    """Creates the given objects, and then plays the scenario, which begins with a workload."""
    await options.content.create(api)
    if options.scenario == "none":
        return
    stage.title = "A workload"
    stage.say(
        "an agent on every node, a web service, a cache and some batch.",
        "Every decision below says by which scores the node was chosen.",
    )
    manifests = [*workload(api.objects.count("nodes"))]
    if options.gpus and options.scenario == "workload":
        manifests += gpu_workload()
    for manifest in manifests:
        create(api, with_scheduler(manifest, scheduler_name(options.config)))
        await asyncio.sleep(0 if options.once else PAUSE_SECONDS)
    chapters = chapters_of(options.scenario)
    if chapters:
        # Daemons run where they run; the others have a number.
        wanted = {
            one["metadata"]["name"]: one["spec"].get("replicas", 1)
            for one in manifests
            if one["kind"] != "DaemonSet"
        }
        await stage.until(
            lambda: all(stage.count(app, running=True) == pods for app, pods in wanted.items())
        )
        await stage.rest()
    await play(stage, chapters, again=options.board)


class _AtRest:
    """Whether kubelets and controllers have nothing to do, now or in a moment."""

    def __init__(
        self, kubelets: Kubelets, controllers: ControllerManager | RealControllers
    ) -> None:
        self._kubelets = kubelets
        self._controllers = controllers

    def __call__(self) -> bool:
        return self._controllers.is_idle and self._kubelets.is_idle(SOON_SECONDS)


async def _schedule(
    api: ApiServer,
    options: SandboxOptions,
    stop: asyncio.Event,
    audience: Audience,
    stage: Stage,
    playing: asyncio.Task[None],
    at_rest: Callable[[], bool],
) -> int:
    """The scheduler, started as on any cluster, talking to the sandbox over loopback.

    Runs until `stop`, or with --once until nothing moves any more or its time is up.
    """
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
        addresses = {**commands(options.kubeconfig), "log": str(options.folder / "log")}
        page: Callable[[], str] | None = None
        if options.page:
            page = await _serve_page(options, held)
            click.echo(f"page:       {page()}")
        shown = Lines.AT_THE_END if options.repeatable else Lines.AS_IT_HAPPENS
        view = View(daemon.scheduler, Lines.NEVER if options.board else shown)
        in_time = True

        def where() -> dict[str, str]:
            # An address opens the page once, so it is another one each time.
            return addresses | ({"page": page()} if page is not None else {})

        explain = partial(_explain, options.kubeconfig)
        board = audience.board(daemon.scheduler, stage, explain, where, stop.set)
        async with board:
            if options.once:
                try:
                    async with asyncio.timeout(options.timeout):
                        await playing
                        await view.settled(stop)
                        while not (at_rest() or stop.is_set()):
                            await view.settled(stop)
                except TimeoutError:
                    in_time = False
            else:
                await stop.wait()
        code = view.conclude(once=options.once)
        for sentence in shortfalls(api) if options.once else ():
            click.echo(f"  {sentence}")
            code = 1
        if not in_time:
            click.echo(f"not finished after {options.timeout:g} seconds")
        return code if in_time else 1


def _register_explanation_api(api: ApiServer, options: SandboxOptions, port: int) -> list[str]:
    """Have the API server pass kscheduler.dev on to the scheduler; flags to serve it with.

    The scheduler asks the API server who its callers are and what they may, as in any cluster.
    """
    pair = api.aggregator.register(
        GROUP, VERSION, namespace="kube-system", service="kscheduler", port=port
    )
    certificate, key = options.folder / "serving.crt", options.folder / "serving.key"
    with reporting(options.folder):
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


async def _serve_page(
    options: SandboxOptions, held: contextlib.AsyncExitStack
) -> Callable[[], str]:
    """The page of `kscheduler ui` until the end; gives addresses that open it, once each."""
    from kscheduler.ui.reached import ReachedSource
    from kscheduler.ui.server import Server

    source = ReachedSource(
        lambda: _reach(options.kubeconfig, "ui"),
        namespace=DEFAULT_NAMESPACE,
        flags=f"--kubeconfig={options.kubeconfig} --aggregated",
    )
    server = Server(await held.enter_async_context(source))
    await held.enter_async_context(server.serving())
    return lambda: server.address


async def _explain(kubeconfig: Path, namespace: str, name: str) -> Sequence[str]:
    """The answer of `kscheduler explain`, in blocks, asked as that command asks."""
    complaints: list[str] = []
    async with _reach(kubeconfig, "explanation") as client:
        question = Question(client, namespace, TABLE)
        try:
            found = await explanation_of(question, namespace, name, complain=complaints.append)
        except Failure as failure:
            return [failure.format_message()]
    return [*found.blocks, *complaints]


def _reach(
    kubeconfig: Path, agent: str
) -> contextlib.AbstractAsyncContextManager[ExplanationClient]:
    config = load_client_config(Overrides(kubeconfig=str(kubeconfig)))
    target = Target(aggregated=True)
    return reach(config, target, agent=user_agent(agent), timeout_seconds=None)


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
