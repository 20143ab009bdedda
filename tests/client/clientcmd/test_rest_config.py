import base64
import errno

import pytest

from kscheduler.client.clientcmd.rest_config import (
    check_usable,
    in_cluster_config,
    load_rest_config,
)
from kscheduler.client.credentials import credentials_for
from kscheduler.errors import ConfigError

GOOD = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://10.0.0.1:6443/", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""


def config(cluster="server: https://127.0.0.1:1", user="token: t", context="cluster: c, user: u"):
    return f"""
clusters: [{{name: c, cluster: {{{cluster}}}}}]
users: [{{name: u, user: {{{user}}}}}]
contexts: [{{name: x, context: {{{context}}}}}]
current-context: x
"""


@pytest.fixture
def load(tmp_path):
    def loaded(text, master=""):
        path = tmp_path / "kc"
        path.write_text(text.replace("@DIR@", str(tmp_path)))
        return load_rest_config(str(path), master, environ={})

    return loaded


def test_kubeconfig_gives_server_and_identity(load):
    found = load(GOOD)
    assert (found.server, found.host, found.secure) == (
        "https://10.0.0.1:6443",
        "10.0.0.1:6443",
        True,
    )
    assert (found.identity.token, found.tls.insecure) == ("t", True)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "a: [b\n",
            'error loading config file "@DIR@/kc": yaml: line 1: '
            "did not find expected ',' or ']'",
            id="no YAML",
        ),
        pytest.param(
            "clusters: []\nusers: []\ncontexts: []\ncurrent-context: nope\n",
            "invalid configuration: [context was not found for specified context: nope, "
            "cluster has no server defined]",
            id="unknown context",
        ),
        pytest.param(
            "",
            "invalid configuration: no configuration has been provided, "
            "try setting KUBERNETES_MASTER environment variable",
            id="empty file",
        ),
        pytest.param(
            config(
                cluster='server: "https://127.0.0.1:1", certificate-authority: "@DIR@/none.crt"'
            ),
            "invalid configuration: unable to read certificate-authority @DIR@/none.crt for c "
            "due to open @DIR@/none.crt: no such file or directory",
            id="missing authority",
        ),
        pytest.param(
            config(user="token: t, username: a, password: b"),
            "invalid configuration: more than one authentication method found for u; "
            "found [token basicAuth], only one is allowed",
            id="two ways to authenticate",
        ),
        pytest.param(
            config(user="client-certificate-data: YQ=="),
            "invalid configuration: client-key-data or client-key must be specified for u "
            "to use the clientCert authentication method.",
            id="certificate without key",
        ),
        pytest.param(
            config(user="client-certificate: a.crt, client-key: a.key"),
            "invalid configuration: ["
            "unable to read client-cert @DIR@/a.crt for u due to open @DIR@/a.crt: "
            "no such file or directory, "
            "unable to read client-key @DIR@/a.key for u due to open @DIR@/a.key: "
            "no such file or directory]",
            id="relative certificate files that are not there",
        ),
        pytest.param(
            config(cluster="tls-server-name: x"),
            'invalid configuration: no server found for cluster "c"',
            id="cluster without server",
        ),
        pytest.param(
            config(user="exec: {command: x, apiVersion: client.authentication.k8s.io/v1}"),
            "invalid configuration: interactiveMode must be specified for u "
            "to use exec authentication plugin",
            id="plugin without mode",
        ),
        pytest.param(
            config(user="exec: {interactiveMode: Never}"),
            "invalid configuration: [command must be specified for u to use exec authentication "
            "plugin, apiVersion must be specified for u to use exec authentication plugin]",
            id="plugin without command",
        ),
        pytest.param(
            config(user="as-groups: [a]"),
            "invalid configuration: requesting uid, groups or user-extra for u "
            "without impersonating a user",
            id="groups of nobody",
        ),
        pytest.param(
            config(user="tokenFile: none"),
            "open @DIR@/none: no such file or directory",
            id="missing token file",
        ),
        pytest.param(
            "clusters: 7\n",
            'error loading config file "@DIR@/kc": json: cannot unmarshal number '
            "into Go struct field Config.clusters of type []v1.NamedCluster",
            id="wrong type",
        ),
        pytest.param(
            config(cluster="insecure-skip-tls-verify: maybe"),
            'error loading config file "@DIR@/kc": json: cannot unmarshal string into Go '
            "struct field Cluster.clusters.cluster.insecure-skip-tls-verify of type bool",
            id="wrong type inside",
        ),
        pytest.param(
            config(user="exec: {args: [1]}"),
            'error loading config file "@DIR@/kc": json: cannot unmarshal number into Go '
            "struct field ExecConfig.users.user.exec.args of type string",
            id="wrong type in a list",
        ),
        pytest.param(
            config(user="client-key-data: '!!'"),
            'error loading config file "@DIR@/kc": illegal base64 data at input byte 0',
            id="no base64",
        ),
        pytest.param(
            "kind: Pod\napiVersion: v1\n",
            'error loading config file "@DIR@/kc": no kind "Pod" is registered for version "v1" '
            'in scheme "k8s.io/client-go/tools/clientcmd/api/latest/latest.go:50"',
            id="wrong kind",
        ),
        pytest.param(
            "apiVersion: 1\n",
            'error loading config file "@DIR@/kc": couldn\'t get version/kind; json parse error: '
            "json: cannot unmarshal number into Go struct field .apiVersion of type string",
            id="version is no string",
        ),
        pytest.param(
            "{",
            'error loading config file "@DIR@/kc": '
            "yaml: line 1: did not find expected node content",
            id="JSON is read as YAML",
        ),
        pytest.param(
            config(cluster="server: ''"),
            'invalid configuration: no server found for cluster "c"',
            id="no server",
        ),
        pytest.param(
            config(cluster="server: https://a, certificate-authority: /nonexistent/x")[1:].replace(
                "users:", "users: []\nunused:"
            ),
            "invalid configuration: unable to read certificate-authority /nonexistent/x for c "
            "due to open /nonexistent/x: no such file or directory",
            id="unknown fields are ignored",
        ),
        pytest.param(
            "users: [{name: a}, {name: a}]\n",
            'error loading config file "@DIR@/kc": '
            "error converting *[]NamedAuthInfo into *map[string]*api.AuthInfo: "
            'duplicate name "a" in list',
            id="duplicate name",
        ),
        pytest.param(
            "clusters: [{name: a, cluster: {server: s, certificate-authority-data: AQI=}}, "
            "{name: a, cluster: {extensions: [{name: e, extension: {}}]}}]\n",
            'error loading config file "@DIR@/kc": '
            "error converting *[]NamedCluster into *map[string]*api.Cluster: "
            'duplicate name "a" in list: '
            "[{a {s  false  [1 2]  false []}} {a {  false  []  false [{e {[123 125] <nil>}}]}}]",
            id="duplicate cluster is shown",
        ),
        pytest.param(
            config(cluster='server: "https://a", proxy-url: "gopher://p"'),
            'invalid configuration: invalid \'proxy-url\' "gopher://p" for cluster "c": '
            'unsupported scheme "gopher", must be http, https, or socks5',
            id="strange proxy",
        ),
        pytest.param(
            config(cluster='server: "https://a", proxy-url: "http://a b"'),
            'invalid configuration: invalid \'proxy-url\' "http://a b" for cluster "c": '
            "could not parse: http://a b",
            id="proxy that is no URL",
        ),
    ],
)
def test_unusable_kubeconfig_is_refused_in_upstreams_words(load, tmp_path, text, want):
    with pytest.raises(ConfigError) as raised:
        load(text)
    assert str(raised.value) == want.replace("@DIR@", str(tmp_path))


def test_missing_kubeconfig_is_told_as_stat_does():
    with pytest.raises(ConfigError, match=r"^stat /nonexistent/kc: no such file or directory$"):
        load_rest_config("/nonexistent/kc")


def test_folder_is_no_kubeconfig(tmp_path):
    with pytest.raises(ConfigError) as raised:
        load_rest_config(str(tmp_path))
    assert str(raised.value) == (
        f'error loading config file "{tmp_path}": read {tmp_path}: is a directory'
    )


def test_unreadable_kubeconfig_is_told(tmp_path, monkeypatch):
    path = tmp_path / "kc"
    path.touch()

    def refuse(self):
        raise PermissionError(errno.EACCES, "denied", str(self))

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(ConfigError) as raised:
        load_rest_config(str(path))
    assert (
        str(raised.value) == f'error loading config file "{path}": open {path}: permission denied'
    )


def test_context_without_user_is_enough_for_a_plain_server(load):
    found = load(config(cluster='server: "http://127.0.0.1:1"', context="cluster: c"))
    assert (found.server, found.identity.token) == ("http://127.0.0.1:1", "")


def test_credentials_are_not_read_for_a_plain_server(load):
    found = load(config(cluster='server: "http://127.0.0.1:1"', user="token: secret"))
    assert found.identity.token == ""


def test_master_replaces_the_server_and_its_tls_name(load):
    found = load(
        config(cluster='server: "https://a", tls-server-name: b'), master="https://other:1"
    )
    assert (found.server, found.tls.server_name) == ("https://other:1", "")


def test_master_alone_is_enough():
    assert load_rest_config("", "127.0.0.1:8080").server == "http://127.0.0.1:8080"


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("http://[::1", 'host must be a URL or a host:port pair: "http://[::1"'),
        ("http://a b", 'host must be a URL or a host:port pair: "http://a b"'),
        ("a/b", 'host must be a URL or a host:port pair: "a/b"'),
        (" ", 'parse "http:// ": invalid character " " in host name'),
        ("%zz", 'parse "http://%zz": invalid URL escape "%zz"'),
        ("::1", 'parse "http://::1": invalid port "::1" after host'),
        ("a\tb", 'parse "http://a\\tb": net/url: invalid control character in URL'),
    ],
)
def test_servers_that_are_no_url_are_refused_when_a_client_is_made(server, why):
    found = load_rest_config("", server)
    with pytest.raises(ConfigError) as raised:
        check_usable(found)
    assert str(raised.value) == why


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ("auth-provider: {name: oidc}", 'no Auth Provider found for name "oidc"'),
        (
            "exec: {command: x, apiVersion: v0, interactiveMode: Never}",
            'exec plugin: invalid apiVersion "v0"',
        ),
        ("tokenFile: kc.empty", 'read empty token from file "@DIR@/kc.empty"'),
        (
            "client-certificate-data: eA==, client-key-data: eA==",
            "tls: failed to find any PEM data in certificate input",
        ),
    ],
    ids=["removed auth provider", "unknown exec version", "empty token", "no certificate"],
)
def test_users_nobody_can_be_are_refused_when_a_client_is_made(load, tmp_path, user, why):
    (tmp_path / "kc.empty").touch()
    found = load(config(user=user))
    with pytest.raises(ConfigError) as raised:
        check_usable(found)
    assert str(raised.value) == why.replace("@DIR@", str(tmp_path))


def test_relative_files_start_at_the_kubeconfigs_folder(load, tmp_path):
    (tmp_path / "token").write_text("from file\n")
    found = load(config(user="tokenFile: token"))
    assert found.identity.token_file == str(tmp_path / "token")


@pytest.mark.parametrize(
    ("command", "run"),
    [
        ("./bin/login", "@DIR@/bin/login"),
        ("../login", "@PARENT@/login"),
        ("bin/../login", "@DIR@/login"),
        ("login", "login"),
        ("/usr/bin/../bin/login", "/usr/bin/../bin/login"),
    ],
)
def test_plugin_named_by_a_path_is_looked_for_at_the_kubeconfigs_folder(
    load, tmp_path, command, run
):
    version = "client.authentication.k8s.io/v1beta1"
    found = load(config(user=f"exec: {{command: {command}, apiVersion: {version}}}"))
    want = run.replace("@DIR@", str(tmp_path)).replace("@PARENT@", str(tmp_path.parent))
    assert found.identity.exec.command == want


async def test_plugin_is_run_from_the_kubeconfigs_folder_whatever_ours_is(
    load, tmp_path, monkeypatch
):
    answer = '{"apiVersion":"client.authentication.k8s.io/v1","status":{"token":"t"}}'
    script = tmp_path / "bin" / "login"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\necho '{answer}'\n")
    script.chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    version = "client.authentication.k8s.io/v1"
    user = f"exec: {{command: ./bin/login, apiVersion: {version}, interactiveMode: Never}}"
    (tmp_path / "kc").write_text(config(user=user))
    found = load_rest_config("../kc", environ={})
    assert await credentials_for(found.identity).authorization() == "Bearer t"


IMPERSONATING = (
    "token: t, as: jane, as-uid: u7, as-groups: [a, 'b c'], "
    "as-user-extra: {Scopes: [view, edit], 'acme.com/Team-x%': [red], none: []}"
)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_whom_to_act_as_is_told_with_every_request(load, scheme):
    found = load(config(cluster=f"server: '{scheme}://a'", user=IMPERSONATING))
    assert found.identity.impersonation.headers() == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "u7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b c"),
        ("Impersonate-Extra-Scopes", "view"),
        ("Impersonate-Extra-Scopes", "edit"),
        ("Impersonate-Extra-Acme.com%2fteam-X%25", "red"),
    ]
    assert found.identity.token == ("t" if scheme == "https" else "")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_user_that_no_header_can_name_is_refused_when_a_client_is_made(load, scheme):
    found = load(config(cluster=f"server: '{scheme}://a'", user='token: t, as: "a\\nb"'))
    with pytest.raises(ConfigError, match="invalid header field value for"):
        check_usable(found)


def test_exec_plugin_is_told_about_the_cluster_if_it_asks(load):
    data = base64.b64encode(b"PEM").decode()
    found = load(
        config(
            cluster=f'server: "https://a", certificate-authority-data: {data}, '
            "extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: x}}]",
            user="exec: {command: x, args: [z], env: [{name: A, value: B}], "
            "apiVersion: client.authentication.k8s.io/v1beta1, provideClusterInfo: true}",
        )
    )
    plugin = found.identity.exec
    assert plugin is not None
    assert (plugin.command, plugin.args, plugin.env) == ("x", ("z",), {"A": "B"})
    assert plugin.interactive_mode == "IfAvailable"
    assert plugin.cluster == {
        "server": "https://a",
        "certificate-authority-data": b"PEM",
        "config": {"audience": "x"},
    }


def test_nothing_said_and_no_pod_around_us(logged):
    with pytest.raises(ConfigError, match=r"^invalid configuration: no configuration has been"):
        load_rest_config("", "", environ={"KUBECONFIG": "/x", "KUBERNETES_MASTER": "http://x"})
    assert logged.messages == [
        "W Neither --kubeconfig nor --master was specified.  Using the inClusterConfig.  "
        "This might not work.",
        "W error creating inClusterConfig, falling back to default config: "
        "unable to load in-cluster configuration, "
        "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT must be defined",
    ]


def test_a_kubeconfig_flag_beside_a_configuration_file_is_said_to_be_ignored(logged):
    with pytest.raises(ConfigError):
        load_rest_config("", "", is_flag_ignored=True, environ={})
    assert logged.messages[0] == (
        "W --kubeconfig is ignored beside --config, whose clientConnection.kubeconfig is empty.  "
        "Using the inClusterConfig.  This might not work."
    )


IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_pod_without_a_token(logged, tmp_path):
    with pytest.raises(ConfigError, match="no configuration has been provided"):
        load_rest_config("", "", environ=IN_CLUSTER, service_account=tmp_path)
    assert f"default config: open {tmp_path}/token: no such file or directory" in logged.text


def test_pod_with_service_account(tmp_path, logged):
    (tmp_path / "token").write_text("secret")
    found = in_cluster_config(IN_CLUSTER, tmp_path)
    assert (found.server, found.identity.token) == ("https://10.0.0.1:443", "secret")
    assert found.identity.token_file == str(tmp_path / "token")
    assert logged.messages == [
        f"E Expected to load root CA config from {tmp_path}/ca.crt, but got err: "
        f"open {tmp_path}/ca.crt: no such file or directory"
    ]


def test_pod_with_an_ipv6_service(tmp_path):
    (tmp_path / "token").write_text("secret")
    environ = {**IN_CLUSTER, "KUBERNETES_SERVICE_HOST": "fd00::1"}
    assert in_cluster_config(environ, tmp_path).server == "https://[fd00::1]:443"
