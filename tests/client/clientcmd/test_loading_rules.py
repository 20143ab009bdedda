"""Kubeconfig files as kubectl finds them, and the flags that go before them."""

import pytest

from kscheduler.client.clientcmd.loading_rules import Overrides, load_client_config
from kscheduler.errors import ConfigError

FIRST = """
clusters: [{name: c, cluster: {server: "https://first:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: first}}]
contexts: [{name: x, context: {cluster: c, user: u, namespace: shop}}]
"""
SECOND = """
clusters:
- {name: c, cluster: {server: "https://second:6443", insecure-skip-tls-verify: true}}
- {name: d, cluster: {server: "http://other:8080"}}
users: [{name: u, user: {token: second}}, {name: v, user: {token: other}}]
contexts: [{name: w, context: {cluster: d, user: v}}]
current-context: x
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "first").write_text(FIRST)
    (tmp_path / "second").write_text(SECOND)
    missing = tmp_path / "missing"
    return {"KUBECONFIG": f"{tmp_path / 'first'}:{missing}:{tmp_path / 'second'}"}


def test_of_several_files_the_first_to_name_a_thing_decides(files):
    config = load_client_config(Overrides(), environ=files)
    assert (config.rest.server, config.rest.identity.token) == ("https://first:6443", "first")
    assert config.namespace == "shop"


def test_without_a_variable_it_is_the_file_in_the_home_folder(tmp_path):
    (tmp_path / ".kube").mkdir()
    (tmp_path / ".kube" / "config").write_text(FIRST + "current-context: x\n")
    config = load_client_config(Overrides(), environ={"HOME": str(tmp_path)})
    assert config.rest.server == "https://first:6443"


def test_a_context_can_be_chosen_and_its_namespace_is_the_default_one(files):
    config = load_client_config(Overrides(context="w"), environ=files)
    assert (config.rest.server, config.namespace) == ("http://other:8080", "default")


def test_flags_for_cluster_user_and_namespace_go_before_the_context(files):
    chosen = Overrides(cluster="c", user="v", namespace="n")
    config = load_client_config(chosen, environ=files)
    assert config.rest.server == "https://first:6443"
    assert (config.rest.identity.token, config.namespace) == ("other", "n")


def test_a_server_without_tls_is_not_told_who_we_are_but_another_one_is(files):
    config = load_client_config(Overrides(context="w"), environ=files)
    assert (config.rest.identity.token, config.own.identity.token) == ("", "other")


def test_a_token_takes_the_place_of_the_users_credentials(files):
    overrides = Overrides(token="mine", impersonate="jane", impersonate_groups=("dev",))
    identity = load_client_config(overrides, environ=files).rest.identity
    assert identity.token == "mine"
    assert identity.impersonation.headers() == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "dev"),
    ]


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        (Overrides(context="z"), 'context "z" does not exist; there is "w", "x"'),
        (Overrides(cluster="z"), 'cluster "z" does not exist; there is "c", "d"'),
        (Overrides(user="z"), 'auth info "z" does not exist; there is "u", "v"'),
    ],
)
def test_a_name_that_is_not_there_is_told_with_those_that_are(files, overrides, complaint):
    with pytest.raises(ConfigError) as error:
        load_client_config(overrides, environ=files)
    assert str(error.value) == complaint


def test_nothing_to_go_by_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="There is no kubeconfig: name one with --kubeconfig"):
        load_client_config(Overrides(), environ={"HOME": str(tmp_path)})


def test_an_explicit_file_has_to_be_there(tmp_path, files):
    missing = Overrides(kubeconfig=str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match="no such file"):
        load_client_config(missing, environ=files)


def test_a_pod_uses_its_own_service_account_and_namespace(tmp_path):
    for name, text in {"token": "own", "namespace": "here", "ca.crt": ""}.items():
        (tmp_path / name).write_text(text)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    config = load_client_config(Overrides(), environ=environ, service_account=tmp_path)
    assert (config.rest.server, config.rest.identity.token) == ("https://10.0.0.1:443", "own")
    assert config.namespace == "here"
