"""Start-up: what is made, and in which order things are found to be wrong."""

import pytest
import yaml

from kscheduler import app
from kscheduler.app.startup import NO_PLUGINS
from kscheduler.cli.command_line import parse
from kscheduler.client.events.legacy import LegacyBroadcaster
from kscheduler.errors import ConfigError
from tests.kit.ports import free_port

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c, user: ""}}]
current-context: c
"""
HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def kubeconfig(tmp_path):
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    return str(path)


@pytest.fixture
def config_file(tmp_path, kubeconfig):
    def write(text=""):
        path = tmp_path / "scheduler.yaml"
        path.write_text(f"{HEAD}clientConnection: {{kubeconfig: {kubeconfig}}}\n{text}")
        return str(path)

    return write


def started(*args, out_of_tree=NO_PLUGINS):
    options, _ = parse(["--secure-port=0", *args])
    return app.setup(options, options.gates(), out_of_tree=out_of_tree)


async def refusal(*args, out_of_tree=NO_PLUGINS):
    with pytest.raises(ConfigError) as refused:
        async with started(*args, out_of_tree=out_of_tree):
            pass
    return str(refused.value)


async def test_setup_from_flags_alone(kubeconfig):
    async with started("--kubeconfig", kubeconfig, "--profiling=false") as daemon:
        assert daemon.cc.rest_config.server == "http://127.0.0.1:1"
        assert not daemon.cc.component_config.enable_profiling
        assert daemon.cc.serving is None
        assert isinstance(daemon.cc.events, LegacyBroadcaster)
        assert list(daemon.cc.completed.plugins) == ["default-scheduler"]


async def test_a_file_makes_deprecated_flags_void(config_file):
    async with started(
        "--config", config_file(), "--profiling=false", "--kubeconfig=/no"
    ) as daemon:
        assert daemon.cc.component_config.enable_profiling


async def test_leader_election_flags_override_a_file_and_are_validated_with_it(config_file):
    file = config_file("leaderElection: {resourceName: mine}\n")
    async with started("--config", file, "--leader-elect-resource-name=ours") as daemon:
        assert daemon.cc.component_config.leader_election.resource_name == "ours"
    assert await refusal("--config", file, "--leader-elect-lease-duration=5s") == (
        'leaderElection.leaseDuration: Invalid value: "10s": must be greater than `RenewDeadline`'
    )


async def test_leader_election_flags_without_a_file_escape_validation(kubeconfig):
    async with started("--kubeconfig", kubeconfig, "--leader-elect-lease-duration=5s") as daemon:
        with pytest.raises(ConfigError, match="couldn't create leader elector: leaseDuration must"):
            await app.run(daemon)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("endpoints", "endpoints lock is removed, migrate to leases"),
        ("configmapsleases", "configmapsleases lock is removed, migrated to leases"),
        ("x", "Invalid lock-type x"),
    ],
)
async def test_only_leases_are_locks(kubeconfig, kind, why):
    flag = f"--leader-elect-resource-lock={kind}"
    assert (
        await refusal("--kubeconfig", kubeconfig, flag) == f"couldn't create resource lock: {why}"
    )
    async with started("--kubeconfig", kubeconfig, flag, "--leader-elect=false"):
        pass


async def test_options_are_refused_before_files_are_read():
    assert await refusal("--config=/nonexistent", "--disabled-metrics=a-b", "--secure-port=-1") == (
        "[--secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port, "
        'metrics.disabledMetrics: Invalid value: ["a-b"]: must be fully qualified metric names '
        'matching "^[a-zA-Z_:][a-zA-Z0-9_:]*$", got "a-b"]'
    )


async def test_the_file_is_read_before_the_kubeconfig(config_file):
    assert await refusal("--config=/nonexistent/c") == (
        "open /nonexistent/c: no such file or directory"
    )
    assert await refusal("--kubeconfig=/nonexistent/kc") == (
        "stat /nonexistent/kc: no such file or directory"
    )


async def test_a_burst_is_needed_with_a_rate(kubeconfig):
    flags = ("--kubeconfig", kubeconfig, "--kube-api-burst=-5")
    assert (await refusal(*flags)).startswith("burst is required to be greater than 0")
    async with started(*flags, "--kube-api-qps=-1"):
        pass


class Mine:
    name = "Mine"

    def __init__(self, args, handle):
        pass

    def filter(self, cycle, pod, nodes):
        return ()


async def test_outside_plugins_join_the_catalog_but_do_not_replace_it(kubeconfig, config_file):
    file = config_file("profiles: [{plugins: {filter: {enabled: [{name: Mine}]}}}]\n")
    mine = {"Mine": Mine}
    async with started("--config", file, out_of_tree=mine) as daemon:
        assert daemon.cc.completed.plugins["default-scheduler"].by_point["filter"][-1] == "Mine"
    assert await refusal("--config", file, out_of_tree={"NodeName": Mine}) == (
        "plugins['NodeName']: a plugin named NodeName already exists in kube-scheduler"
    )


async def test_the_port_is_held_while_set_up_and_free_again_after(kubeconfig):
    port = free_port()
    flags = ("--kubeconfig", kubeconfig, "--bind-address=127.0.0.1", f"--secure-port={port}")
    async with started(*flags) as daemon:
        listener = daemon.cc.serving.port.listener
        assert listener.getsockname() == ("127.0.0.1", port)
    assert listener.fileno() == -1


@pytest.mark.parametrize(
    ("args", "want"),
    [
        pytest.param([], ["The manifest file is empty, ignoring."], id="upstream always says it"),
        pytest.param(["--allow-metric-labels=m,l=a"], [], id="labels given"),
        pytest.param(
            ["--allow-metric-labels-manifest={empty}"],
            ["empty allow-list mapping supplied, ignoring."],
            id="empty manifest",
        ),
    ],
)
async def test_label_allow_lists(kubeconfig, tmp_path, capfd, args, want):
    empty = tmp_path / "empty.yaml"
    empty.write_text("")
    args = [arg.format(empty=empty) for arg in args]
    async with started("--kubeconfig", kubeconfig, *args):
        pass
    lines = [line.partition("] ")[2] for line in capfd.readouterr().err.splitlines()]
    assert [line for line in lines if line.endswith("ignoring.")] == want


def test_the_completed_configuration_is_written(kubeconfig, tmp_path, capfd):
    path = tmp_path / "out.yaml"
    options, _ = parse(["--kubeconfig", kubeconfig, "--secure-port=0", f"--write-config-to={path}"])
    assert app.main(options, options.gates()) == 0
    assert yaml.safe_load(path.read_text())["clientConnection"]["kubeconfig"] == kubeconfig
    assert capfd.readouterr().err.endswith(f'"Wrote configuration" file="{path}"\n')


async def test_a_file_that_cannot_be_written_is_told(kubeconfig):
    async with started("--kubeconfig", kubeconfig) as daemon:
        with pytest.raises(ConfigError, match="open /nonexistent/x: no such file or directory"):
            app.write_config(daemon.cc.completed.written, "/nonexistent/x")
