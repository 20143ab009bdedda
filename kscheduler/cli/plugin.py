"""`kscheduler plugin`: list plugins, and begin one of your own."""

import os
import sys
from collections.abc import Collection
from pathlib import Path

import click

from kscheduler.cli.commands import about
from kscheduler.cli.options import plugin_option
from kscheduler.errors import ConfigError
from kscheduler.extension_points import Point

UNAVAILABLE = "NOT AVAILABLE"


@click.group()
def plugin() -> None:
    """List plugins, and begin one of your own."""


@plugin.command("list", short_help=about("plugin list"))
@plugin_option
@click.pass_context
def list_plugins(ctx: click.Context, specs: tuple[str, ...]) -> None:
    """Print all plugins there are, where each comes from and where it can run.

    STATE tells whether a plugin is on where nothing is configured, or "by name", that is in
    profiles that name it. Exits 1 if a package is installed whose plugin cannot be used.
    """
    from kscheduler.plugins import declarations
    from kscheduler.runtime.out_of_tree.registration import register_available

    in_tree = {one.name: one for one in declarations()}
    try:
        out_of_tree, problems = register_available(specs, in_tree)
    except ConfigError as err:
        click.echo(str(err), err=True)
        ctx.exit(1)
    missing = {name: one.missing for name, one in in_tree.items() if one.plugin_class is None}
    missing |= {name: problem.partition(": ")[2] for name, problem in problems.items()}
    rows = []
    for name, one in in_tree.items():
        state = "on" if one.by_default else "by name"
        if name in missing:
            state = UNAVAILABLE
        rows.append((name, state, "in-tree", _in_order(one.points)))
    for name, registered in out_of_tree.items():
        rows.append((name, "by name", registered.source, _in_order(registered.points)))
    for name, problem in problems.items():
        rows.append((name, UNAVAILABLE, problem.partition(": ")[0], "-"))
    rows = [("NAME", "STATE", "FROM", "EXTENSION POINTS"), *sorted(rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        click.echo("  ".join([*cells, row[3]]))
    for name, why in sorted(missing.items()):
        click.echo(f"{UNAVAILABLE}: {name}: {why}")
    if problems:
        ctx.exit(1)


def _in_order(points: Collection[str]) -> str:
    return ",".join(point for point in Point if point in points)


@plugin.command(short_help=about("plugin new"))
@click.argument("name")
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Where to write it.  [default: a new folder here, named like the plugin]",
)
def new(name: str, folder: Path | None) -> None:
    """Write a package with a plugin called NAME: code, tests, configuration. It works as it is.

    NAME is written SpreadByRack or spread-by-rack.
    """
    from kscheduler.cli.new_plugin import PluginNames, package_files

    try:
        names = PluginNames.of(name)
    except ValueError as err:
        raise click.BadParameter(str(err), param_hint="NAME") from None
    folder = folder or Path(names.package)
    try:
        if folder.exists() and any(folder.iterdir()):
            raise click.ClickException(f"{folder} is not empty; choose another --folder")
        for path, text in package_files(names).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
            click.echo(folder / path)
    except OSError as err:
        raise click.ClickException(f"{err.filename}: {err.strerror}") from err
    steps = [
        f"cd {folder}",
        "pip install -e '.[test]'      # beside kscheduler",
        "pytest",
        "kscheduler sandbox --config scheduler.yaml",
    ]
    if sys.prefix not in (sys.base_prefix, os.environ.get("VIRTUAL_ENV")):
        steps.insert(0, f". {sys.prefix}/bin/activate      # where kscheduler is")
    click.echo("\n  ".join(("\nNext:", *steps)))
