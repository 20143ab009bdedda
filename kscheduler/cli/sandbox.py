"""`kscheduler sandbox`: an embedded cluster, and the scheduler at work on it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec

from kscheduler import logs
from kscheduler.cli.manifests import Manifest, read_manifests
from kscheduler.cli.scenarios import SCENARIOS
from kscheduler.errors import KschedulerError
from kscheduler.logs.stream import FileStream
from kscheduler.private_files import private_folder
from kscheduler.suggestions import nearest

if TYPE_CHECKING:
    from kscheduler.cli.sandbox_content import Content

DEFAULT_NODES = 6
MAX_NODES = 20_000
MAX_GPUS = 8  # of a node


class SandboxOptions(msgspec.Struct, frozen=True):
    """The flags of the command, with the files they name read."""

    nodes: int
    gpus: int
    content: Content
    # One of `scenarios.SCENARIOS`.
    scenario: str
    # Whether it is shown by the board, or else by lines.
    board: bool
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
    # kube-controller-manager, in place of the sandbox's own controllers.
    controllers: Path | None = None

    @property
    def repeatable(self) -> bool:
        """Whether standard output is to be the same each time, byte for byte. Scenarios tell a
        story, whose lines come when something happens.
        """
        return self.once and self.seed is not None and self.scenario in ("none", "workload")


def _scenario(ctx: click.Context, param: click.Parameter, name: str | None) -> str | None:
    """A name of a scenario; `list` prints them and ends."""
    if name == "list":
        width = max(map(len, SCENARIOS)) + 2
        click.echo("\n".join(f"{one:<{width}}{about}" for one, about in SCENARIOS.items()))
        ctx.exit()
    if name is not None and name not in SCENARIOS:
        near = nearest(name, SCENARIOS)
        hint = f" Did you mean {near}?" if near else ""
        known = ", ".join(SCENARIOS)
        raise click.BadParameter(f"there is no scenario {name!r}.{hint} There are {known}.")
    return name


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
    help="Manifests to apply instead of a scenario, or dumps of `kubectl get -o yaml`: files, "
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
    "--controllers",
    default="builtin",
    show_default=True,
    metavar="builtin|real|FILE",
    help="Who makes pods of workloads: the sandbox's own controllers, or kube-controller-manager, "
    "found on PATH or named by its file.",
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
    "--scenario",
    default=None,
    metavar="NAME",
    callback=_scenario,
    help="What happens by itself; `list` tells what there is.  [default: tour; workload with "
    "--once; none with -f, --from-cluster or --server-only]",
)
@click.option(
    "--seed",
    type=int,
    default=None,
    metavar="NUMBER",
    help="Make chance repeatable: names, and choices among equally good nodes. With --once, "
    "standard output is the same each time, byte for byte.",
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
    config: str,
    plugins: Sequence[str],
    controllers: str,
    port: int,
    kubeconfig: Path | None,
    server_only: bool,
    page: bool,
    once: bool,
    timeout: float,
    scenario: str | None,
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
    from kscheduler.cli.real_controllers import find_program

    program = find_program(controllers)
    if plugins:
        _check_plugins(plugins)
    if config:
        _check_config(config, plugins)
    content = _read_content(nodes_files, filenames, context, validation)
    if nodes is None:
        nodes = 0 if content.of_kind("Node") else DEFAULT_NODES
    if scenario is None:
        is_given = bool(filenames) or context is not None
        scenario = "none" if is_given or server_only else "workload" if once else "tour"
    board = wants_board(once=once, server_only=server_only)
    with _unwound_by_signals(), _folder() as folder, _log_apart(verbosity, folder, board=board):
        options = SandboxOptions(
            nodes=nodes,
            gpus=gpus,
            content=content,
            scenario=scenario,
            board=board,
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
            controllers=program,
        )
        sys.exit(run(options))


def wants_board(*, once: bool, server_only: bool) -> bool:
    """Whether the terminal is taken as a whole: not for an answer that is to be read later."""
    is_able = sys.stdout.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return is_able and not (once or server_only)


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
    content = Content([*live, *nodes, *manifests], validation=validation)
    content.refuse_unknown_fields()
    return content


def _check_config(file: str, plugins: Sequence[str]) -> None:
    """Mistakes are told with their lines, and before a cluster is started for nothing."""
    from kscheduler.cli.config import complaints
    from kscheduler.config.feature_gates import FeatureGates

    if found := complaints(file, FeatureGates.defaults(), plugins):
        raise click.ClickException("\n".join(found))


def _check_plugins(specs: Sequence[str]) -> None:
    """A plugin that cannot be used is told before a cluster is started for nothing."""
    from kscheduler.plugins import catalog
    from kscheduler.runtime.out_of_tree.registration import register

    try:
        register({}, specs, (), catalog().in_tree)
    except KschedulerError as error:
        raise click.ClickException(str(error)) from error


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
def _log_apart(verbosity: int, folder: Path, *, board: bool) -> Iterator[None]:
    """The scheduler's log: in a file while the board is on the terminal, else on standard error,
    where only errors and warnings are shown unless more is asked for.
    """
    settings = logs.Logging(verbosity=verbosity)
    if not board:
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
    with reporting(path):
        file = path.open("w")
    with file:
        click.echo(f"log:        {path}")
        logs.configure(settings, stderr=FileStream(file.fileno()))
        try:
            yield
        finally:
            logs.configure(settings)  # writes the rest, and leaves the file to be closed


@contextlib.contextmanager
def reporting(path: Path) -> Iterator[None]:
    """A file that cannot be written is reported by its name."""
    try:
        yield
    except OSError as error:
        raise click.ClickException(f"{path}: {error.strerror}") from error


def run(options: SandboxOptions) -> int:
    """Runs the cluster to its end; what ends a group of tasks is reported as if there were none."""
    import uvloop

    from kscheduler.cli.sandbox_cluster import run_cluster

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
