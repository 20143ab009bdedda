"""`kscheduler config`: look at configuration files without starting anything."""

import sys
from collections.abc import Collection, Sequence

import click

from kscheduler import logs
from kscheduler.cli.values import MULTIMAP
from kscheduler.config.annotate import annotated
from kscheduler.config.defaults import default_config
from kscheduler.config.dump import to_yaml
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.load import StrictError, load_config
from kscheduler.config.profiles import complete
from kscheduler.config.validation import validate as validation_errors
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.extension_points import Point
from kscheduler.gotext import files
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


class GatesType(click.ParamType[FeatureGates]):
    name = "name=bool,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> FeatureGates:
        try:
            return FeatureGates.from_flags(MULTIMAP.read(str(value), None))
        except KschedulerError as err:
            self.fail(str(err), param, ctx)


gates_option = click.option(
    "--feature-gates",
    "gates",
    type=GatesType(),
    default="",
    help="The gates the scheduler runs with; some defaults and rules depend on them.",
)
plugin_option = click.option(
    "--plugin",
    "specs",
    multiple=True,
    metavar="MODULE:CLASS",
    help="A plugin of your own, as for the daemon; installed packages need no option.",
)
file_argument = click.argument("file", type=click.Path())


@config.command("print-defaults")
@gates_option
def print_defaults(gates: FeatureGates) -> None:
    """Print the configuration that an empty file stands for."""
    click.echo(to_yaml(default_config(catalog(), gates)), nl=False)


@config.command()
@file_argument
@gates_option
@plugin_option
@click.pass_context
def validate(ctx: click.Context, file: str, gates: FeatureGates, specs: tuple[str, ...]) -> None:
    """Print every mistake in FILE, in the scheduler's own words; exit 1 if there is one."""
    found = mistakes(file, gates, specs)
    for mistake in found:
        click.echo(f"{file}: {mistake}", err=True)
    if found:
        ctx.exit(1)
    click.echo(f"{file}: valid")


@config.command()
@plugin_option
@click.pass_context
def plugins(ctx: click.Context, specs: tuple[str, ...]) -> None:
    """Print all plugins there are: where each can run, and where out-of-tree ones come from."""
    from kscheduler.runtime.out_of_tree.registration import register_available

    in_tree = catalog().in_tree
    try:
        out_of_tree, problems = register_available(specs, in_tree)
    except ConfigError as err:
        click.echo(str(err), err=True)
        ctx.exit(1)
    rows = [(name, _in_order(one.points), "in-tree") for name, one in in_tree.items()]
    rows += [(name, _in_order(one.points), one.source) for name, one in out_of_tree.items()]
    width = max(len(name) for name, _, _ in rows)
    for name, points, source in sorted(rows):
        click.echo(f"{name.ljust(width)}  {points}  ({source})")
    for problem in problems:
        click.echo(problem, err=True)
    if problems:
        ctx.exit(1)


def _in_order(points: Collection[str]) -> str:
    return ",".join(point for point in Point if point in points)


@config.command()
@file_argument
@gates_option
@click.pass_context
def show(ctx: click.Context, file: str, gates: FeatureGates) -> None:
    """Print FILE completed; what was filled in is dim on a terminal, else marked `# default`."""
    try:
        lines = annotated(files.read(file), catalog(), gates=gates)
    except ConfigError as err:
        click.echo(f"{file}: {err}", err=True)
        ctx.exit(1)
    if not sys.stdout.isatty():
        click.echo("\n".join(map(str, lines)))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text(line.text, style="dim" if line.is_default else "bold"))


def mistakes(file: str, gates: FeatureGates, specs: Sequence[str] = ()) -> Sequence[str]:
    """Mistakes in a file; one that cannot be read hides those that validation would find."""
    from kscheduler.runtime.out_of_tree.registration import register_configured

    known = catalog()
    try:
        loaded = load_config(files.read(file), known, gates=gates)
        if found := validation_errors(loaded, known, gates):
            return [str(error) for error in found]
        logs.configure(logs.Logging(), stderr=_Silence())
        out_of_tree = register_configured(loaded, {}, specs, known.in_tree)
        complete(loaded, known.including(out_of_tree.values()), gates=gates)
    except StrictError as err:
        return err.complaints
    except ConfigError as err:
        return [str(err)]
    return []
