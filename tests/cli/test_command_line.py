"""pflag's rules: forms of flags, repetition, refusals."""

import pytest

from kscheduler.api.quantity import parse as quantity
from kscheduler.cli.command_line import UsageError, parse
from kscheduler.cli.flags import GROUPS, OWN, all_flags
from kscheduler.config.options import CertKey, Options
from kscheduler.gotext.duration import Duration


def value(*args, of):
    return getattr(parse(args)[0], of)


def refusal(*args):
    with pytest.raises(UsageError) as refused:
        parse(args)
    return str(refused.value)


def test_no_arguments_are_the_defaults():
    options, extra = parse([])
    assert extra == []
    assert options.given == frozenset()
    assert all(getattr(options, flag.field) == flag.default for flag in all_flags())


def test_groups_stand_in_kube_schedulers_order_and_flags_by_name():
    assert list(GROUPS) == [
        "Misc",
        "Secure serving",
        "Authentication",
        "Authorization",
        "Deprecated",
        "Leader election",
        "Feature gate",
        "Metrics",
        "Logs",
        "Global",
        OWN,
    ]
    for flags in GROUPS.values():
        assert [flag.name for flag in flags] == sorted(flag.name for flag in flags)


@pytest.mark.parametrize(
    ("args", "field", "want"),
    [
        pytest.param(["--config=a"], "config", "a", id="equals"),
        pytest.param(["--config", "a"], "config", "a", id="next argument"),
        pytest.param(["--config", "--master"], "config", "--master", id="whatever comes next"),
        pytest.param(["--config="], "config", "", id="empty"),
        pytest.param(["--config=a", "--config=b"], "config", "b", id="last one wins"),
        pytest.param(["--leader-elect"], "leader_elect", True, id="bare bool"),
        pytest.param(["--leader-elect=false"], "leader_elect", False, id="bool with value"),
        pytest.param(["--leader_elect=F"], "leader_elect", False, id="underscore"),
        pytest.param(["-v2"], "v", 2, id="short, joined"),
        pytest.param(["-v=2"], "v", 2, id="short, equals"),
        pytest.param(["-v", "2"], "v", 2, id="short, next argument"),
        pytest.param(["--v=2"], "v", 2, id="long name of a short flag"),
        pytest.param(["-hv3"], "v", 3, id="run of short flags"),
        pytest.param(["-test.v", "--v=1"], "v", 1, id="go test's flags are ignored"),
        pytest.param(["--secure-port=0x10"], "secure_port", 16, id="hexadecimal"),
        pytest.param(["--kube-api-qps=11.5"], "kube_api_qps", 11.5, id="float"),
        pytest.param(["--bind-address=::ffff:1.2.3.4"], "bind_address", "1.2.3.4", id="mapped IP"),
        pytest.param(["--bind-address="], "bind_address", "0.0.0.0", id="no IP keeps the default"),
        pytest.param(
            ["--leader-elect-lease-duration=1m"],
            "leader_elect_lease_duration",
            Duration.of(60),
            id="duration",
        ),
        pytest.param(
            ["--authorization-always-allow-paths=/a", "--authorization-always-allow-paths=/b,/c"],
            "authorization_always_allow_paths",
            ("/a", "/b", "/c"),
            id="lists replace the default, then grow",
        ),
        pytest.param(
            ["--tls-curve-preferences=23,0x1d"], "tls_curve_preferences", (23, 29), id="numbers"
        ),
        pytest.param(
            ["--allow-metric-labels=m,l=a", "--allow-metric-labels=n,l=b"],
            "allow_metric_labels",
            {"m,l": "a", "n,l": "b"},
            id="maps grow",
        ),
        pytest.param(
            ['--allow-metric-labels="m,l=a,b","n,l=c"'],
            "allow_metric_labels",
            {"m,l": "a,b", "n,l": "c"},
            id="quoted pairs",
        ),
        pytest.param(
            ["--feature-gates= A = true , kube:B=1", "--feature-gates=C=0"],
            "feature_gates",
            {"": ("A = true", "C=0"), "kube": ("B=1",)},
            id="gates by component",
        ),
        pytest.param(
            ["--vmodule=a=1,", "--vmodule=b*=2"], "vmodule", (("a", 1), ("b*", 2)), id="vmodule"
        ),
        pytest.param(
            ["--tls-sni-cert-key=a.crt, a.key", "--tls-sni-cert-key=b.crt,b.key: x , y"],
            "tls_sni_cert_key",
            (CertKey("a.crt", "a.key"), CertKey("b.crt", "b.key", ("x", "y"))),
            id="certificates by host",
        ),
        pytest.param(
            ["--log-text-info-buffer-size=1Ki"],
            "log_text_info_buffer_size",
            quantity("1Ki"),
            id="quantity",
        ),
        pytest.param(["--version"], "version", "true", id="bare version"),
        pytest.param(["--version=v1.37.0-rc.1"], "version", "v1.37.0-rc.1", id="our version"),
        pytest.param(["--version=v1.37.0+mine"], "version", "v1.37.0+mine", id="another build"),
    ],
)
def test_values(args, field, want):
    assert value(*args, of=field) == want


def test_other_arguments_may_stand_anywhere_and_after_two_dashes():
    options, extra = parse(["a", "-v=1", "-", "--", "--config=x"])
    assert (options.v, extra) == (1, ["a", "-", "--config=x"])
    assert options.config == ""


def test_given_names_what_was_said_even_if_it_is_the_default():
    assert parse(["--leader_elect=true", "-v0"])[0].given == {"leader_elect", "v"}


def test_texts_show_every_flag_as_pflag_prints_it():
    texts = parse(
        [
            "--allow-metric-labels=b,l=1",
            "--feature-gates=kube:A=true,B=false",
            "--tls-sni-cert-key=c,k:n",
            '--tls-cipher-suites="a,b",c',
            "--log-json-info-buffer-size=1024Ki",
            "--leader-elect-retry-period=90s",
            "--kube-api-qps=1e6",
        ]
    )[0].texts
    assert list(texts) == sorted(flag.name for flag in all_flags())
    assert texts["allow-metric-labels"] == '["b,l=1"]'
    assert texts["feature-gates"] == ":B=false,kube:A=true"
    assert texts["tls-sni-cert-key"] == "[c,k:n]"
    assert texts["tls-cipher-suites"] == '["a,b",c]'
    assert texts["log-json-info-buffer-size"] == "1Mi"
    assert texts["leader-elect-retry-period"] == "1m30s"
    assert texts["kube-api-qps"] == "1e+06"
    assert texts["leader-elect"] == "true"


@pytest.mark.parametrize(
    ("args", "want"),
    [
        (["--foo"], "unknown flag: --foo"),
        (["--foo_bar=1"], "unknown flag: --foo_bar"),
        (["-x"], "unknown shorthand flag: 'x' in -x"),
        (["-x=5"], "unknown shorthand flag: 'x' in -x=5"),
        (["-'"], r"unknown shorthand flag: '\'' in -'"),
        (["-é"], "unknown shorthand flag: 'Ã' in -é"),
        (["--config"], "flag needs an argument: --config"),
        (["--write_config_to"], "flag needs an argument: --write_config_to"),
        (["-v"], "flag needs an argument: 'v' in -v"),
        (["--=x"], "bad flag syntax: --=x"),
        (["---x"], "bad flag syntax: ---x"),
    ],
)
def test_what_cannot_be_read(args, want):
    assert refusal(*args) == want


@pytest.mark.parametrize(
    ("flag", "text", "why"),
    [
        ("v", "-1", 'strconv.ParseUint: parsing "-1": invalid syntax'),
        ("v", "4294967296", 'strconv.ParseUint: parsing "4294967296": value out of range'),
        ("secure-port", "abc", 'strconv.ParseInt: parsing "abc": invalid syntax'),
        (
            "kube-api-burst",
            "9999999999",
            'strconv.ParseInt: parsing "9999999999": value out of range',
        ),
        ("kube-api-qps", "fast", 'strconv.ParseFloat: parsing "fast": invalid syntax'),
        ("leader-elect", "maybe", 'strconv.ParseBool: parsing "maybe": invalid syntax'),
        ("leader-elect-lease-duration", "5", 'time: missing unit in duration "5"'),
        ("bind-address", "fe80::1%eth0", 'failed to parse IP: "fe80::1%eth0"'),
        ("bind-address", "01.2.3.4", 'failed to parse IP: "01.2.3.4"'),
        ("tls-curve-preferences", "23,", 'strconv.ParseInt: parsing "": invalid syntax'),
        ("tls-sni-cert-key", "foo", "expected comma separated certificate and key file paths"),
        ("tls-sni-cert-key", "a,b:", "empty names list is not allowed"),
        ("allow-metric-labels", "abc", "abc must be formatted as key=value"),
        ("allow-metric-labels", "m,l=a,n,l=b", "m must be formatted as key=value"),
        ("vmodule", "abc", '"abc" does not have the pattern=N format'),
        (
            "vmodule",
            "a=-1",
            'parsing verbosity in "a=-1": strconv.ParseUint: parsing "-1": invalid syntax',
        ),
        (
            "log-text-info-buffer-size",
            "much",
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        ("version", "junk", 'strconv.ParseBool: parsing "junk": invalid syntax'),
        ("version", "v1.37", 'illegal version string "v1.37"'),
        ("version", "vx", 'could not parse "vx" as version'),
        (
            "version",
            "v1.37.1",
            'version "v1.37.1" must match major/minor/patch of default version "v1.37.0-rc.1"',
        ),
        (
            "disabled-metrics",
            'a"b',
            'parse error on line 1, column 2: bare " in non-quoted-field',
        ),
    ],
)
def test_values_that_are_refused(flag, text, why):
    shown = "-v, --v" if flag == "v" else f"--{flag}"
    quoted = text.replace('"', '\\"')
    assert refusal(f"--{flag}={text}") == f'invalid argument "{quoted}" for "{shown}" flag: {why}'


def test_options_have_a_field_for_every_flag_and_no_more():
    others = {"given", "texts"}
    assert {flag.field for flag in all_flags()} == set(Options.__struct_fields__) - others
