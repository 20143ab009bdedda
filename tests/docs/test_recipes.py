"""The recipes of CONTRIBUTING: the plugin there works as it stands."""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec.structs import replace

from kscheduler.api.field_errors import Path as FieldPath
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.framework.cycle_state import CycleState
from tests.kit.clusters import make_handle
from tests.kit.objects import make_node
from tests.plugins.machines import UNRESOLVABLE, rejected
from tests.plugins.topologies import make_cluster, make_pod

PAGE = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


@pytest.fixture(scope="module")
def recipe():
    """What the example defines."""
    (source,) = re.findall(r"^ +```python\n(.*?)^ +```", PAGE, re.DOTALL | re.MULTILINE)
    names = {"__name__": "node_age"}
    exec(dedent(source), names)
    return names


def created(name, at):
    node = make_node(name)
    metadata = replace(node.metadata, creation_timestamp=f"1970-01-01T00:{at}Z")
    return replace(node, metadata=metadata)


def test_the_plugin_rejects_young_nodes_and_counts_them(recipe):
    handle, args = make_handle(), recipe["NodeAgeArgs"](min_seconds=60)
    old, young = created("old", "00:00"), created("young", "01:00")
    plugin = recipe["NodeAge"](args, handle, wall_clock=lambda: 90.0)
    assert rejected(plugin, make_pod(), make_cluster([old, young]), CycleState()) == {
        "young": (UNRESOLVABLE, "node(s) were too young")
    }
    family = handle.metrics.families["kscheduler_node_age_rejected_total"]
    assert family.labels().value == 1


def test_the_plugin_checks_its_arguments(recipe):
    args = recipe["NodeAgeArgs"](min_seconds=-1)
    (error,) = args.errors(FieldPath("args"), FeatureGates.defaults())
    assert str(error) == "args.minSeconds: Invalid value: -1: must not be negative"
