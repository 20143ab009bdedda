"""Pods with volumes. The test plays whoever binds, makes and attaches volumes."""

import pytest

from tests.e2e.api import until
from tests.e2e.doorkeeper import doorkeeper
from tests.kit.manifests import HOSTNAME, node_manifest, pod_manifest

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
DRIVER = "csi.example.com"
# What a daemon says of a pod whose volumes could not be bound.
BINDING_FAILED = "binding volumes: "


@pytest.fixture
async def storage(cluster):
    """What belongs to no namespace is gone after the test, and so are claims."""
    storage = Storage(cluster)
    yield storage
    await cluster.end_daemons()
    await storage.clear()


class Storage:
    """Volumes, and the parts that controllers have."""

    def __init__(self, cluster):
        self.api, self.namespace, self.known = cluster.api, cluster.namespace, cluster.known

    def named(self, name):
        """Unlike any other test's."""
        return f"{self.namespace}-{name}"

    async def create_class(self, name, provisioner=DRIVER):
        body = {
            "metadata": {"name": self.named(name)},
            "provisioner": provisioner,
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await self.api.create("storageclasses", body)

    async def create_volume(self, name, of, host="", modes=("ReadWriteOnce",), **spec):
        """Available; with a `host`, only there."""
        body = {
            "metadata": {"name": self.named(name)},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": list(modes),
                "storageClassName": self.named(of),
                "csi": {"driver": DRIVER, "volumeHandle": name},
                "mountOptions": ["noatime"],
                **spec,
            },
        }
        if host:
            there = {"key": HOSTNAME, "operator": "In", "values": [host]}
            terms = [{"matchExpressions": [there]}]
            body["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        made = await self.api.create("persistentvolumes", body)
        status = {"status": {"phase": "Available"}}
        await self.api.patch("persistentvolumes", self.named(name), status, "", "status")
        return made

    async def create_claim(self, name, of, modes=("ReadWriteOnce",)):
        body = {
            "metadata": {"name": name},
            "spec": {
                "accessModes": list(modes),
                "storageClassName": self.named(of),
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        return await self.api.create("persistentvolumeclaims", body, self.namespace)

    async def create_bound_claim(self, name, of, **options):
        """With a volume of the same name."""
        claim = await self.create_claim(name, of, **options)
        await self.create_volume(name, of, claimRef=self.reference(claim), **options)
        await self.bind(name, name)

    async def create_csi_node(self, name, count):
        driver = {"name": DRIVER, "nodeID": name, "topologyKeys": [HOSTNAME]}
        drivers = [driver | {"allocatable": {"count": count}}]
        body = {"metadata": {"name": name}, "spec": {"drivers": drivers}}
        await self.api.create("csinodes", body)

    async def attach(self, volume, host):
        body = {
            "metadata": {"name": self.named(volume)},
            "spec": {
                "attacher": DRIVER,
                "nodeName": host,
                "source": {"persistentVolumeName": self.named(volume)},
            },
        }
        await self.known("volumeattachments", await self.api.create("volumeattachments", body))

    async def detach(self, volume):
        await self.api.delete("volumeattachments", self.named(volume))

    def reference(self, claim):
        about = claim["metadata"]
        identity = {"namespace": about["namespace"], "name": about["name"], "uid": about["uid"]}
        return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **identity}

    async def claim(self, name):
        return await self.api.get("persistentvolumeclaims", name, self.namespace)

    async def chosen_volume(self, claim):
        """The volume that was chosen for a claim, once one was."""

        async def chosen():
            for volume in await self.api.list("persistentvolumes"):
                if volume["spec"].get("claimRef", {}).get("name") == claim:
                    return volume
            return None

        volume = await until(chosen, f"a volume is chosen for {claim}")
        volume["name"] = volume["metadata"]["name"].removeprefix(f"{self.namespace}-")
        return volume

    async def selected_node(self, claim):
        async def selected():
            annotations = (await self.claim(claim))["metadata"].get("annotations", {})
            return annotations.get(SELECTED_NODE)

        return await until(selected, f"a node is selected for {claim}")

    async def select_node(self, claim, host):
        """What a provisioner does that cannot make a volume where it was asked to: None, or says
        where it can.
        """
        body = {"metadata": {"annotations": {SELECTED_NODE: host}}}
        await self.api.patch("persistentvolumeclaims", claim, body, self.namespace)

    async def bind(self, claim, volume):
        """The volume controller's part, when the volume says whose it is."""
        body = {
            "metadata": {"annotations": BOUND},
            "spec": {"volumeName": self.named(volume)},
        }
        await self.api.patch("persistentvolumeclaims", claim, body, self.namespace)
        status = {"status": {"phase": "Bound"}}
        await self.api.patch("persistentvolumeclaims", claim, status, self.namespace, "status")
        await self.api.patch("persistentvolumes", self.named(volume), status, "", "status")

    async def provision(self, claim):
        """The provisioner's part, and then the controller's; the node it was done for."""
        host = await self.selected_node(claim)
        reference = self.reference(await self.claim(claim))
        await self.create_volume(f"made-for-{claim}", "wait", host, claimRef=reference)
        await self.bind(claim, f"made-for-{claim}")
        return host

    async def clear(self):
        for resource in ("volumeattachments", "csinodes", "storageclasses"):
            await self.api.delete_all(resource)
        await self._delete_protected("persistentvolumeclaims", self.namespace)
        await self._delete_protected("persistentvolumes", "")

    async def _delete_protected(self, resource, namespace):
        for item in await self.api.list(resource, namespace):
            name = item["metadata"]["name"]
            unprotected = {"metadata": {"finalizers": None}}
            await self.api.patch(resource, name, unprotected, namespace)
            await self.api.delete(resource, name, namespace)


def using(name, *claims, **fields):
    volumes = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    return pod_manifest(name, volumes=volumes, **fields)


def quick(cluster, timeout=None):
    """A configuration under which failures are tried again soon."""
    text = "podInitialBackoffSeconds: 1\npodMaxBackoffSeconds: 1\n"
    if timeout is not None:
        args = f"[{{name: VolumeBinding, args: {{bindTimeoutSeconds: {timeout}}}}}]"
        text += f"profiles: [{{schedulerName: default-scheduler, pluginConfig: {args}}}]\n"
    return cluster.config("quick", text)


async def failure(cluster, name, text):
    """Until users have been told that a pod failed for this reason."""

    async def told():
        return any(
            text in event["note"] for event in await cluster.events(name, "FailedScheduling")
        )

    await until(told, f"pod {name} fails with {text!r}")


async def test_volumes_that_are_there_decide_where_pods_go(cluster, storage):
    await cluster.create_nodes(*(node_manifest(f"n{n}") for n in range(3)))
    await storage.create_class("local", "kubernetes.io/no-provisioner")
    for host in ("n1", "n2"):
        await storage.create_volume(f"on-{host}", "local", host)
    await cluster.start_daemon()
    for number in range(2):
        await storage.create_claim(f"data-db-{number}", "local")
        await cluster.create_pods(using(f"db-{number}", f"data-db-{number}"))

    for number in range(2):
        volume = await storage.chosen_volume(f"data-db-{number}")
        claim = await storage.claim(f"data-db-{number}")
        assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
        assert volume["spec"]["mountOptions"] == ["noatime"]
        assert (await cluster.pod(f"db-{number}"))["spec"].get("nodeName") is None
        await storage.bind(f"data-db-{number}", volume["name"])
        assert volume["name"] == f"on-{await cluster.node_of(f'db-{number}')}"


async def test_a_pod_without_a_volume_to_take_waits_for_one(cluster, storage):
    await cluster.create_nodes(node_manifest("n1"))
    await storage.create_class("local", "kubernetes.io/no-provisioner")
    await storage.create_claim("c", "local")
    await cluster.start_daemon()
    await cluster.create_pods(using("p", "c"))
    assert (await cluster.refusal_of("p")).startswith(
        "0/1 nodes are available: 1 node(s) didn't find available persistent volumes to bind."
    )
    await storage.create_volume("late", "local", "n1")
    volume = await storage.chosen_volume("c")
    await storage.bind("c", volume["name"])
    assert await cluster.node_of("p") == "n1"


async def test_volumes_are_made_for_the_node_that_was_selected(cluster, storage):
    await cluster.create_nodes(*(node_manifest(f"n{n}") for n in range(3)))
    await storage.create_class("wait")
    await cluster.start_daemon()
    for number in range(3):
        await storage.create_claim(f"data-db-{number}", "wait")
        await cluster.create_pods(using(f"db-{number}", f"data-db-{number}"))
    for number in range(3):
        host = await storage.provision(f"data-db-{number}")
        assert await cluster.node_of(f"db-{number}") == host


async def test_a_provisioner_that_fails_sends_the_pod_back(cluster, storage):
    cluster.expected_errors.append(BINDING_FAILED)
    await cluster.create_nodes(node_manifest("n1"))
    await storage.create_class("wait")
    await storage.create_claim("c", "wait")
    daemon = await cluster.start_daemon(quick(cluster))
    await cluster.create_pods(using("p", "c"))

    await storage.selected_node("c")
    await storage.select_node("c", None)
    await failure(cluster, "p", BINDING_FAILED)
    assert await storage.provision("c") == "n1"
    assert await cluster.node_of("p") == "n1"
    await daemon.shows('scheduler_cache_size{type="assumed_pods"}', 0)


async def test_a_provisioner_that_chooses_another_node_takes_the_pod_there(cluster, storage):
    cluster.expected_errors.append(BINDING_FAILED)
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await storage.create_class("wait")
    await storage.create_claim("c", "wait")
    await cluster.start_daemon(quick(cluster))
    await cluster.create_pods(using("p", "c"))

    first = await storage.selected_node("c")
    other = {"n1": "n2", "n2": "n1"}[first]
    await storage.select_node("c", other)
    await failure(cluster, "p", 'binding volumes: provisioning failed for PVC "c"')
    assert await storage.provision("c") == other
    assert await cluster.node_of("p") == other


async def test_binding_that_takes_too_long_is_tried_again(cluster, storage):
    cluster.expected_errors.append(BINDING_FAILED)
    await cluster.create_nodes(node_manifest("n1"))
    await storage.create_class("wait")
    await storage.create_claim("c", "wait")
    daemon = await cluster.start_daemon(quick(cluster, timeout=2))
    await cluster.create_pods(using("p", "c"))

    await failure(cluster, "p", "binding volumes: context deadline exceeded")
    assert await storage.provision("c") == "n1"
    assert await cluster.node_of("p") == "n1"
    await daemon.shows('scheduler_cache_size{type="assumed_pods"}', 0)


async def test_a_claim_for_one_pod_is_taken_from_a_less_important_one(cluster, storage, priorities):
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await storage.create_class("wait")
    await storage.create_bound_claim("c", "wait", modes=("ReadWriteOncePod",))
    await cluster.start_daemon()
    await cluster.create_pods(using("low", "c", **priorities["low"]))
    await cluster.node_of("low")
    await cluster.create_pods(using("equal", "c", **priorities["low"]))
    assert (await cluster.refusal_of("equal")).startswith(
        "0/2 nodes are available: 2 node(s) unavailable due to PersistentVolumeClaim with "
        "ReadWriteOncePod access mode already in-use by another pod."
    )
    await cluster.delete_pod("equal")
    await cluster.create_pods(using("high", "c", **priorities["high"]))

    async def evicted():
        return "deletionTimestamp" in (await cluster.pod("low"))["metadata"]

    await until(evicted, "the less important pod has to go")
    await cluster.delete_pod("low")
    await cluster.node_of("high")


async def test_a_node_takes_as_many_volumes_as_its_driver_can(cluster, storage):
    await cluster.create_nodes(node_manifest("n1"))
    await storage.create_csi_node("n1", 2)
    await storage.create_class("wait")
    for name in "abc":
        await storage.create_bound_claim(name, "wait")
    await cluster.start_daemon()
    for name in "ab":
        await cluster.create_pods(using(f"p-{name}", name))
        assert await cluster.node_of(f"p-{name}") == "n1"
        await storage.attach(name, "n1")
    await cluster.create_pods(using("p-c", "c"), using("again", "a"))
    # A volume that is there already is no further one.
    assert await cluster.node_of("again") == "n1"
    await cluster.becomes_refused(
        "p-c", "0/1 nodes are available: 1 node(s) exceed max volume count."
    )
    await cluster.delete_pod("p-b")
    # As long as it is attached, a volume counts whether a pod uses it or not.
    await cluster.create_pods(using("while-attached", "c"))
    await cluster.refusal_of("while-attached")
    assert (await cluster.pod("p-c"))["spec"].get("nodeName") is None
    await storage.detach("b")
    assert await cluster.nodes_of("p-c", "while-attached") == {"p-c": "n1", "while-attached": "n1"}


async def test_a_daemon_killed_between_two_writes_leaves_nothing_behind(cluster, storage):
    """One claim has a volume to take, for the other one is to be made: the daemon dies when the
    first is written and the second is not.
    """
    await cluster.create_nodes(node_manifest("n1"), node_manifest("n2"))
    await storage.create_class("local", "kubernetes.io/no-provisioner")
    await storage.create_class("wait")
    await storage.create_volume("on-n1", "local", "n1")
    await storage.create_volume("on-n2", "local", "n2")
    await storage.create_claim("static", "local")
    await storage.create_claim("made", "wait")
    claims = "/persistentvolumeclaims/"
    async with doorkeeper(cluster.kubeconfig, "PUT", claims) as (keeper, past_the_door):
        first = await cluster.start_daemon(f"--kubeconfig={past_the_door}")
        await cluster.create_pods(using("p", "static", "made"))
        await until(keeper.seen, "the second write is on its way")
        await first.kill()
    taken = await storage.chosen_volume("static")
    assert "annotations" not in (await storage.claim("made"))["metadata"]
    assert (await cluster.pod("p"))["spec"].get("nodeName") is None

    second = await cluster.start_daemon()
    where = taken["name"].removeprefix("on-")
    # The next one goes on from there: the same volume, and its node.
    assert await storage.selected_node("made") == where
    assert (await storage.chosen_volume("static"))["name"] == taken["name"]
    await storage.bind("static", taken["name"])
    assert await storage.provision("made") == where
    assert await cluster.node_of("p") == where
    await second.shows('scheduler_cache_size{type="assumed_pods"}', 0)
    left = {"n1": "on-n2", "n2": "on-n1"}[where]
    volume = await cluster.api.get("persistentvolumes", storage.named(left))
    assert "claimRef" not in volume["spec"]
