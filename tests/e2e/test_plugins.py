"""Plugins of others in the daemon: the two of the guide, and one that cannot be relied on."""

from pathlib import Path

from tests.kit.manifests import node_manifest, pod_manifest

GUIDE = Path(__file__).parents[2] / "docs" / "plugins"
GANG = f"--plugin={GUIDE / 'gang' / 'gang.py'}:Gang"
NODE_LOAD = f"--plugin={GUIDE / 'node-load' / 'node_load.py'}:NodeLoad"
LOAD = "example.com/load-percent"

LOADS = """
profiles:
- plugins: {multiPoint: {enabled: [{name: NodeLoad, weight: 100}]}}
"""

GANGS = """
profiles:
- plugins: {multiPoint: {enabled: [{name: Gang}]}}
  pluginConfig: [{name: Gang, args: {waitSeconds: %s}}]
"""

TWICE = """
profiles:
- schedulerName: patient
  plugins: {multiPoint: {enabled: [{name: Gang}]}}
  pluginConfig: [{name: Gang, args: {waitSeconds: 300}}]
- schedulerName: hasty
  plugins: {multiPoint: {enabled: [{name: Gang}]}}
  pluginConfig: [{name: Gang, args: {waitSeconds: 1}}]
"""

GREEDY = """
class Greedy:
    name = "Greedy"

    def __init__(self, args, handle):
        pass

    def score_node(self, cycle, pod, node):
        return 101 if "greedy" in pod.labels else 50
"""

TOO_MUCH = (
    'applying score defaultWeights on Score plugins: plugin "Greedy" returns an invalid score 101, '
    "it should in the range of [0, 100] after normalizing"
)
IN_GREEDY_PROFILE = 'plugin="Greedy",profile="default-scheduler"'


def member(name, size, gang="g", **spec):
    return pod_manifest(
        name, labels={"example.com/gang": gang, "example.com/gang-size": str(size)}, **spec
    )


async def test_nodes_are_scored_by_what_is_written_on_them(cluster):
    await cluster.create_nodes(
        node_manifest("busy"), node_manifest("idle"), node_manifest("unknown")
    )
    for name, load in (("busy", "90"), ("idle", "5")):
        await cluster.api.patch("nodes", name, {"metadata": {"annotations": {LOAD: load}}})
    await cluster.start_daemon(cluster.config("loads", LOADS), NODE_LOAD)
    await cluster.create_pods(pod_manifest("first"))
    assert await cluster.node_of("first") == "idle"
    await cluster.change_node("idle", {"metadata": {"annotations": {LOAD: "100"}}})
    await cluster.create_pods(pod_manifest("second"))
    assert await cluster.node_of("second") == "unknown"


async def test_a_gang_is_bound_together(cluster):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    daemon = await cluster.start_daemon(cluster.config("gangs", GANGS % 300), GANG)
    await cluster.create_pods(member("a", 3), member("b", 3), pod_manifest("alone"))
    await cluster.node_of("alone")
    assert [(await cluster.pod(name))["spec"].get("nodeName") for name in "ab"] == [None, None]
    await cluster.create_pods(member("c", 3))
    await cluster.nodes_of("a", "b", "c")
    await cluster.events("c", "GangComplete")
    await daemon.shows("gang_completed_total", 1)


async def test_each_profile_has_a_plugin_and_arguments_of_its_own(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    await cluster.start_daemon(cluster.config("twice", TWICE), GANG)
    await cluster.create_pods(
        member("slow", 2, "slow", schedulerName="patient"),
        member("quick", 2, "quick", schedulerName="hasty"),
    )
    late = "0/1 nodes are available: 1 rejected due to timeout after waiting 1s at plugin Gang."
    await cluster.becomes_refused("quick", late)
    (event, *_) = await cluster.events("quick", "FailedScheduling")
    assert event["reportingController"] == "hasty"
    assert not (await cluster.pod("slow"))["spec"].get("nodeName")
    await cluster.create_pods(member("slower", 2, "slow", schedulerName="patient"))
    await cluster.nodes_of("slow", "slower")


async def test_pods_that_wait_when_the_daemon_ends_are_the_next_one_s(cluster):
    await cluster.create_nodes(node_manifest("n1"))
    flags = cluster.config("gangs", GANGS % 300), GANG
    daemon = await cluster.start_daemon(*flags)
    await cluster.create_pods(member("a", 2), pod_manifest("alone"))
    await cluster.node_of("alone")
    await daemon.stop()
    assert not (await cluster.pod("a"))["spec"].get("nodeName")
    await cluster.start_daemon(*flags)
    await cluster.create_pods(member("b", 2))
    await cluster.nodes_of("a", "b")


async def test_a_plugin_that_keeps_failing_is_told_of_and_taken_out(cluster, tmp_path):
    file = tmp_path / "greedy.py"
    file.write_text(GREEDY)
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    cluster.expected_errors += [TOO_MUCH.split(":")[0], "Plugin taken out of its profile"]
    profile = "profiles: [{plugins: {multiPoint: {enabled: [{name: Greedy}]}}}]\n"
    flags = f"--plugin={file}:Greedy", "--plugin-max-failures=3"
    daemon = await cluster.start_daemon(cluster.config("greedy", profile), *flags)
    await cluster.create_pods(pod_manifest("greedy", labels={"greedy": "yes"}))
    (event, *_) = await cluster.events("greedy", "FailedScheduling")
    assert event["note"] == TOO_MUCH
    await cluster.node_of("greedy")  # Without the plugin, in the end.
    await cluster.events("greedy", "PluginTakenOut")
    await daemon.shows(f"kscheduler_plugin_taken_out{{{IN_GREEDY_PROFILE}}}", 1)
    await cluster.create_pods(pod_manifest("modest"))
    await cluster.node_of("modest")
