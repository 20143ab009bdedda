"""Options that several sub-commands have."""

import click

from kscheduler.cli.values import MULTIMAP
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.errors import KschedulerError


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
