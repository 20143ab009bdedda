"""The scheduler itself, `kscheduler run` or no command at all: from flags to the exit code."""

import gc
import platform
import re
from collections.abc import Mapping, Sequence
from typing import Any

import click

from kscheduler import logs
from kscheduler.api.field_errors import aggregate
from kscheduler.cli.command_line import UsageError, parse
from kscheduler.cli.commands import COMMANDS
from kscheduler.cli.usage import PROGRAM, daemon_help, terminal_columns, usage_text
from kscheduler.config.option_checks import logging_problems
from kscheduler.errors import KschedulerError
from kscheduler.gotext.strconv import quote
from kscheduler.suggestions import nearest
from kscheduler.version import KUBERNETES_VERSION, __version__

log = logs.logger(__name__)

NO_PLUGIN = re.compile(r'\w+Plugin "(?P<name>[^"]+)" does not exist')


def run_daemon(args: Sequence[str], plugins: Mapping[str, Any] | None = None) -> int:
    """Runs until it is told to stop or fails; the exit code is kube-scheduler's."""
    try:
        options, extra = parse(args)
    except UsageError as err:
        click.echo(usage_text(terminal_columns()), err=True)
        click.echo(f"Error: {err}", err=True)
        if err.meant:
            click.echo(f"Did you mean {err.meant}?", err=True)
        return 1
    if options.help:
        click.echo(daemon_help(terminal_columns()), nl=False)
        return 0
    if any(extra):
        got = " ".join(map(quote, extra))
        click.echo(f'Error: "{PROGRAM}" does not take any arguments, got [{got}]', err=True)
        known = ("--help", "--version", *(line.split()[0] for line in COMMANDS))
        if near := nearest(extra[0], known):
            click.echo(f"Did you mean kscheduler {near}?", err=True)
        return 1
    try:
        gates = options.gates()
        if options.version in ("true", "raw"):
            click.echo(version_text(options.version))
            return 0
        if problems := logging_problems(options, gates):
            click.echo(aggregate(problems), err=True)
            return 1
        logs.configure(options.logging())
        for name, text in options.texts.items():
            log.v(1).text_info(f"FLAG: --{name}={quote(text)}")
        # Modules are no garbage. The app lets the collector run when there is something for it.
        gc.disable()
        # Here, so that --help and --version load neither numpy nor a client.
        from kscheduler import app

        return app.main(options, gates, plugins=plugins or {})
    except KschedulerError as err:
        near = _nearest_plugin(str(err))
        log.error(err, "command failed", **({"hint": f"did you mean {near}?"} if near else {}))
        return 1


def _nearest_plugin(complaint: str) -> str:
    """The plugin that was meant where a complaint says that there is none of the name given."""
    found = NO_PLUGIN.search(complaint)
    if found is None:
        return ""
    # Here, so that no other answer waits for numpy.
    from kscheduler.plugins import catalog
    from kscheduler.runtime.out_of_tree.registration import installed

    return nearest(found["name"], [*catalog().in_tree, *(entry.name for entry in installed())])


class Daemon(click.Command):
    """A command whose arguments are read by pflag's rules, not by click's."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The daemon's flags as click sees them, for shell completion."""
        from kscheduler.cli.completion import parameters

        return parameters()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        ctx.obj = args
        return []


@click.command(cls=Daemon, add_help_option=False)
@click.pass_context
def run(ctx: click.Context, /, **_flags: Any) -> None:
    """Run the scheduler, with kube-scheduler's flags."""
    ctx.exit(run_daemon(ctx.obj))


def version_text(form: str) -> str:
    """--version, or --version=raw with Python's facts under Go's labels.

    kube-scheduler's own words come first: scripts take the second one for its release.
    """
    if form == "true":
        return (
            f"Kubernetes {KUBERNETES_VERSION} (kscheduler {__version__} in place of kube-scheduler)"
        )
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    facts = {
        "Major": major,
        "Minor": minor,
        "EmulationMajor": "",
        "EmulationMinor": "",
        "MinCompatibilityMajor": "",
        "MinCompatibilityMinor": "",
        "GitVersion": KUBERNETES_VERSION,
        "GitCommit": f"kscheduler-{__version__}",
        "GitTreeState": "",
        "BuildDate": "",
        "GoVersion": f"python{platform.python_version()}",
        "Compiler": platform.python_implementation(),
        "Platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    return f"version.Info{{{', '.join(f'{key}:{quote(v)}' for key, v in facts.items())}}}"
