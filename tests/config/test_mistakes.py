"""All mistakes in a file at once, with their places and what Go's words for them mean."""

import pytest

from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.mistakes import MAX_UNREADABLE, find_mistakes
from kscheduler.errors import ConfigError
from kscheduler.plugins import catalog

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def find(text, register=lambda config: {}):
    gates = FeatureGates.defaults()
    return find_mistakes(text.encode(), catalog(), gates=gates, register=register)


def only(text):
    (mistake,) = find(text)
    place = tuple(mistake.place) if mistake.place else None
    return place, mistake.text, mistake.meaning


def test_a_good_file_has_none():
    assert find(HEAD) == []


@pytest.mark.parametrize(
    ("text", "place", "says", "means"),
    [
        pytest.param(
            "a:\n\t- b\n", (2, 1), "cannot start any token", "never by tabs", id="a tab in YAML"
        ),
        pytest.param(
            '{"kind": "x",\n "apiVersion": }', (2, 16), "invalid character", "not JSON", id="JSON"
        ),
        pytest.param("- a\n", (1, 1), "cannot unmarshal array", "must be a mapping", id="a list"),
        pytest.param("a: 1\n", (1, 1), "'Kind' is missing", "begins with apiVersion", id="no kind"),
        pytest.param(
            HEAD.replace("/v1", "/v1beta3"), (1, 1), "no kind", "io/v1 only", id="an old version"
        ),
        pytest.param(
            HEAD.replace("Configuration", "Config"),
            (1, 1),
            "no kind",
            "did you mean kind KubeSchedulerConfiguration?",
            id="a kind misspelled",
        ),
        pytest.param(
            HEAD + "parallelism: 1\nparallelism: 2\n",
            (4, 1),
            'line 4: key "parallelism" already set in map',
            "stands there twice",
            id="a key twice",
        ),
        pytest.param(
            HEAD + "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: {added: {}}\n",
            (6, 12),
            'unknown field "added"',
            "no such field here",
            id="an argument that does not exist",
        ),
        pytest.param(
            HEAD + "profiles:\n- pluginConfig:\n  - name: NodeResourcesFit\n"
            "    args: {ignoredResource: []}\n",
            (6, 12),
            'unknown field "ignoredResource"',
            "did you mean ignoredResources?",
            id="an argument misspelled",
        ),
        pytest.param(
            HEAD + "profiles: [{pluginConfig: [{name: NodeAffinity, args: [1]}]}]\n",
            (3, 49),
            "cannot unmarshal array",
            "must be a mapping",
            id="arguments that are a list",
        ),
        pytest.param(
            HEAD + "podMaxBackoffSeconds: 1.5\n",
            (3, 1),
            "cannot unmarshal number 1.5",
            "a whole number without quotes; it is 1.5",
            id="a fraction",
        ),
        pytest.param(
            HEAD + "leaderElection: {renewDeadline: 10}\n",
            (3, 18),
            "cannot unmarshal number",
            "such as 15s",
            id="a duration without a unit",
        ),
        pytest.param(
            HEAD + "leaderElection: {renewDeadline: '10'}\n",
            (3, 18),
            'time: missing unit in duration "10"',
            "a number with a unit",
            id="a duration in quotes without a unit",
        ),
        pytest.param(
            HEAD + "profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]\n",
            (3, 41),
            'plugin "NodeName" does not extend ScorePlugin plugin',
            "it can be enabled at preFilter, filter",
            id="a plugin at the wrong point",
        ),
        pytest.param(
            HEAD + "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]\n",
            (3, 12),
            "at least one bind plugin is needed",
            "enable DefaultBinder",
            id="a profile that lacks something",
        ),
        pytest.param(
            HEAD + "percentageOfNodesToScore: 101\n",
            (3, 1),
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
            "",
            id="words that are plain enough",
        ),
    ],
)
def test_one_mistake(text, place, says, means):
    at, complaint, meaning = only(text)
    assert at == place
    assert says in complaint
    assert means in meaning
    assert bool(means) == bool(meaning)


def test_values_of_a_wrong_type_hide_nothing_behind_them():
    found = find(
        HEAD
        + """\
parallelism: many
profiles:
- schedulerName: [a]
  percentageOfNodesToScore: 101
  nope: 1
  plugins: {multiPoint: {enabled: [{name: DefaultBindr}, {name: Own, weight: x}]}}
leaderElection: {leaseDuration: 5, retryPeriod: 6}
"""
    )
    assert [tuple(one.place) for one in found] == [
        (3, 1),
        (5, 3),
        (6, 3),
        (7, 3),
        (8, 36),
        (8, 58),
        (8, 70),
        (9, 18),
        (9, 36),
    ]


def test_arguments_that_a_plugin_refuses_hide_behind_nothing():
    found = find(
        HEAD
        + """\
parallelism: -1
profiles:
- schedulerName: a
  plugins: {multiPoint: {enabled: [{name: DefaultBindr}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {ignoredResources: [a/b/c], scoringStrategy: {type: Most}}
- schedulerName: b
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: Least}}
"""
    )
    assert [tuple(one.place) for one in found] == [(3, 1), (6, 36), (9, 31), (9, 57), (13, 30)]
    assert found[-1].text.startswith(
        "initializing profiles: creating profile for scheduler name b: "
        'initializing plugin "NodeResourcesFit": scoringStrategy.type: Unsupported value: "Least"'
    )


def test_the_number_of_values_that_are_looked_at_is_bounded():
    entries = ", ".join("{name: 1}" for _ in range(2 * MAX_UNREADABLE))
    assert len(find(f"{HEAD}extenders: [{{managedResources: [{entries}]}}]\n")) == MAX_UNREADABLE


def test_arguments_that_an_out_of_tree_plugin_refuses_are_placed():
    def refuse(config):
        raise ConfigError("profiles[0].pluginConfig[0].args.limit: Invalid value: 0: too few")

    (mistake,) = find(f"{HEAD}profiles:\n- pluginConfig:\n  - args: {{limit: 0}}\n", refuse)
    assert mistake.place == (5, 12)


@pytest.mark.parametrize(
    "text", ["", "&a {b: *a}", "{\t}", "? [a]\n: b\n", "<<: {a: b}\n" + HEAD, "\0", "a: !!binary x"]
)
def test_odd_files_are_answered(text):
    assert find(text)
