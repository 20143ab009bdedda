"""Commands that ask a running scheduler: real decisions, over its real port, in words."""

import asyncio
import json
import re

import msgspec
import pytest
from click.testing import CliRunner

from kscheduler.api.explanation import Decision, PendingPod, PlacementReview
from kscheduler.cli import kscheduler
from kscheduler.sandbox import User
from tests.integration.cluster import ELECTED, pod
from tests.kit.manifests import node_manifest
from tests.kit.polling import until
from tests.kit.port_forwarding import PortForwarding
from tests.kit.ports import free_port

TOKEN = "token-of-jane"
GPU = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
GATES = [{"name": "example.com/quota"}]


class Asked:
    """An answer: exit code, what was printed, and what was complained of."""

    def __init__(self, result):
        self.code, self.text, self.complaint = result.exit_code, result.stdout, result.stderr
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception

    @property
    def blocks(self):
        return self.text.rstrip("\n").split("\n\n")


class Colleague:
    """A scheduler at work on four nodes, and the commands to ask it."""

    def __init__(self, cluster, port, folder):
        self.cluster, self.port, self._folder = cluster, port, folder
        cluster.api.users.add(User("jane", ("system:masters",)), TOKEN)

    async def run(self, *args, stdin=None):
        """Runs a command in a thread, since the scheduler has this one."""
        return Asked(
            await asyncio.to_thread(
                CliRunner().invoke, kscheduler, args, stdin, prog_name="kscheduler"
            )
        )

    async def ask(self, *args, stdin=None):
        where = [f"--kubeconfig={self.kubeconfig()}", f"--server=https://127.0.0.1:{self.port}"]
        return await self.run(*args, *where, "--insecure-skip-tls-verify", stdin=stdin)

    def kubeconfig(self):
        path = self._folder / "jane.kubeconfig"
        config = self.cluster.api.kubeconfig()
        config["users"][0]["user"] = {"token": TOKEN}
        path.write_text(json.dumps(config))
        return path

    def file(self, *objects):
        path = self._folder / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        return str(path)


def secure_port(cluster, port):
    where = cluster.kubeconfig()
    return [
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={where}",
        f"--authorization-kubeconfig={where}",
    ]


@pytest.fixture
async def colleague(cluster, tmp_path_factory):
    cluster.create(
        node_manifest("large", cpu="8"),
        node_manifest("small-1", cpu="2"),
        node_manifest("small-2", cpu="2"),
        node_manifest("tainted", cpu="8", taints=GPU),
    )
    port = free_port()
    async with cluster.scheduler(args=secure_port(cluster, port)):
        cluster.create(pod("theirs", schedulerName="somebody"), pod("web", cpu="1"))
        await until(lambda: cluster.place("web"))
        cluster.create(
            pod("big", cpu="7500m"),
            pod("gated", schedulingGates=GATES),
            pod("lunar", nodeSelector={"zone": "moon"}),
        )
        await until(lambda: cluster.complaint("big") and cluster.complaint("lunar"))
        asked = Colleague(cluster, port, tmp_path_factory.mktemp("asked"))
        await until(lambda: _listens(port))
        yield asked


async def _listens(port):
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


class TestExplain:
    async def test_a_pod_that_has_a_node_is_told_with_the_candidates(self, colleague):
        answer = await colleague.ask("explain", "web")
        assert answer.code == 0
        sentence, table, rejected = answer.blocks
        assert sentence == (
            "default/web: it is on large, one of 3 that fit of 4 nodes that were looked at: its "
            f"score is the highest, {margin(sentence)} above small-1's."
        )
        lines = table.splitlines()
        assert [line.split()[0] for line in lines] == ["NODE", "large", "small-1", "small-2"]
        assert lines[1].endswith("chosen")
        assert "NodeResourcesFit -" in lines[2]
        assert rejected == (
            "1 node was rejected: 1 by TaintToleration (node(s) had untolerated taint(s))."
        )

    async def test_a_pod_that_waits_is_told_with_what_wakes_it_and_what_would_help(self, colleague):
        answer = await colleague.ask("explain", "default/big")
        assert answer.code == 1
        sentence, waiting, helping, table = answer.blocks
        assert sentence.startswith(
            "default/big: none of 4 nodes can take it: 3 nodes: Insufficient"
        )
        assert "most is left on large, 7, short by 500m" in sentence
        assert waiting.startswith("Waiting since ")
        assert "a node is added" in waiting
        assert helping.splitlines() == [
            "What would help:",
            "  with 7 instead of 7500m of cpu: 1 node could take it",
            "  with 2 instead of 7500m of cpu: 3 nodes could take it",
            "  with a toleration of gpu=yes:NoSchedule: 1 node could take it",
        ]
        assert "7 on large" in table

    async def test_a_pod_with_one_node_to_go_to_is_told_with_why(self, colleague):
        name = {"key": "metadata.name", "operator": "In", "values": ["small-1"]}
        terms = [{"matchFields": [name]}]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        colleague.cluster.create(pod("agent", affinity={"nodeAffinity": required}))
        await until(lambda: colleague.cluster.place("agent"))
        why = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
        text = " ".join((await colleague.ask("explain", "agent")).text.split())
        assert f"the only node that was looked at (3 were left out: {why})" in text
        assert f"3 nodes were rejected: 3 by PreFilter ({why})." in text
        text = " ".join((await colleague.ask("why-not", "agent", "large")).text.split())
        assert "As for large, it was left out before any node was looked at" in text
        assert "Asked now, it does not fit on large" in text

    async def test_wide_adds_steps_and_facts_and_all_lists_every_node(self, colleague):
        answer = await colleague.ask("explain", "web", "-o", "wide", "--all")
        assert "NodeResourcesFit" in answer.text
        assert "Reserve   Success" in answer.text
        assert re.search(r"^tainted +TaintToleration", answer.text, re.MULTILINE)
        assert "Attempt 1 at " in answer.text

    async def test_a_gated_pod_is_told_by_its_gate(self, colleague):
        answer = await colleague.ask("explain", "gated")
        assert (answer.code, answer.text) == (
            1,
            "default/gated: held by its scheduling gate example.com/quota; it is not tried until "
            "it is removed.\n",
        )

    @pytest.mark.parametrize("form", ["json", "yaml"])
    async def test_programs_get_the_decision_itself(self, colleague, form):
        answer = await colleague.ask("explain", "pod/big", "-o", form)
        decode = msgspec.json.decode if form == "json" else msgspec.yaml.decode
        decision = decode(answer.text.encode(), type=Decision)
        assert (answer.code, decision.name, decision.outcome) == (1, "big", "Unschedulable")
        assert decision.last.rejections

    async def test_a_pod_that_is_not_there_is_an_error_in_a_sentence(self, colleague):
        answer = await colleague.ask("explain", "nobody")
        assert (answer.code, answer.text) == (2, "")
        assert answer.complaint.startswith('Error: decisions.kscheduler.dev "nobody" not found: ')
        assert 'in namespace "default"' in answer.complaint
        assert "Say -n NAMESPACE" in answer.complaint
        assert "Traceback" not in answer.complaint

    async def test_a_pod_of_another_scheduler_is_told_so_and_nothing_else(self, colleague):
        complaint = (await colleague.ask("explain", "theirs")).complaint
        assert 'by the scheduler "somebody"' in complaint
        assert complaint.startswith("Error: default/theirs is on no node, and ")
        assert "fell out" not in complaint

    async def test_an_attempt_that_is_not_kept_is_told_with_those_that_are(self, colleague):
        answer = await colleague.ask("explain", "web", "--attempt", "7")
        assert answer.code == 2
        assert "Attempt 7 is not kept: of 1, 1 can be told of" in answer.complaint

    @pytest.mark.parametrize("name", ["", "a/b/c", "/x", "x" * 300, "x?watch=true", "a?b/x", "☃"])
    async def test_a_name_that_is_none_is_refused(self, colleague, name):
        answer = await colleague.ask("explain", name)
        assert answer.code == 2
        assert "POD has to be NAME, pod/NAME or NAMESPACE/NAME" in answer.complaint


class TestWhyNot:
    @pytest.mark.parametrize("name", ["web", "big"])
    async def test_a_node_that_is_not_there_is_an_error_in_a_sentence(self, colleague, name):
        answer = await colleague.ask("why-not", name, "nowhere")
        assert (answer.code, answer.text) == (2, "")
        assert 'There is no node "nowhere"' in answer.complaint

    @pytest.mark.parametrize(
        ("name", "node", "code", "said"),
        [
            ("web", "large", 0, "default/web: it is on large, one of 3"),
            ("web", "small-1", 0, "default/web could have gone to small-1, but large scored"),
            ("web", "tainted", 1, "default/web is on large. It cannot go to tainted: node(s) had"),
            (
                "big",
                "small-2",
                1,
                "default/big cannot go to small-2: Insufficient cpu (asked 7500m, 2 left, short by "
                "5500m), says NodeResourcesFit.",
            ),
            ("lunar", "large", 1, "default/lunar cannot go to large: node(s) didn't match Pod's"),
            (
                "gated",
                "small-1",
                0,
                "Asked now, default/gated would fit on small-1, once its scheduling gates are "
                "removed: example.com/",
            ),
        ],
    )
    async def test_one_node_is_told_with_its_numbers(self, colleague, name, node, code, said):
        answer = await colleague.ask("why-not", name, node)
        assert answer.text.startswith(said)
        assert answer.code == code, answer.text

    async def test_explain_with_a_node_says_the_same(self, colleague):
        first = await colleague.ask("why-not", "big", "tainted")
        second = await colleague.ask("explain", "big", "--node", "tainted")
        assert (first.code, first.text) == (second.code, second.text)
        assert "with a toleration of gpu=yes:NoSchedule" in first.text

    async def test_programs_get_the_decision_narrowed_to_the_node(self, colleague):
        answer = await colleague.ask("why-not", "web", "tainted", "-o", "json")
        decision = msgspec.json.decode(answer.text, type=Decision)
        (rejection,) = decision.last.rejections
        assert (rejection.nodes, rejection.plugin) == (("tainted",), "TaintToleration")
        assert [one.node for one in decision.last.scores.nodes] == ["large"]


class TestPending:
    async def test_pods_that_wait_are_counted_and_listed(self, colleague):
        answer = await colleague.ask("pending")
        assert answer.code == 1
        sentence, table = answer.blocks
        assert sentence == "3 pods wait in default: 2 unschedulable and 1 gated."
        rows = {line.split()[0]: line for line in table.splitlines()[1:]}
        assert set(rows) == {"big", "lunar", "gated"}
        assert rows["gated"].endswith("example.com/quota")
        assert "Insufficient cpu" in rows["big"]

    async def test_the_summary_groups_them_and_says_what_would_free_most(self, colleague):
        answer = await colleague.ask("pending", "-A", "--summary")
        assert answer.code == 1
        assert "The change that would free most: " in answer.blocks[0]
        assert "without its node selector (+3 nodes)" in answer.text

    async def test_one_pod_is_told_with_the_events_that_wake_it(self, colleague):
        answer = await colleague.ask("pending", "lunar")
        assert (answer.code, answer.text[:20]) == (1, "default/lunar: waiti")
        assert "a node's labels change" in answer.text

    async def test_a_pod_that_has_a_node_does_not_wait(self, colleague):
        answer = await colleague.ask("pending", "web")
        assert (answer.code, answer.text) == (0, "default/web does not wait: it is on large.\n")

    async def test_selectors_select(self, colleague):
        answer = await colleague.ask("pending", "--field-selector=queue=Gated", "-o", "json")
        (item,) = json.loads(answer.text)["items"]
        assert msgspec.convert(item, PendingPod).name == "gated"
        none = await colleague.ask("pending", "-l", "app=none")
        assert (none.code, none.text) == (0, "No pod waits in default.\n")

    async def test_a_namespace_without_waiting_pods_is_a_yes(self, colleague):
        answer = await colleague.ask("pending", "-n", "kube-system")
        assert (answer.code, answer.text) == (0, "No pod waits in kube-system.\n")


class TestWhatIf:
    async def test_pods_that_fit_are_told_with_their_nodes(self, colleague):
        file = colleague.file(pod("new", cpu="5"))
        answer = await colleague.ask("what-if", "-f", file)
        assert (answer.code, answer.blocks[0]) == (0, "It fits, on 1 node.")
        assert answer.blocks[1].splitlines()[1].split()[:3] == ["default/new", "large", "Scheduled"]

    async def test_pods_that_do_not_fit_are_told_with_what_would_help(self, colleague):
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "many"},
            "spec": {"replicas": 30, "template": {"spec": pod("x", cpu="1")["spec"]}},
        }
        file = colleague.file(deployment)
        answer = await colleague.ask("what-if", "-f", file)
        assert answer.code == 1
        assert answer.blocks[0].startswith("11 of 30 fit; the other 19 do not: 3 nodes lack cpu")
        assert "with a toleration of gpu=yes:NoSchedule" in answer.text
        more = await colleague.ask("what-if", "-f", file, "--add-nodes=3=large")
        assert (more.code, more.blocks[0]) == (0, "All 30 fit, on 6 nodes.")
        fewer = await colleague.ask("what-if", "-f", file, "--replicas=2")
        assert (fewer.code, fewer.blocks[0][:8]) == (0, "Both fit")

    async def test_a_node_can_be_drained_without_anything_else(self, colleague):
        answer = await colleague.ask("what-if", "--drain", "large")
        assert answer.code == 0
        assert "drained from large" in answer.text

    async def test_standard_input_and_a_whole_review_will_do(self, colleague):
        review = {
            "apiVersion": "kscheduler.dev/v1alpha1",
            "kind": "PlacementReview",
            "spec": {"drainNodes": ["large"]},
        }
        answer = await colleague.ask("what-if", "-f", "-", "-o", "json", stdin=json.dumps(review))
        status = msgspec.json.decode(answer.text, type=PlacementReview).status
        assert (answer.code, status.fits, status.total) == (0, True, 1)

    @pytest.mark.parametrize(
        ("args", "complaint"),
        [
            ([], "say what is to be placed: -f FILE, or --drain NODE"),
            (["--drain", "nowhere"], 'Error: spec.drainNodes[0]: Not found: "nowhere"'),
            (["-f", "/nowhere.yaml"], "Error: /nowhere.yaml: No such file or directory"),
            (["--drain=large", "--config=/nowhere"], "Error: --config /nowhere: "),
            (["--drain=large", "--add-nodes=many"], '"many" is not COUNT or COUNT=NODE'),
            (["--drain=large", "--add-nodes=1=x"], 'Error: spec.addNodes[0].like: Not found: "x"'),
        ],
    )
    async def test_nonsense_is_refused_in_a_sentence(self, colleague, args, complaint):
        answer = await colleague.ask("what-if", *args)
        assert answer.code == 2
        assert complaint in answer.complaint


class TestTenant:
    """Whoever may view a namespace, and nothing else."""

    @pytest.fixture(autouse=True)
    def tenant(self, colleague):
        api = colleague.cluster.api
        api.users.add(User("jane").authenticated(), TOKEN)
        about = {"apiVersion": "rbac.authorization.k8s.io/v1"}
        about["metadata"] = {"name": "tenant", "namespace": "default"}
        own = ["decisions", "pendingpods", "placementreviews"]
        rules = [
            {"apiGroups": ["kscheduler.dev"], "resources": own, "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        ]
        group = "rbac.authorization.k8s.io"
        subject = {"kind": "User", "name": "jane", "apiGroup": group}
        role = {"kind": "Role", "name": "tenant", "apiGroup": group}
        api.objects.create(about | {"kind": "Role", "rules": rules})
        api.objects.create(about | {"kind": "RoleBinding", "roleRef": role, "subjects": [subject]})

    @pytest.mark.parametrize("level", [[], ["-o", "wide"], ["--all"]])
    async def test_nodes_are_counted_but_not_named(self, colleague, level):
        waiting = await colleague.ask("explain", "big", *level)
        assert waiting.code == 1
        assert "none of 4 nodes can take it" in waiting.text
        assert "This is a partial view: " in waiting.text
        placed = await colleague.ask("explain", "web", *level)
        assert placed.code == 0
        assert "it is on large" in placed.text
        for name in ("small-1", "small-2", "tainted"):
            assert name not in waiting.text + placed.text

    async def test_of_one_node_nothing_is_told_but_the_right_that_it_takes(self, colleague):
        answer = await colleague.ask("why-not", "big", "small-1")
        assert answer.code == 1
        assert answer.blocks[0] == (
            "default/big: Which nodes were rejected, and why which, is not shown to you."
        )
        assert "This is a partial view: node names take the right to list nodes" in answer.text
        assert "short by" not in answer.text

    async def test_a_missing_right_is_named(self, colleague):
        answer = await colleague.ask("explain", "kube-system/p")
        assert answer.code == 2
        assert 'cannot get resource "decisions"' in answer.complaint
        answer = await colleague.ask("what-if", "--drain", "large")
        assert answer.code == 2
        assert "nodes" in answer.complaint


async def test_the_scheduler_is_found_by_its_lease_and_reached_through_its_pod(colleague):
    api = colleague.cluster.api
    forwarding = PortForwarding(lambda namespace, name, port: ("127.0.0.1", colleague.port))

    async def forward(request):
        return await forwarding(request) if request.path.endswith("/portforward") else None

    api.interceptors.append(forward)
    annotations = {"kscheduler.dev/pod": "kube-system/leader", "kscheduler.dev/port": "10259"}
    api.objects.create(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "s", "namespace": "kube-system", "annotations": annotations},
            "spec": {"holderIdentity": "leader"},
        }
    )
    kubeconfig = f"--kubeconfig={colleague.kubeconfig()}"
    answer = await colleague.run("explain", "web", kubeconfig, "--insecure-skip-tls-verify")
    assert answer.code == 0, answer.complaint
    assert forwarding.requests


async def test_a_kubeconfig_is_all_it_takes_to_ask_the_leader(cluster, tmp_path_factory):
    """Its Lease says where it is and which certificate it has."""
    cluster.create(node_manifest("large"))
    port = free_port()
    flags = secure_port(cluster, port)
    async with cluster.scheduler(args=flags, leaderElection=ELECTED, ready=False):
        asked = Colleague(cluster, port, tmp_path_factory.mktemp("asked"))
        cluster.create(pod("web"))
        await until(lambda: cluster.place("web"))
        await until(lambda: "kscheduler.dev/address" in str(lease(cluster)))
        answer = await asked.run("explain", "web", f"--kubeconfig={asked.kubeconfig()}")
        assert answer.code == 0, answer.complaint
        assert answer.text.startswith("default/web: it is on large, the only node there is.")


async def test_without_a_kubeconfig_it_is_said_how_to_name_one(colleague, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    answer = await colleague.run("explain", "web")
    assert answer.code == 2
    assert answer.complaint.startswith("Error: There is no kubeconfig: name one with --kubeconfig")


def lease(cluster):
    return cluster.api.objects.find("leases.coordination.k8s.io", "kube-scheduler", "kube-system")


def margin(sentence):
    return re.search(r"highest, (\d+) above", sentence)[1]
