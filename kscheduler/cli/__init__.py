"""The command line: flags in, exit codes out.

`kscheduler` alone is the daemon and takes kube-scheduler's flags by pflag's rules (`command_line`),
because manifests and scripts written for kube-scheduler must work unchanged; `kscheduler run` is
the same. A first word naming another sub-command goes there instead, and there click's own rules
hold. Anything else that is not a flag is refused as kube-scheduler refuses it. `--help` alone lists
the commands; beside other flags it is the daemon's.

Sub-commands are imported when they are called: `kscheduler --help` loads neither numpy nor a
client.
"""

import atexit
import importlib
import importlib.util
import os
import sys
from typing import Any

import click

from kscheduler import logs

SUBCOMMANDS = {
    "config": "kscheduler.cli.config",
    "explain": "kscheduler.cli.explain",
    "pending": "kscheduler.cli.pending",
    "plugin": "kscheduler.cli.plugin",
    "run": "kscheduler.cli.daemon",
    "sandbox": "kscheduler.cli.sandbox",
    "ui": "kscheduler.cli.ui",
    "what-if": "kscheduler.cli.what_if",
    "why-not": "kscheduler.cli.explain",
}
# Settings that libraries read when they are imported.
LIBRARY_SETTINGS = {
    # Numpy's threads for linear algebra, of which there is none here, spin for 0.1 s at start.
    "OPENBLAS_NUM_THREADS": "1",
    # Plugins of pydantic, which it would look for in every package that is installed.
    "PYDANTIC_DISABLE_PLUGINS": "__all__",
}


class Kscheduler(click.Group):
    """The daemon, unless the first argument says otherwise."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name, module in SUBCOMMANDS.items() if importlib.util.find_spec(module)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(SUBCOMMANDS[cmd_name])
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)
        return command

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The daemon's flags as click sees them, for shell completion; no other command waits for
        them to be made.
        """
        if not ctx.resilient_parsing:
            return []
        from kscheduler.cli.completion import parameters

        return parameters()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing or (args and args[0] in self.list_commands(ctx)):
            return super().parse_args(ctx, args)
        ctx.obj = args
        return []


@click.group(cls=Kscheduler, invoke_without_command=True, add_help_option=False)
@click.pass_context
def kscheduler(ctx: click.Context, /, **_flags: Any) -> None:
    if ctx.invoked_subcommand is not None:
        return
    if ctx.obj in (["--help"], ["-h"]):
        from kscheduler.cli.commands import commands_help

        click.echo(commands_help(), nl=False)
    else:
        from kscheduler.cli.daemon import run_daemon

        ctx.exit(run_daemon(ctx.obj))


def program() -> None:
    """`main` as the program `kscheduler`, which ends at once: a replacement may be waiting.

    Threads that still import modules or ask a name server hold nothing that has to be ended in
    order, and memory need not be tidied up when all of it goes.
    """
    try:
        main()
    except SystemExit as end:
        atexit._run_exitfuncs()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else int(end.code is not None))


def main(args: list[str] | None = None, **extra: Any) -> None:
    """Ends the process; the one place where an outcome becomes an exit code."""
    _run(kscheduler, args, "kscheduler", **extra)


def kubectl_why(args: list[str] | None = None) -> None:
    """`kubectl why` is `kscheduler explain`: kubectl runs the program `kubectl-why` for it."""
    from kscheduler.cli.explain import explain

    _run(explain, args, "kubectl why")


def kubectl_whatif(args: list[str] | None = None) -> None:
    """`kubectl whatif` is `kscheduler what-if`."""
    from kscheduler.cli.what_if import what_if

    _run(what_if, args, "kubectl whatif")


def _run(command: click.Command, args: list[str] | None, name: str, **extra: Any) -> None:
    _keep_standard_descriptors()
    for setting, value in LIBRARY_SETTINGS.items():
        os.environ.setdefault(setting, value)
    try:
        command.main(args, prog_name=name, **extra)
    finally:
        logs.flush()
        sys.stdout.flush()


def _keep_standard_descriptors() -> None:
    """A closed stderr stays ours: or else the next socket gets its number, and our log lines."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
