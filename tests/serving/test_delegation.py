"""Whom to ask about callers, and what is said when there is nobody."""

import pytest

from kscheduler.config.options import Options
from kscheduler.errors import ConfigError
from kscheduler.serving.delegation import delegated_authentication, delegated_authorization

NO_CLIENT_CA = (
    "No authentication-kubeconfig provided in order to lookup client-ca-file in "
    "configmap/extension-apiserver-authentication in kube-system, "
    "so client certificate authentication won't work."
)
NO_PROXY_CA = (
    "No authentication-kubeconfig provided in order to lookup requestheader-client-ca-file in "
    "configmap/extension-apiserver-authentication in kube-system, "
    "so request-header client certificate authentication won't work."
)
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: ""}}]
current-context: c
"""


@pytest.fixture(autouse=True)
def _outside_a_cluster(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


def warnings(capfd):
    return [line.partition("] ")[2] for line in capfd.readouterr().err.splitlines()]


def refusal(function, **values):
    with pytest.raises(ConfigError) as refused:
        function(Options(**values))
    return str(refused.value)


def test_without_anyone_to_ask_it_says_what_will_not_work(capfd):
    authentication = delegated_authentication(Options())
    authorization = delegated_authorization(Options())
    assert authentication.server is authorization.server is None
    assert authorization.always_allowed == ("healthz", "readyz", "livez")
    assert warnings(capfd) == [
        NO_CLIENT_CA,
        NO_PROXY_CA,
        "No authorization-kubeconfig provided, "
        "so SubjectAccessReview of authorization tokens won't work.",
    ]


def test_skipping_the_lookup_is_silent(capfd):
    delegated_authentication(Options(authentication_skip_lookup=True))
    assert warnings(capfd) == []


def test_local_authorities_replace_the_lookup(capfd, tmp_path, pair):
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes(pair[0])
    path = str(bundle)
    made = delegated_authentication(Options(client_ca_file=path, requestheader_client_ca_file=path))
    assert made.client_ca.current(0.0).pem == bundle.read_bytes()
    assert made.request_header_ca.current(0.0).pem == bundle.read_bytes()
    assert not made.reads_config_map
    assert warnings(capfd) == []


def test_kubeconfigs_are_read(capfd, tmp_path):
    file = tmp_path / "kc"
    file.write_text(KUBECONFIG)
    made = delegated_authentication(Options(authentication_kubeconfig=str(file)))
    assert made.server.server == "http://127.0.0.1:1"
    made = delegated_authorization(Options(authorization_kubeconfig=str(file)))
    assert made.server.server == "http://127.0.0.1:1"
    assert warnings(capfd) == []


def test_refusals(tmp_path):
    empty = tmp_path / "empty"
    empty.write_text("")
    text = tmp_path / "text"
    text.write_text("x")
    gone = "/nonexistent/kc"
    missing = f"stat {gone}: no such file or directory"
    unwrapped = "failed to get delegated authentication kubeconfig"
    assert refusal(delegated_authentication, authentication_kubeconfig=gone) == (
        f"{unwrapped}: {unwrapped}: {missing}"
    )
    assert refusal(delegated_authorization, authorization_kubeconfig=gone) == (
        f"failed to get delegated authorization kubeconfig: {missing}"
    )
    assert refusal(delegated_authentication, client_ca_file=gone) == (
        f"unable to load client CA provider: open {gone}: no such file or directory"
    )
    assert refusal(delegated_authentication, client_ca_file=str(empty)) == (
        "unable to load client CA provider: "
        f'missing content for CA bundle "client-ca-bundle::{empty}"'
    )
    assert refusal(delegated_authentication, requestheader_client_ca_file=str(text)) == (
        "unable to create request header authentication config: error loading CA bundle for "
        f'"request-header::{text}": data does not contain any valid RSA or ECDSA certificates'
    )
    assert refusal(delegated_authorization, authorization_always_allow_paths=("/a*b",)) == (
        'only trailing * allowed in "a*b"'
    )


def test_servers_no_client_can_be_made_for_are_refused(tmp_path):
    file = tmp_path / "kc"
    file.write_text(KUBECONFIG.replace("http://127.0.0.1:1", "a b"))
    why = 'parse "http://a b": invalid character " " in host name'
    assert refusal(delegated_authorization, authorization_kubeconfig=str(file)) == why
    assert refusal(delegated_authentication, authentication_kubeconfig=str(file)) == (
        f"failed to get delegated authentication kubeconfig: {why}"
    )
