"""Options: what they turn into, and what is wrong with them."""

import pytest

from kscheduler import logs
from kscheduler.api.quantity import parse as quantity
from kscheduler.config.defaults import default_config
from kscheduler.config.feature_gates import FeatureGates
from kscheduler.config.option_checks import logging_problems, problems
from kscheduler.config.options import Options
from kscheduler.gotext.duration import Duration
from kscheduler.plugins import catalog

GATES = FeatureGates.defaults()


def found(**values):
    return problems(Options(**values), GATES)


def warnings(capfd):
    lines = capfd.readouterr().err.splitlines()
    return [line.partition("] ")[2] for line in lines if line.startswith("W")]


def test_defaults_are_fine():
    assert found() == []
    assert logging_problems(Options(), GATES) == []


def test_leader_election_flags_act_only_if_given():
    config = default_config(catalog(), GATES)
    silent = Options(leader_elect=False, leader_elect_lease_duration=Duration.of(60))
    assert silent.with_leader_election(config) == config
    spoken = Options(
        leader_elect=False,
        leader_elect_lease_duration=Duration.of(60),
        leader_elect_resource_name="x",
        given=frozenset({"leader_elect", "leader_elect_resource_name"}),
    )
    election = spoken.with_leader_election(config).leader_election
    assert not election.leader_elect
    assert election.resource_name == "x"
    assert election.lease_duration == Duration.of(15)


def test_deprecated_flags_act_only_if_given():
    config = default_config(catalog(), GATES)
    options = Options(
        profiling=False,
        kube_api_qps=7.5,
        kubeconfig="kc",
        contention_profiling=False,
        given=frozenset({"profiling", "kube_api_qps", "kubeconfig"}),
    )
    changed = options.with_deprecated(config)
    assert not changed.enable_profiling
    assert changed.enable_contention_profiling
    assert changed.client_connection.qps == 7.5
    assert changed.client_connection.kubeconfig == "kc"
    assert changed.client_connection.burst == 100


def test_logging_takes_the_options_of_its_format():
    options = Options(
        logging_format="json",
        v=3,
        log_flush_frequency=Duration.of(1),
        log_json_split_stream=True,
        log_json_info_buffer_size=quantity("1Ki"),
        log_text_info_buffer_size=quantity("5"),
    )
    assert options.logging() == logs.Logging(
        format="json",
        verbosity=3,
        flush_frequency_seconds=1.0,
        split_stream=True,
        info_buffer_bytes=1024,
    )


def test_the_reported_version_may_be_chosen():
    assert Options().reported_version == "v1.37.0-rc.1"
    assert Options(version="v1.37.0+mine").reported_version == "v1.37.0+mine"


@pytest.mark.parametrize(
    ("values", "want"),
    [
        pytest.param(
            {"secure_port": 70000},
            "--secure-port 70000 must be between 1 and 65535, inclusive. "
            "It cannot be turned off with 0",
            id="port too high",
        ),
        pytest.param(
            {"secure_port": -1},
            "--secure-port -1 must be between 0 and 65535, inclusive. "
            "0 for turning off secure port",
            id="port negative",
        ),
        pytest.param(
            {"requestheader_allowed_names": ("a", " ")},
            'empty value in "requestheader-allowed-names"',
            id="blank name",
        ),
        pytest.param(
            {"requestheader_uid_headers": ("x-foo",)},
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid "
            "header - API aggregation will not work",
            id="uid header",
        ),
        pytest.param(
            {"show_hidden_metrics_for_version": "1.35"},
            'metrics.showHiddenMetricsForVersion: Invalid value: "1.35": must be omitted or have '
            "the value '1.36'; only the previous minor version is allowed",
            id="hidden metrics",
        ),
        pytest.param(
            {"disabled_metrics": ("ok", "a-b", "c-d")},
            'metrics.disabledMetrics: Invalid value: ["ok","a-b","c-d"]: must be fully qualified '
            'metric names matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"',
            id="disabled metric",
        ),
        pytest.param(
            {"allow_metric_labels": {"z": "1", "a,b": "2"}},
            'metrics.allowListMapping: Invalid value: {"a,b":"2","z":"1"}: must have keys with '
            "format `metricName,labelName` where metricName matches "
            '"[a-zA-Z_:][a-zA-Z0-9_:]*" and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"',
            id="label key",
        ),
        pytest.param(
            {"plugin_max_failures": -1},
            "--plugin-max-failures -1 must not be negative",
            id="fewer failures than none",
        ),
    ],
)
def test_single_problems(values, want):
    assert found(**values) == [want]


def test_problems_come_in_upstreams_order():
    gates = FeatureGates.from_flags({}, emulated=["1.30"])
    options = Options(
        secure_port=-5,
        requestheader_username_headers=(" ", "x-remote-user"),
        show_hidden_metrics_for_version="1.1",
    )
    texts = problems(options, gates, ["from the default configuration"])
    assert [text.split()[0] for text in texts] == [
        "emulation",
        "minCompatibilityVersion",
        "from",
        "--secure-port",
        "empty",
        "metrics.showHiddenMetricsForVersion:",
    ]


@pytest.mark.parametrize(
    ("field", "flag", "standard"),
    [
        (
            "requestheader_username_headers",
            "requestheader-username-headers",
            "X-Remote-User header",
        ),
        ("requestheader_group_headers", "requestheader-group-headers", "X-Remote-Group header"),
        (
            "requestheader_extra_headers_prefix",
            "requestheader-extra-headers-prefix",
            "X-Remote-Extra- header prefix",
        ),
    ],
)
def test_unusual_proxy_headers_only_warn(capfd, field, flag, standard):
    assert found(**{field: ("x-foo",)}) == []
    assert warnings(capfd) == [
        f"--{flag} is set without specifying the standard {standard} "
        "- API aggregation will not work"
    ]


def test_no_headers_at_all_do_not_warn(capfd):
    assert found(requestheader_group_headers=()) == []
    assert warnings(capfd) == []


def test_uid_headers_need_their_feature():
    gates = GATES.apply({"RemoteRequestHeaderUID": False})
    assert problems(Options(requestheader_uid_headers=("X-Remote-Uid",)), gates) == [
        '--requestheader-uid-headers requires the "RemoteRequestHeaderUID" feature to be enabled'
    ]


class TestManifest:
    def found(self, path):
        prefix = f'metrics.allowListMappingManifest: Invalid value: "{path}": '
        return [text.removeprefix(prefix) for text in found(allow_metric_labels_manifest=str(path))]

    @pytest.mark.parametrize("text", ["", "# nothing\n", "m,l: a,b\nn,l: 1\no,l:\n", "null\n"])
    def test_good_ones(self, tmp_path, text):
        path = tmp_path / "m.yaml"
        path.write_text(text)
        assert self.found(path) == []

    @pytest.mark.parametrize(
        ("text", "want"),
        [
            (
                "just text\n",
                "failed to parse allow list manifest: yaml: unmarshal errors:\n"
                "  line 1: cannot unmarshal !!str `just text` into map[string]string",
            ),
            (
                "a,b: [1]\n",
                "failed to parse allow list manifest: yaml: unmarshal errors:\n"
                "  line 1: cannot unmarshal !!seq into string",
            ),
            (
                "metric: a\n",
                "invalid allow list mapping in manifest: [metrics.allowListMappingManifest: "
                'Invalid value: {"metric":"a"}: must have keys with format '
                "`metricName,labelName` where metricName matches "
                '"[a-zA-Z_:][a-zA-Z0-9_:]*" and labelName matches "[a-zA-Z_][a-zA-Z0-9_]*"]',
            ),
        ],
    )
    def test_bad_ones(self, tmp_path, text, want):
        path = tmp_path / "m.yaml"
        path.write_text(text)
        assert self.found(path) == [want]

    def test_missing_and_doubly_given(self, tmp_path):
        path = tmp_path / "none"
        assert found(allow_metric_labels={"m,l": "a"}, allow_metric_labels_manifest=str(path)) == [
            f'metrics.allowListMappingManifest: Invalid value: "{path}": failed to read allow list '
            f"manifest: open {path}: no such file or directory",
            'metrics: Invalid value: {"allowListMapping":{"m,l":"a"},'
            f'"allowListMappingManifest":"{path}"}}: '
            "cannot specify both allowListMapping and allowListMappingManifest",
        ]
