"""The plugins of a profile as the start-up line at verbosity 2 shows them."""

from typing import Any

from kscheduler.config.model import Plugins
from kscheduler.config.profiles import EffectivePlugins
from kscheduler.extension_points import Point


def plugins_value(effective: EffectivePlugins) -> dict[str, Any]:
    """Every point by its Go name, in the order of the configuration's fields."""
    return {_go_name(attr): _plugin_set(effective, attr) for attr in Plugins.model_fields}


def _plugin_set(effective: EffectivePlugins, attr: str) -> dict[str, Any]:
    names = next((effective[point] for point in Point if point.attr == attr), ())
    weights = {
        Point.SCORE.attr: effective.score_weights,
        Point.PLACEMENT_SCORE.attr: effective.placement_score_weights,
    }.get(attr, {})
    enabled = [{"Name": name, "Weight": weights.get(name, 0)} for name in names]
    return {"Enabled": enabled or None, "Disabled": None}


def _go_name(attr: str) -> str:
    return "".join(word.capitalize() for word in attr.split("_"))
