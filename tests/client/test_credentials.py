import asyncio
import json
import sys

import pytest

from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.credentials import (
    TOKEN_FILE_SECONDS,
    Exec,
    ExecPlugin,
    Fixed,
    Identity,
    TokenFile,
    credentials_for,
)
from kscheduler.client.errors import CredentialsError
from kscheduler.errors import ConfigError
from tests.client.scripted import Reply, failing

V1 = "client.authentication.k8s.io/v1"


@pytest.mark.parametrize(
    ("identity", "want"),
    [
        pytest.param(Identity(), None, id="nobody"),
        pytest.param(Identity(token="t"), "Bearer t", id="token"),
        pytest.param(Identity(username="a", password="b"), "Basic YTpi", id="basic"),
        pytest.param(Identity(token="t", exec=Exec("false")), "Bearer t", id="token before plugin"),
    ],
)
async def test_what_is_written_down_is_sent(identity, want):
    assert await credentials_for(identity).authorization() == want


async def test_certificate_goes_before_a_plugin():
    credentials = credentials_for(Identity(exec=Exec("false")), has_certificate=True)
    assert isinstance(credentials, Fixed)


async def test_token_file_is_read_again_after_a_minute(tmp_path):
    now = [1000.0]
    path = tmp_path / "token"
    path.write_text(" one \n")
    tokens = TokenFile(str(path), clock=lambda: now[0])
    sent = [await tokens.authorization()]
    path.write_text("two")
    sent.append(await tokens.authorization())
    now[0] += TOKEN_FILE_SECONDS
    sent.append(await tokens.authorization())
    assert sent == ["Bearer one", "Bearer one", "Bearer two"]


@pytest.mark.parametrize("broken", [None, ""], ids=["gone", "empty"])
async def test_last_good_token_serves_while_the_file_is_broken(tmp_path, logged, broken):
    now = [0.0]
    path = tmp_path / "token"
    path.write_text("good")
    tokens = TokenFile(str(path), clock=lambda: now[0])
    await tokens.authorization()
    if broken is None:
        path.unlink()
    else:
        path.write_text(broken)
    now[0] += TOKEN_FILE_SECONDS
    assert await tokens.authorization() == "Bearer good"
    assert "Unable to rotate token" in logged.text


def plugin(tmp_path, body, **options):
    """A plugin in Python; it counts its runs in a file."""
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json, os, sys\n"
        f"with open({str(tmp_path / 'runs')!r}, 'a') as f: f.write('x')\n"
        f"runs = os.path.getsize({str(tmp_path / 'runs')!r})\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "def say(status, version=info['apiVersion']):\n"
        "    print(json.dumps({'kind': 'ExecCredential', 'apiVersion': version, "
        "'status': status}))\n" + body
    )
    return Exec(sys.executable, (str(script),), api_version=V1, **options)


async def test_plugin_runs_once_for_many_requests(tmp_path):
    credentials = ExecPlugin(plugin(tmp_path, "say({'token': f't{runs}'})"))
    tokens = await asyncio.gather(*(credentials.authorization() for _ in range(5)))
    assert tokens == ["Bearer t1"] * 5
    assert await credentials.certificate() is None


async def test_plugin_runs_again_when_its_token_expires(tmp_path):
    now = [1_700_000_000.0]
    body = "say({'token': f't{runs}', 'expirationTimestamp': '2023-11-14T22:13:25Z'})"
    credentials = ExecPlugin(plugin(tmp_path, body), wall_clock=lambda: now[0])
    sent = [await credentials.authorization(), await credentials.authorization()]
    now[0] += 6
    sent.append(await credentials.authorization())
    assert sent == ["Bearer t1", "Bearer t1", "Bearer t2"]


async def test_plugin_runs_again_after_its_token_was_rejected(tmp_path):
    credentials = ExecPlugin(plugin(tmp_path, "say({'token': f't{runs}'})"))
    first = await credentials.authorization()
    credentials.rejected(first)
    second = await credentials.authorization()
    credentials.rejected(first)
    assert (first, second, await credentials.authorization()) == (
        "Bearer t1",
        "Bearer t2",
        "Bearer t2",
    )


async def test_plugin_is_told_about_cluster_environment_and_terminal(tmp_path):
    body = "say({'token': json.dumps([info['spec'], os.environ['EXTRA']])})"
    config = plugin(tmp_path, body, env={"EXTRA": "yes"}, cluster={"server": "https://a"})
    header = await ExecPlugin(config).authorization()
    assert header is not None
    assert json.loads(header.removeprefix("Bearer ")) == [
        {"cluster": {"server": "https://a"}, "interactive": False},
        "yes",
    ]


async def test_plugin_may_give_a_certificate(tmp_path):
    body = "say({'clientCertificateData': 'crt', 'clientKeyData': 'key'})"
    credentials = ExecPlugin(plugin(tmp_path, body))
    assert await credentials.authorization() is None
    assert await credentials.certificate() == (b"crt", b"key")


@pytest.mark.parametrize(
    ("body", "want"),
    [
        pytest.param("sys.exit(3)", r"^exec: executable \S+ failed with exit code 3$", id="fails"),
        pytest.param("print('hm')", "^decoding stdout: ", id="no JSON"),
        pytest.param(
            "say({'token': 't'}, 'client.authentication.k8s.io/v1beta1')",
            f"configured to use API version {V1}, plugin returned version .*/v1beta1$",
            id="another version",
        ),
        pytest.param(
            "print(json.dumps({'apiVersion': info['apiVersion']}))",
            "^exec plugin didn't return a status field$",
            id="no status",
        ),
        pytest.param(
            "say({})", "^exec plugin didn't return a token or cert/key pair$", id="nothing"
        ),
        pytest.param(
            "say({'clientKeyData': 'key'})",
            "^exec plugin returned only certificate or key, not both$",
            id="half a pair",
        ),
    ],
)
async def test_plugin_that_fails_is_told_in_upstreams_words(tmp_path, body, want):
    with pytest.raises(ConfigError, match=want):
        await ExecPlugin(plugin(tmp_path, body)).authorization()


async def test_plugin_that_is_not_installed_is_told_with_its_hint():
    config = Exec("/nonexistent/plugin", install_hint="apt install plugin")
    with pytest.raises(ConfigError) as raised:
        await ExecPlugin(config).authorization()
    text = str(raised.value)
    assert text.startswith("exec: executable /nonexistent/plugin not found\n\nIt looks like")
    assert text.endswith("#client-go-credential-plugins\n\napt install plugin")


async def test_plugin_that_hangs_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr("kscheduler.client.credentials.TIMEOUT_SECONDS", 0.2)
    with pytest.raises(ConfigError, match=r"did not finish within 0\.2s"):
        await ExecPlugin(plugin(tmp_path, "import time; time.sleep(60)")).authorization()


async def test_plugin_that_needs_a_terminal_is_refused():
    with pytest.raises(ConfigError, match="standard input is not a terminal"):
        await ExecPlugin(Exec("true", interactive_mode="Always")).authorization()


async def test_transport_sends_the_plugins_token_and_renews_it_after_401(server, connect, tmp_path):
    server.on("GET", "/x", failing(401, "Unauthorized"), Reply(200, b"in"))
    identity = Identity(exec=plugin(tmp_path, "say({'token': f't{runs}'})"))
    transport = await connect(config=RestConfig(server.url, identity=identity))
    with pytest.raises(Exception, match="fabricated"):
        await transport.request("GET", "/x")
    assert await transport.request("GET", "/x") == b"in"
    assert [one.headers["Authorization"] for one in server.requests] == ["Bearer t1", "Bearer t2"]


async def test_transport_tells_that_the_plugin_failed(server, connect):
    identity = Identity(exec=Exec("/nonexistent/plugin"))
    transport = await connect(config=RestConfig(server.url, identity=identity))
    with pytest.raises(CredentialsError, match="getting credentials: exec: executable"):
        await transport.request("GET", "/x")
