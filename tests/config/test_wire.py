"""Type errors and strict complaints, field type by field type."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kscheduler.config.model import Extender, ExtenderTLSConfig, KubeSchedulerConfiguration
from kscheduler.config.wire import decode
from kscheduler.gotext.duration import Duration
from kscheduler.gotext.json_text import parse_json
from kscheduler.gotext.unmarshal import UnmarshalError
from kscheduler.plugins.dynamic_resources.args import DynamicResourcesArgs
from kscheduler.plugins.node_affinity.args import NodeAffinityArgs
from kscheduler.plugins.node_resources.args import NodeResourcesFitArgs
from kscheduler.plugins.pod_topology_spread.args import PodTopologySpreadArgs

CONFIG = "KubeSchedulerConfiguration"

MISMATCHES = {
    "string for int32": (
        '{"parallelism": "3"}',
        f"string into Go struct field {CONFIG}.parallelism of type int32",
    ),
    "fraction for int32": (
        '{"parallelism": 1.5}',
        f"number 1.5 into Go struct field {CONFIG}.parallelism of type int32",
    ),
    "exponent for int32": (
        '{"parallelism": 1e2}',
        f"number 1e2 into Go struct field {CONFIG}.parallelism of type int32",
    ),
    "too large for int32": (
        '{"parallelism": -2147483649}',
        f"number -2147483649 into Go struct field {CONFIG}.parallelism of type int32",
    ),
    "too large for int64": (
        '{"podMaxBackoffSeconds": 9223372036854775808}',
        f"number 9223372036854775808 into Go struct field {CONFIG}.podMaxBackoffSeconds"
        " of type int64",
    ),
    "bool for int32": (
        '{"parallelism": true}',
        f"bool into Go struct field {CONFIG}.parallelism of type int32",
    ),
    "an embedded struct is named": (
        '{"enableProfiling": 1}',
        f"number into Go struct field {CONFIG}.DebuggingConfiguration.enableProfiling of type bool",
    ),
    "number for a struct": (
        '{"leaderElection": 3}',
        f"number into Go struct field {CONFIG}.leaderElection"
        " of type v1alpha1.LeaderElectionConfiguration",
    ),
    "too large for float32": (
        '{"clientConnection": {"qps": 1e39}}',
        "number 1e39 into Go struct field ClientConnectionConfiguration.clientConnection.qps"
        " of type float32",
    ),
    "list for a string": (
        '{"clientConnection": {"kubeconfig": []}}',
        "array into Go struct field ClientConnectionConfiguration.clientConnection.kubeconfig"
        " of type string",
    ),
    "object for a list": (
        '{"profiles": {}}',
        f"object into Go struct field {CONFIG}.profiles of type []v1.KubeSchedulerProfile",
    ),
    "string for a list's struct": (
        '{"profiles": [{"plugins": {"score": {"enabled": ["X"]}}}]}',
        "string into Go struct field PluginSet.profiles.plugins.score.enabled of type v1.Plugin",
    ),
    "object for a duration": (
        '{"leaderElection": {"leaseDuration": {}}}',
        "object into Go struct field LeaderElectionConfiguration.leaderElection.leaseDuration"
        " of type string",
    ),
    "number for bytes": (
        '{"extenders": [{"tlsConfig": {"caData": 5}}]}',
        "number into Go struct field ExtenderTLSConfig.extenders.tlsConfig.caData of type []uint8",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISMATCHES.values(), ids=MISMATCHES)
def test_a_wrong_type_is_named_as_go_names_it(text, message):
    with pytest.raises(UnmarshalError) as caught:
        decode(parse_json(text.encode()), KubeSchedulerConfiguration)
    assert str(caught.value) == f"json: cannot unmarshal {message}"


ARGS_MISMATCHES = {
    "named string": (
        NodeResourcesFitArgs,
        '{"scoringStrategy": {"type": 1}}',
        "number into Go struct field ScoringStrategy.scoringStrategy.type"
        " of type v1.ScoringStrategyType",
    ),
    "named string of the core API": (
        PodTopologySpreadArgs,
        '{"defaultConstraints": [{"whenUnsatisfiable": false}]}',
        "bool into Go struct field TopologySpreadConstraint.defaultConstraints.whenUnsatisfiable"
        " of type v1.UnsatisfiableConstraintAction",
    ),
    "value of a map": (
        PodTopologySpreadArgs,
        '{"defaultConstraints": [{"labelSelector": {"matchLabels": {"a": 1}}}]}',
        "number into Go struct field"
        " LabelSelector.defaultConstraints.labelSelector.matchLabels of type string",
    ),
    "list for a map": (
        PodTopologySpreadArgs,
        '{"defaultConstraints": [{"labelSelector": {"matchLabels": []}}]}',
        "array into Go struct field"
        " LabelSelector.defaultConstraints.labelSelector.matchLabels of type map[string]string",
    ),
    "string for a list of strings": (
        NodeResourcesFitArgs,
        '{"ignoredResources": "a"}',
        "string into Go struct field NodeResourcesFitArgs.ignoredResources of type []string",
    ),
    "deep inside an affinity": (
        NodeAffinityArgs,
        '{"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": "x"}]}}',
        "string into Go struct field PreferredSchedulingTerm.addedAffinity."
        "preferredDuringSchedulingIgnoredDuringExecution.weight of type int32",
    ),
}


@pytest.mark.parametrize(("kind", "text", "message"), ARGS_MISMATCHES.values(), ids=ARGS_MISMATCHES)
def test_arguments_name_their_own_types(kind, text, message):
    with pytest.raises(UnmarshalError) as caught:
        decode(parse_json(text.encode()), kind)
    assert str(caught.value) == f"json: cannot unmarshal {message}"


def test_only_the_first_wrong_type_is_told():
    with pytest.raises(UnmarshalError, match=r"profiles\.schedulerName of type string"):
        decode(
            parse_json(b'{"profiles": [{"schedulerName": 1}], "parallelism": "x"}'),
            KubeSchedulerConfiguration,
        )


def test_an_unreadable_duration_takes_precedence_over_an_earlier_wrong_type():
    with pytest.raises(UnmarshalError, match=r'^time: invalid duration "x"$'):
        decode(
            parse_json(b'{"parallelism": "x", "leaderElection": {"retryPeriod": "x"}}'),
            KubeSchedulerConfiguration,
        )


def test_unknown_and_repeated_fields_are_collected_with_their_paths():
    text = b"""{"zeta": 1, "parallelism": 1, "parallelism": 2, "Parallelism": 3,
        "profiles": [{}, {"plugins": {"score": {"x": {"y": 1}}}}], "zeta": 2}"""
    config, complaints = decode(parse_json(text), KubeSchedulerConfiguration)
    assert config.parallelism == 2
    assert complaints == [
        'unknown field "zeta"',
        'duplicate field "parallelism"',
        'unknown field "Parallelism"',
        'unknown field "profiles[1].plugins.score.x"',
    ]


def test_repeated_keys_of_a_map_are_found():
    text = b'{"defaultConstraints": [{"labelSelector": {"matchLabels": {"a": "1", "a": "2"}}}]}'
    _, complaints = decode(parse_json(text), PodTopologySpreadArgs)
    path = "defaultConstraints[0].labelSelector.matchLabels.a"
    assert complaints == [f'duplicate field "{path}"']


def test_complaints_stop_at_a_hundred():
    members = ",".join(f'"f{i}": 1' for i in range(150))
    _, complaints = decode(parse_json(f"{{{members}}}".encode()), KubeSchedulerConfiguration)
    assert len(complaints) == 100


def test_null_counts_as_absent():
    text = b"""{"parallelism": null, "leaderElection": null, "clientConnection": {"qps": null},
        "profiles": null, "delayCacheUntilActive": null, "percentageOfNodesToScore": null}"""
    config, complaints = decode(parse_json(text), KubeSchedulerConfiguration)
    assert (config, complaints) == (KubeSchedulerConfiguration(), [])


def test_null_in_a_list_is_an_empty_entry():
    config, _ = decode(parse_json(b'{"extenders": [null]}'), KubeSchedulerConfiguration)
    assert config.extenders == (Extender(),)


def test_a_null_duration_is_refused_unless_it_is_optional():
    with pytest.raises(UnmarshalError, match=r'^time: invalid duration ""$'):
        decode(parse_json(b'{"httpTimeout": null}'), Extender)
    args, _ = decode(parse_json(b'{"filterTimeout": null}'), DynamicResourcesArgs)
    assert args.filter_timeout is None


def test_floats_are_rounded_to_32_bits():
    text = b'{"clientConnection": {"qps": 16777217.3}}'
    config, _ = decode(parse_json(text), KubeSchedulerConfiguration)
    assert config.client_connection.qps == 16777218.0


def test_the_internal_spelling_has_zeroes_for_defaults():
    text = b'{"Parallelism": 3, "LeaderElection": {"LeaseDuration": "5s"}, "parallelism": 4}'
    config, complaints = decode(parse_json(text), KubeSchedulerConfiguration, internal=True)
    assert (config.parallelism, config.pod_max_backoff_seconds) == (3, 0)
    assert config.leader_election.lease_duration == Duration.of(5)
    assert not config.leader_election.leader_elect
    assert complaints == ['unknown field "parallelism"']


def test_the_internal_spelling_takes_no_arguments():
    text = b'{"Profiles": [{"PluginConfig": [{"Name": "X", "Args": {}}]}]}'
    message = (
        "json: cannot unmarshal object into Go struct field "
        "PluginConfig.Profiles.PluginConfig.Args of type runtime.Object"
    )
    with pytest.raises(UnmarshalError) as caught:
        decode(parse_json(text), KubeSchedulerConfiguration, internal=True)
    assert str(caught.value) == message


BAD_BASE64 = {
    "!": 0,
    "a": 0,
    "ab": 0,
    "abcd!": 4,
    "abc=d": 4,
    "ab=": 3,
    "ab=c": 2,
    "=abc": 0,
    "abcde": 4,
}


@pytest.mark.parametrize(("text", "at"), BAD_BASE64.items())
def test_bad_base64_is_located(text, at):
    with pytest.raises(UnmarshalError, match=f"^illegal base64 data at input byte {at}$"):
        decode(parse_json(f'{{"caData": "{text}"}}'.encode()), ExtenderTLSConfig)


@given(st.binary())
def test_base64_is_read_back_with_or_without_line_breaks(data):
    for text in (base64.b64encode(data), base64.encodebytes(data)):
        escaped = text.decode().replace("\n", "\\r\\n")
        tls, _ = decode(parse_json(f'{{"caData": "{escaped}"}}'.encode()), ExtenderTLSConfig)
        assert tls.ca_data == data


def test_bytes_may_be_a_list_of_numbers():
    tls, _ = decode(parse_json(b'{"caData": [104, 105, null]}'), ExtenderTLSConfig)
    assert tls.ca_data == b"hi\x00"
