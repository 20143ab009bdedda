"""The files in config/ work as they are."""

from pathlib import Path

import pytest

from kscheduler.config.load import load_config_file
from kscheduler.config.profiles import complete
from kscheduler.config.validation import validate
from kscheduler.extension_points import Point
from kscheduler.plugins import catalog

EXAMPLES = Path(__file__).parents[2] / "config"


def completed(name, gates):
    config = load_config_file(str(EXAMPLES / name), catalog(), gates=gates)
    assert validate(config, catalog(), gates) == []
    return complete(config, catalog(), gates=gates)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_examples_can_be_started_beside_the_cluster_s_own_scheduler(path, gates):
    config = completed(path.name, gates).config
    assert config.leader_election.resource_name == "kscheduler"
    assert "default-scheduler" not in {profile.scheduler_name for profile in config.profiles}


def test_binpacking_scores_by_fullness(gates):
    plugins = completed("binpacking.yaml", gates).plugins["kscheduler"]
    assert plugins[Point.SCORE][0] == "NodeResourcesFit"
    assert max(plugins.score_weights, key=plugins.score_weights.get) == "NodeResourcesFit"


def test_the_headroom_profile_asks_its_plugin_where_pods_fit(gates):
    plugins = completed("headroom.yaml", gates).plugins["kscheduler"]
    assert plugins[Point.FILTER][-1] == "NodeHeadroom"


def test_the_batch_profile_neither_preempts_nor_spreads(gates):
    plugins = completed("two-profiles.yaml", gates).plugins["kscheduler-batch"]
    assert plugins[Point.SCORE] == ("NodeResourcesFit",)
    assert plugins[Point.POST_FILTER] == ("DynamicResources",)


def test_the_extender_s_resource_is_left_to_it(gates):
    config = completed("extender.yaml", gates).config
    (fit,) = (e.args for e in config.profiles[0].plugin_config if e.name == "NodeResourcesFit")
    assert fit.ignored_resources == ("example.com/gpu",)
