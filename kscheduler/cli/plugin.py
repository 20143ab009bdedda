"""`kscheduler plugin`: list plugins, and begin one of your own."""

import click


@click.group()
def plugin() -> None:
    """List plugins, and begin one of your own."""
