from kscheduler.config.annotate import annotated
from kscheduler.config.load import load_config
from kscheduler.plugins import catalog

HEADER = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def shown(body, gates):
    return annotated((HEADER + body).encode(), catalog(), gates=gates)


def part(lines, first, last):
    texts = [line.text for line in lines]
    start = texts.index(first)
    return [str(line) for line in lines[start : texts.index(last, start) + 1]]


def test_given_values_are_told_from_defaults(gates):
    body = 'leaderElection: {leaseDuration: 1m, resourceName: x, resourceLock: ""}\n'
    lines = shown(body, gates)
    assert part(lines, "parallelism: 16", "clientConnection:") == [
        "parallelism: 16  # default",
        "leaderElection:",
        "  leaderElect: true  # default",
        "  leaseDuration: 1m0s",
        "  renewDeadline: 10s  # default",
        "  retryPeriod: 2s  # default",
        "  resourceLock: leases  # default",
        "  resourceName: x",
        "  resourceNamespace: kube-system  # default",
        "clientConnection:  # default",
    ]


def test_a_reweighted_plugin_stands_out_among_the_defaults(gates):
    lines = shown(
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}}]", gates
    )
    assert part(
        lines, "- schedulerName: default-scheduler", "- schedulerName: default-scheduler"
    ) == ["- schedulerName: default-scheduler  # default"]
    assert part(lines, "    multiPoint:", "      - name: SchedulingGates") == [
        "    multiPoint:",
        "      enabled:",
        "      - name: SchedulingGates  # default",
    ]
    assert part(lines, "      - name: NodeAffinity", "      - name: NodePorts") == [
        "      - name: NodeAffinity",
        "        weight: 7",
        "      - name: NodePorts  # default",
    ]


def test_arguments_are_recognised_by_plugin(gates):
    body = """
profiles:
- schedulerName: a
- schedulerName: b
  pluginConfig:
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]
"""
    lines = shown(body, gates)
    second = lines[[line.text for line in lines].index("- schedulerName: b") :]
    assert part(second, "  pluginConfig:", "  - name: DefaultPreemption") == [
        "  pluginConfig:",
        "  - name: PodTopologySpread",
        "    args:",
        "      kind: PodTopologySpreadArgs  # default",
        "      apiVersion: kubescheduler.config.k8s.io/v1  # default",
        "      defaultConstraints:",
        "      - maxSkew: 1",
        "        topologyKey: zone",
        "        whenUnsatisfiable: DoNotSchedule",
        "      defaultingType: List",
        "  - name: DefaultPreemption  # default",
    ]


def test_the_lines_are_the_completed_configuration(gates):
    body = """
extenders: [{urlPrefix: "http://a", managedResources: [{name: e.com/a}]}]
profiles: [{schedulerName: "yes", pluginConfig: [{name: Mine, args: [1, [], {}]}]}]
"""
    text = "\n".join(str(line) for line in shown(body, gates))
    given = load_config((HEADER + body).encode(), catalog(), gates=gates)
    assert load_config(text.encode(), catalog(), gates=gates) == given
