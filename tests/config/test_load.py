"""From bytes to a completed configuration, and what is said about bytes that are not one."""

import pytest

from kscheduler.config.load import load_config, load_config_file
from kscheduler.config.plugin_args import RawArgs
from kscheduler.errors import ConfigError
from kscheduler.gotext.duration import Duration
from kscheduler.plugins import catalog
from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinityArgs

GROUP = "kubescheduler.config.k8s.io"
SCHEME = 'in scheme "pkg/scheduler/apis/config/scheme/scheme.go:29"'
NO_STRUCT = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)
NO_KIND_YET = "couldn't get version/kind; json parse error: json: cannot unmarshal"
DOCUMENTS = {
    "empty": ("", "Object 'Kind' is missing in ''"),
    "no kind": (
        f"apiVersion: {GROUP}/v1\n",
        f"Object 'Kind' is missing in 'apiVersion: {GROUP}/v1\n'",
    ),
    "no version": ("kind: X\n", "Object 'apiVersion' is missing in 'kind: X\n'"),
    "group without version": (
        "kind: X\napiVersion: g/\n",
        "Object 'apiVersion' is missing in 'kind: X\napiVersion: g/\n'",
    ),
    "old version": (
        f"kind: KubeSchedulerConfiguration\napiVersion: {GROUP}/v1beta3",
        'no kind "KubeSchedulerConfiguration" is registered for version '
        f'"{GROUP}/v1beta3" {SCHEME}',
    ),
    "unknown internal kind": (
        f"kind: X\napiVersion: {GROUP}/__internal",
        f'no kind "X" is registered for the internal version of group "{GROUP}" {SCHEME}',
    ),
    "too many slashes": ("kind: X\napiVersion: a/b/c", "unexpected GroupVersion string: a/b/c"),
    "a list": ("[1]", f"{NO_KIND_YET} array into Go value of type {NO_STRUCT}"),
    "a number": ("5", f"{NO_KIND_YET} number into Go value of type {NO_STRUCT}"),
    "kind is no string": (
        "kind: 5\napiVersion: []",
        f"{NO_KIND_YET} array into Go struct field .apiVersion of type string",
    ),
    "arguments instead": (
        f"kind: InterPodAffinityArgs\napiVersion: {GROUP}/v1",
        f"couldn't decode as KubeSchedulerConfiguration, got {GROUP}/v1, "
        "Kind=InterPodAffinityArgs: ",
    ),
    "arguments instead, and wrong ones": (
        f"kind: InterPodAffinityArgs\napiVersion: {GROUP}/v1\nfoo: 1",
        'strict decoding error: unknown field "foo"',
    ),
    "broken JSON": (
        '{"kind": }',
        "couldn't get version/kind; json parse error: "
        "invalid character '}' looking for beginning of value",
    ),
    "broken YAML": ("a: [", "yaml: line 1: did not find expected node content"),
}


@pytest.mark.parametrize(("text", "message"), DOCUMENTS.values(), ids=DOCUMENTS)
def test_a_document_that_is_no_configuration_is_refused(text, message, gates):
    with pytest.raises(ConfigError) as caught:
        load_config(text.encode(), catalog(), gates=gates)
    assert str(caught.value) == message


def test_kind_is_found_without_regard_to_case_and_then_refused_as_a_field(gates):
    text = f"KIND: KubeSchedulerConfiguration\nApiVersion: {GROUP}/v1\n"
    with pytest.raises(ConfigError) as caught:
        load_config(text.encode(), catalog(), gates=gates)
    assert str(caught.value) == (
        'strict decoding error: unknown field "ApiVersion", unknown field "KIND"'
    )


def entry(args: str, name: str = "InterPodAffinity") -> str:
    return f"profiles:\n- pluginConfig:\n  - name: {name}\n    args: {args}\n"


PLACE = "decoding .profiles[0].pluginConfig[0]: "
ARGS = {
    "unknown field": (
        "{foo: 1, bar: 2}",
        f"strict decoding error: {PLACE}strict decoding error: decoding args for plugin "
        'InterPodAffinity: strict decoding error: unknown field "bar", unknown field "foo"',
    ),
    "wrong type": (
        "{hardPodAffinityWeight: x}",
        f"{PLACE}decoding args for plugin InterPodAffinity: json: cannot unmarshal string into Go "
        "struct field InterPodAffinityArgs.hardPodAffinityWeight of type int32",
    ),
    "another kind": (
        "{kind: NodeAffinityArgs}",
        f"{PLACE}args for plugin InterPodAffinity were not of type "
        f"InterPodAffinityArgs.{GROUP}, got NodeAffinityArgs.{GROUP}",
    ),
    "another version": (
        f"{{apiVersion: {GROUP}/v2}}",
        f"{PLACE}decoding args for plugin InterPodAffinity: no kind "
        f'"InterPodAffinityArgs" is registered for version "{GROUP}/v2" {SCHEME}',
    ),
    "a group without version": (
        "{apiVersion: <g>/}",
        f"{PLACE}decoding args for plugin InterPodAffinity: "
        "Object 'apiVersion' is missing in '{\"apiVersion\":\"\\u003cg\\u003e/\"}'",
    ),
    "a string": (
        "abc",
        f"{PLACE}decoding args for plugin InterPodAffinity: "
        f"{NO_KIND_YET} string into Go value of type {NO_STRUCT}",
    ),
}


@pytest.mark.parametrize(("args", "message"), ARGS.values(), ids=ARGS)
def test_arguments_are_read_as_strictly_as_the_rest(args, message, load):
    with pytest.raises(ConfigError) as caught:
        load(entry(args))
    assert str(caught.value) == message


def test_strict_complaints_wait_for_everything_else(load):
    with pytest.raises(ConfigError) as caught:
        load("foo: 1\nparallelism: 1\nparallelism: 2\n" + entry("{bar: 1}"))
    assert str(caught.value) == (
        'strict decoding error: yaml: unmarshal errors:\n  line 5: key "parallelism" already set '
        f'in map, unknown field "foo", {PLACE}strict decoding error: decoding args for plugin '
        'InterPodAffinity: strict decoding error: unknown field "bar"'
    )


@pytest.mark.parametrize("args", ["null", "{}", f"{{apiVersion: {GROUP}/v1}}"])
def test_arguments_left_out_are_the_default_ones(args, load):
    (config, *_) = load(entry(args)).profiles[0].plugin_config
    assert config.args == InterPodAffinityArgs()


def test_arguments_in_the_internal_spelling_are_read(load):
    args = f"{{apiVersion: {GROUP}/__internal, HardPodAffinityWeight: 7}}"
    (config, *_) = load(entry(args)).profiles[0].plugin_config
    assert config.args == InterPodAffinityArgs(hard_pod_affinity_weight=7)


def test_arguments_of_other_plugins_stay_as_they_are(load):
    (config, *_) = load(entry("{b: [1, 2.50], a: x}", name="Mine")).profiles[0].plugin_config
    assert config.args == RawArgs(text='{"a":"x","b":[1,2.5]}')
    assert config.args.value == {"a": "x", "b": [1, 2.5]}


def test_json_is_read_and_complained_about_in_file_order(gates):
    text = (
        f'\n {{"apiVersion": "{GROUP}/v1", "zeta": 1, "kind": "KubeSchedulerConfiguration",'
        ' "alpha": 2, "parallelism": 1, "parallelism": 2}'
    )
    with pytest.raises(ConfigError) as caught:
        load_config(text.encode(), catalog(), gates=gates)
    assert str(caught.value) == (
        'strict decoding error: unknown field "zeta", unknown field "alpha", '
        'duplicate field "parallelism"'
    )


def test_the_internal_version_gets_no_defaults(gates):
    text = f"kind: KubeSchedulerConfiguration\napiVersion: {GROUP}/__internal\nParallelism: 2\n"
    config = load_config(text.encode(), catalog(), gates=gates)
    assert (config.parallelism, config.profiles) == (2, ())
    assert config.leader_election.lease_duration == Duration(0)
    assert config.api_version == f"{GROUP}/__internal"


def test_files_that_cannot_be_read_are_named(tmp_path, gates):
    missing, plain = tmp_path / "missing", tmp_path / "plain"
    plain.touch()
    problems = {
        str(missing): f"open {missing}: no such file or directory",
        str(tmp_path): f"read {tmp_path}: is a directory",
        str(plain / "x"): f"open {plain}/x: not a directory",
    }
    for path, message in problems.items():
        with pytest.raises(ConfigError) as caught:
            load_config_file(path, catalog(), gates=gates)
        assert str(caught.value) == message


def test_defaults_are_filled_in_before_strict_complaints_are_raised(gates, capfd):
    text = f"""
kind: KubeSchedulerConfiguration
apiVersion: {GROUP}/v1
foo: 1
profiles: [{{plugins: {{multiPoint: {{enabled: [{{name: ImageLocality, weight: 3}}]}}}}}}]
"""
    with pytest.raises(ConfigError, match='strict decoding error: unknown field "foo"'):
        load_config(text.encode(), catalog(), gates=gates)
    assert '"Default plugin is explicitly re-configured; overriding"' in capfd.readouterr().err
