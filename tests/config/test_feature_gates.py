"""Feature gates: values, locks, stages, dependencies and emulated releases."""

import pytest

from kscheduler.config.feature_gates import (
    FeatureGates,
    GateState,
    Stage,
    parse_gates,
)
from kscheduler.config.gate_table import NEEDS
from kscheduler.errors import ConfigError

GA_WARNING = "Warning: setting GA feature gate. It will be removed in a future release."


def gates(text, *, emulated=(), min_compatibility=()):
    return FeatureGates.from_flags({"": [text]}, emulated, min_compatibility)


def test_defaults_are_those_of_the_release():
    enabled = FeatureGates.defaults().enabled
    assert enabled("DynamicResourceAllocation")
    assert enabled("SchedulerAsyncPreemption")
    assert not enabled("GenericWorkload")
    assert not enabled("DRAFractionalCapacityRange")


def test_every_gate_has_a_stage_and_defaults_keep_their_dependencies():
    states = FeatureGates.defaults().states()
    assert len(states) == 253
    for name, needed in NEEDS.items():
        if states[name].enabled:
            assert all(states[other].enabled for other in needed), name


def test_an_unknown_name_is_a_bug_of_the_asker():
    with pytest.raises(KeyError):
        FeatureGates.defaults().enabled("Nope")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("A=true,B=false", {"A": True, "B": False}, id="pairs"),
        pytest.param(" A = T , B=0,", {"A": True, "B": False}, id="blanks, short forms, comma"),
        pytest.param("", {}, id="nothing"),
        pytest.param("A=true,A=false", {"A": False}, id="the last value wins"),
    ],
)
def test_parsing(text, want):
    assert parse_gates(text) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("GenericWorkload", "missing bool value for GenericWorkload", id="no value"),
        pytest.param(
            "GenericWorkload=maybe",
            "invalid value of GenericWorkload=maybe, "
            'err: strconv.ParseBool: parsing "maybe": invalid syntax',
            id="no bool",
        ),
        pytest.param("Foo=true", "unrecognized feature gate: Foo", id="unknown"),
        pytest.param(
            "VolumeAttributesClass=false",
            "cannot set feature gate VolumeAttributesClass to false, feature is locked to true",
            id="locked",
        ),
        pytest.param(
            "VolumeAttributesClass=false,NodeDeclaredFeatures=false",
            "[cannot set feature gate VolumeAttributesClass to false, feature is locked to true, "
            "cannot set feature gate NodeDeclaredFeatures to false, feature is locked to true]",
            id="two locked",
        ),
        pytest.param(
            "CompositePodGroup=true",
            "CompositePodGroup is enabled, but depends on features that are disabled: "
            "[GenericWorkload TopologyAwareWorkloadScheduling]",
            id="dependencies",
        ),
        pytest.param(
            "GracefulNodeShutdown=false",
            "[GracefulNodeShutdownBasedOnPodPriority is enabled, but depends on features that are "
            "disabled: [GracefulNodeShutdown], WindowsGracefulNodeShutdown is enabled, but depends "
            "on features that are disabled: [GracefulNodeShutdown]]",
            id="others depend on it",
        ),
    ],
)
def test_refusals(text, want):
    with pytest.raises(ConfigError) as refused:
        gates(text)
    assert str(refused.value) == want


def test_components():
    assert FeatureGates.from_flags({"kube": ["GenericWorkload=true"]}).enabled("GenericWorkload")
    with pytest.raises(ConfigError, match="component not registered: foo"):
        FeatureGates.from_flags({"foo": ["GenericWorkload=true"]})
    with pytest.raises(ConfigError, match="do not mix use"):
        FeatureGates.from_flags({"kube": ["GenericWorkload=true"], "": ["GenericWorkload=true"]})


def test_whole_stages_leave_explicit_values_alone():
    on = gates("AllBeta=true,SchedulerAsyncAPICalls=false")
    assert on.enabled("GenericWorkload")
    assert not on.enabled("SchedulerAsyncAPICalls")
    assert not on.enabled("SchedulerPreQueueingHints")
    off = gates("AllBeta=false")
    assert not off.enabled("SchedulerAsyncPreemption")
    assert off.enabled("DynamicResourceAllocation")


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("DynamicResourceAllocation=true", [f'"{GA_WARNING}"']),
        ("AllowDNSOnlyNodeCSR=true", [f'"{GA_WARNING.replace("GA", "deprecated")}"']),
        ("GenericWorkload=true", []),
    ],
)
def test_setting_a_settled_gate_warns(capfd, text, want):
    gates(text)
    lines = capfd.readouterr().err.splitlines()
    assert [line.partition("] ")[2].partition(" featureGate")[0] for line in lines] == want


def test_an_emulated_release_has_its_own_features():
    old = gates("", emulated=["1.34"])
    assert "DRADerivedAttributes" not in old.states()
    assert old.states()["DRADeviceTaints"] == GateState(Stage.ALPHA, enabled=False)
    with pytest.raises(ConfigError) as refused:
        gates("DRADerivedAttributes=true", emulated=["1.34"])
    assert str(refused.value) == (
        "cannot set feature gate DRADerivedAttributes to true, feature is PreAlpha at emulated "
        "version 1.34, min compatibility version 1.34"
    )


def test_a_stage_may_wait_for_newer_peers():
    assert gates("", min_compatibility=["1.37"]).enabled("DRAFractionalCapacityRange")


@pytest.mark.parametrize(
    ("name", "emulated"),
    [("DRADeviceTaints", ["1.34"]), ("InterPodAffinityHostnameFastPath", [])],
)
def test_alpha_features_warn_in_any_release(capfd, name, emulated):
    assert gates(f"{name}=true", emulated=emulated).validate() == []
    line = capfd.readouterr().err
    assert line.startswith("W")
    assert line.endswith(
        "component has alpha features enabled in emulated version, this is unsupported: "
        f"features=[{name}]\n"
    )


def test_features_beyond_alpha_do_not_warn(capfd):
    assert gates("GenericWorkload=true").validate() == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("emulated", "min_compatibility", "want"),
    [
        pytest.param([], [], [], id="defaults"),
        pytest.param(["1.36"], [], [], id="one back"),
        pytest.param(["kube=1.36"], ["kube = v1.35.0"], [], id="component and forms"),
        pytest.param(
            ["1.30"],
            [],
            [
                "emulation version 1.30 is not between [1.34, 1.37.0-rc.1]",
                "minCompatibilityVersion version 1.34 is not between [1.34, 1.30]",
            ],
            id="too old",
        ),
        pytest.param(
            ["2.0"], [], ["emulation version 2.0 is not between [1.34, 1.37.0-rc.1]"], id="too new"
        ),
        pytest.param(
            ["1.36"],
            ["1.37"],
            ["minCompatibilityVersion version 1.37 is not between [1.34, 1.36]"],
            id="peers newer than we",
        ),
    ],
)
def test_versions_must_lie_in_range(emulated, min_compatibility, want):
    chosen = gates("", emulated=emulated, min_compatibility=min_compatibility)
    assert chosen.validate() == want


@pytest.mark.parametrize(
    ("item", "want"),
    [
        ("abc", 'could not parse "abc" as version'),
        ("1", 'illegal version string "1"'),
        ("01.36", 'illegal zero-prefixed version component "01" in "01.36"'),
        ("1.36.1", "patch version not allowed, got: kube=1.36.1"),
        ("1.36.1-rc.1", "patch version not allowed, got: kube=1.36.1-rc.1"),
        ("1.36.1.2", "patch version not allowed, got: kube=1.36.1.2"),
        ("foo=1.36", "component not registered: foo"),
        (
            "1.99999999999999999999",
            'illegal non-numeric version component "99999999999999999999" in '
            '"1.99999999999999999999": strconv.ParseUint: parsing "99999999999999999999": '
            "value out of range",
        ),
    ],
)
def test_version_refusals(item, want):
    with pytest.raises(ConfigError) as refused:
        gates("", emulated=[item])
    assert str(refused.value) == want


def test_a_version_is_given_once():
    with pytest.raises(ConfigError) as refused:
        gates("", emulated=["1.36", "kube=1.35"])
    assert str(refused.value) == "duplicate version flag, kube=1.36 and kube=1.35"


def test_help_lists_unsettled_gates_only():
    lines = FeatureGates.defaults().descriptions()
    assert "GenericWorkload=true|false (BETA - default=false)" in lines
    assert not any(line.startswith("DynamicResourceAllocation=") for line in lines)
    assert (
        "DRAFractionalCapacityRange=true|false (BETA - default=false), or "
        "DRAFractionalCapacityRange=true|false (BETA - default=true) "
        "if --min-compatibility-version>=1.37"
    ) in lines
