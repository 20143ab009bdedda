"""`kscheduler config`: look at configuration files without starting anything."""

import sys
from collections.abc import Sequence

import click

from kscheduler import logs
from kscheduler.cli.commands import about
from kscheduler.cli.options import gates_option, plugin_option
from kscheduler.config.annotate import annotated
from kscheduler.config.defaults import default_config
from kscheduler.config.dump import to_yaml
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import load_config
from kscheduler.config.mistakes import Mistake, find_mistakes
from kscheduler.errors import ConfigError
from kscheduler.gotext.files import read
from kscheduler.plugins import catalog


class _Silence:
    """Building a profile comments on what it does; here only mistakes matter."""

    def write(self, line: bytes) -> None:
        pass

    def flush(self) -> None:
        pass


@click.group()
def config() -> None:
    """Look at configuration files without starting anything."""


file_argument = click.argument("file", type=click.Path())


@config.command("print-defaults", short_help=about("config print-defaults"))
@gates_option
def print_defaults(gates: FeatureGates) -> None:
    """Print the configuration that an empty file stands for."""
    click.echo(to_yaml(default_config(catalog(), gates)), nl=False)


@config.command(short_help=about("config validate"))
@click.argument("files", type=click.Path(), nargs=-1, required=True, metavar="FILE...")
@gates_option
@plugin_option
@click.pass_context
def validate(
    ctx: click.Context, files: tuple[str, ...], gates: FeatureGates, specs: tuple[str, ...]
) -> None:
    """Print every mistake in these files; exit 1 if there is one.

    Each is told as file:line:column in the scheduler's own words, and below in plainer ones if
    those are Go's.
    """
    failed = False
    for file in files:
        found = complaints(file, gates, specs)
        failed |= bool(found)
        for line in found:
            click.echo(line, err=True)
        if not found:
            click.echo(f"{file}: valid")
    if failed:
        ctx.exit(1)


@config.command(short_help=about("config show"))
@file_argument
@gates_option
@click.pass_context
def show(ctx: click.Context, file: str, gates: FeatureGates) -> None:
    """Print FILE completed; what was filled in is dim on a terminal, else marked `# default`."""
    try:
        lines = annotated(read(file), catalog(), gates=gates)
    except ConfigError as err:
        _echo_why_unreadable(file, err, gates)
        ctx.exit(1)
    if not sys.stdout.isatty():
        click.echo("\n".join(map(str, lines)))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line.text, style="dim" if line.is_default else "bold"))


@config.command(short_help=about("config diff"))
@click.argument("old", type=click.Path(), metavar="OLD")
@click.argument("new", type=click.Path(), metavar="NEW")
@gates_option
@plugin_option
@click.pass_context
def diff(
    ctx: click.Context, old: str, new: str, gates: FeatureGates, specs: tuple[str, ...]
) -> None:
    """Print what NEW does differently from OLD; exit 1 if it does, 2 if one cannot be read.

    Both are completed first: spelling out a default is no difference.
    """
    from kscheduler.config.difference import differences
    from kscheduler.runtime.out_of_tree.registration import register_configured

    logs.configure(logs.Logging(), stderr=_Silence())
    known = catalog()
    loaded = []
    for file in (old, new):
        try:
            loaded.append(load_config(read(file), catalog(), gates=gates))
            plugins = register_configured(loaded[-1], {}, specs, catalog().in_tree)
            known = known.including(plugins.values())
            lines = list(differences(loaded[0], loaded[-1], known))
        except ConfigError as err:
            _echo_why_unreadable(file, err, gates, specs)
            ctx.exit(2)
    for line in lines:
        click.echo(line)
    ctx.exit(1 if lines else 0)


def _echo_why_unreadable(
    file: str, error: ConfigError, gates: FeatureGates, specs: Sequence[str] = ()
) -> None:
    """All mistakes in a file that could not be read, as `validate` tells them."""
    for line in complaints(file, gates, specs) or [f"{file}: {error}"]:
        click.echo(line, err=True)


def complaints(file: str, gates: FeatureGates, specs: Sequence[str] = ()) -> list[str]:
    """Mistakes in a file as lines: each with its place, and below it what Go's words mean."""
    logs.configure(logs.Logging(), stderr=_Silence())
    lines = []
    for mistake in mistakes(file, gates, specs):
        place = f":{mistake.place.line}:{mistake.place.column}" if mistake.place else ""
        lines.append(f"{file}{place}: {mistake.text}")
        if mistake.meaning:
            lines.append(f"    {mistake.meaning}")
    return lines


def mistakes(file: str, gates: FeatureGates, specs: Sequence[str] = ()) -> Sequence[Mistake]:
    """Mistakes in a file, that it cannot be read among them."""
    from kscheduler.runtime.out_of_tree.registration import register_configured

    known = catalog()
    try:
        text = read(file)
    except ConfigError as err:
        return [Mistake(str(err))]
    return find_mistakes(
        text,
        known,
        gates=gates,
        register=lambda config: register_configured(config, {}, specs, known.in_tree),
    )
