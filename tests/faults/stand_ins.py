"""Parts of a cluster that nobody runs here: kubelets, the volume and the claim controller.

They talk to the server past the proxy: only the scheduler meets faults. Each hears of changes
through mirrors and writes what its original would write; what fails is tried again, unless somebody
else was faster.
"""

import asyncio
import contextlib
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from fractions import Fraction
from functools import partial

from tests.e2e.api import Api, Json, RefusedError
from tests.faults.mirror import AGAIN_SECONDS, DELETED, UNREACHABLE, Mirror, key_of, uid_of
from tests.kit.checker import FINISHED, collide, host_ports, quantity, requests, selected, tolerates
from tests.kit.claim_checker import allocation_of
from tests.kit.devices import FINALIZER
from tests.kit.manifests import HOSTNAME

WORKERS = 4
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND = {"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"}
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
OWN_FAILURES = (404, 409, 422)

Work = Callable[[], Awaitable[object]]


class Hands:
    """Writes that are carried out one after the other, by a few workers."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Work] = asyncio.Queue()
        self._busy = 0

    def do(self, work: Work) -> None:
        self._queue.put_nowait(work)

    @property
    def idle(self) -> bool:
        return self._queue.empty() and not self._busy

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for number in range(WORKERS):
                tasks.create_task(self._work(), name=f"hands/{number}")

    async def _work(self) -> None:
        while True:
            work = await self._queue.get()
            self._busy += 1
            try:
                await work()
            except RefusedError as error:
                # Gone, or changed meanwhile, which is told and dealt with as another change.
                if error.code not in OWN_FAILURES:
                    self._again(work)
            except UNREACHABLE:
                self._again(work)
            finally:
                self._busy -= 1

    def _again(self, work: Work) -> None:
        asyncio.get_running_loop().call_later(AGAIN_SECONDS, self.do, work)


class Kubelets:
    """All nodes' kubelets: they admit pods as a kubelet does, run them, and end them."""

    def __init__(self, api: Api, hands: Hands, pods: Mirror, nodes: Mirror) -> None:
        self._api = api
        self._hands = hands
        self._nodes = nodes
        # By node, then by uid: pods that were admitted and have not ended.
        self._admitted: dict[str, dict[str, Json]] = defaultdict(dict)
        self._refused: set[str] = set()
        # By reason, pods for which there was no room: what a scheduler has overcommitted.
        self.overcommitted: Counter[str] = Counter()
        # The reason for which a row has a kubelet refuse a pod that it could run; empty for none.
        self.refuses: Callable[[Json], str] = lambda pod: ""
        pods.listeners.append(self._pod_changed)

    def _pod_changed(self, kind: str, pod: Json) -> None:
        node, uid = pod["spec"].get("nodeName"), uid_of(pod)
        if not node:
            return
        here = self._admitted[node]
        namespace, name = key_of(pod)
        if kind == DELETED or pod["status"].get("phase") in FINISHED:
            here.pop(uid, None)
            return
        if pod["metadata"].get("deletionTimestamp"):
            self._hands.do(lambda: self._api.delete("pods", name, namespace))
            return
        if uid in here or uid in self._refused:
            return
        why = next(self._lacks(pod, node), "")
        self.overcommitted.update([why] if why else [])
        why = why or self.refuses(pod)
        if why:
            self._refused.add(uid)
            status: Json = {"phase": "Failed", "reason": why, "message": f"Pod was rejected: {why}"}
        else:
            here[uid] = pod
            status = {"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1"}
        self._hands.do(
            lambda: self._api.patch("pods", name, {"status": status}, namespace, "status")
        )

    def _lacks(self, pod: Json, node_name: str) -> Iterator[str]:
        """A kubelet's reasons not to admit a pod, in its own words."""
        node = self._nodes.items.get(("", node_name))
        if node is None:
            # It was deleted; its kubelet is gone.
            return
        here = self._admitted[node_name].values()
        used: dict[str, Fraction] = defaultdict(Fraction, {"pods": Fraction(len(here) + 1)})
        for one in (*here, pod):
            for resource, amount in requests(one).items():
                used[resource] += amount
        for resource, amount in used.items():
            if amount > quantity(node["status"]["allocatable"].get(resource, "0")):
                yield f"OutOf{resource}"
        if not selected(pod, node):
            yield "NodeAffinity"
        taken = [port for one in here for port in host_ports(one)]
        if any(collide(port, other) for port in host_ports(pod) for other in taken):
            yield "NodePorts"
        evicting = [one for one in node["spec"].get("taints") or () if one["effect"] == "NoExecute"]
        tolerations = pod["spec"].get("tolerations") or ()
        if not all(any(tolerates(one, taint) for one in tolerations) for taint in evicting):
            yield "TaintToleration"


class VolumeController:
    """Binds claims that a scheduler has chosen a volume for, and makes those that it asks for."""

    def __init__(self, api: Api, hands: Hands, volumes: Mirror, claims: Mirror) -> None:
        self._api = api
        self._hands = hands
        self._volumes = volumes
        self._claims = claims
        self._in_work: set[str] = set()
        volumes.listeners.append(self._volume_changed)
        claims.listeners.append(self._claim_changed)

    def _volume_changed(self, kind: str, volume: Json) -> None:
        reference = volume["spec"].get("claimRef")
        if kind != DELETED and reference:
            key = reference["namespace"], reference["name"]
            claim = self._claims.items.get(key)
            if claim is not None:
                self._claim_changed(kind, claim)

    def _claim_changed(self, kind: str, claim: Json) -> None:
        uid = uid_of(claim)
        if kind == DELETED or claim["spec"].get("volumeName") or uid in self._in_work:
            return
        volume = next((one for one in self._volumes.items.values() if meant_for(one, claim)), None)
        node = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if volume is not None:
            name = volume["metadata"]["name"]
            self._start(uid, lambda: self._bind(claim, name))
        elif node:
            self._start(uid, lambda: self._provision(claim, node))

    def _start(self, uid: str, work: Work) -> None:
        async def worked() -> None:
            try:
                await work()
            except UNREACHABLE:
                self._in_work.discard(uid)
                raise

        self._in_work.add(uid)
        self._hands.do(worked)

    async def _provision(self, claim: Json, node: str) -> None:
        there = {"key": HOSTNAME, "operator": "In", "values": [node]}
        name = f"pvc-{uid_of(claim)}"
        body = volume_manifest(name, claim["spec"]["storageClassName"], claimRef=reference(claim))
        body["spec"]["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}
        }
        body["metadata"]["annotations"] = {PROVISIONED_BY: "csi.example.com"}
        with contextlib.suppress(RefusedError):
            await self._api.create("persistentvolumes", body)
        await self._bind(claim, name)

    async def _bind(self, claim: Json, volume: str) -> None:
        namespace, name = key_of(claim)
        bound = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume}}
        phase = {"status": {"phase": "Bound"}}
        await self._api.patch("persistentvolumes", volume, phase, "", "status")
        await self._api.patch("persistentvolumeclaims", name, bound, namespace)
        await self._api.patch("persistentvolumeclaims", name, phase, namespace, "status")


class ClaimController:
    """Releases claims for devices whose pod is gone, and deletes those that the pod has owned.

    Claims of a pod on a node are reserved for it, if nobody has done so, as the original does it:
    a scheduler that takes a binding for failed takes its reservation back.
    """

    def __init__(self, api: Api, hands: Hands, pods: Mirror, claims: Mirror) -> None:
        self._api = api
        self._hands = hands
        self._pods = pods
        self._claims = claims
        pods.listeners.append(self._pod_changed)
        claims.listeners.append(self._claim_changed)

    def _pod_changed(self, kind: str, pod: Json) -> None:
        uid, ended = uid_of(pod), kind == DELETED or pod["status"].get("phase") in FINISHED
        for claim in list(self._claims.items.values()):
            concerned = uid in (*users_of(claim), *owners_of(claim))
            unreserved = _is_placed(pod) and uid not in users_of(claim)
            if concerned and (ended or unreserved):
                self._hands.do(partial(self._sync, key_of(claim)))

    def _claim_changed(self, kind: str, claim: Json) -> None:
        """A scheduler may reserve a claim for a pod that has just gone."""
        if kind == DELETED:
            return
        pods = {uid_of(pod): pod for pod in self._pods.items.values()}
        placed = [uid for uid in owners_of(claim) if uid in pods and _is_placed(pods[uid])]
        users = users_of(claim)
        if not pods.keys() >= set(users) or not set(users) >= set(placed):
            self._hands.do(partial(self._sync, key_of(claim)))

    async def _sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        where = f"apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
        claim = await self._api.find("resourceclaims", name, namespace)
        if claim is None:
            return
        owners = claim["metadata"].get("ownerReferences") or []
        users = (claim.get("status") or {}).get("reservedFor") or []
        # Asked of the server: a mirror of pods may lag behind that of claims.
        living = {
            uid_of(pod): pod
            for one in (*owners, *users)
            if (pod := await self._api.find("pods", one["name"], namespace)) is not None
            and pod["status"].get("phase") not in FINISHED
        }
        left = [user for user in users if user["uid"] in living]
        placed = [one for one in owners if _is_placed(living.get(one["uid"]))]
        if allocation_of(claim) and placed and not left:
            user = {"resource": "pods", "name": placed[0]["name"], "uid": placed[0]["uid"]}
            claim["status"]["reservedFor"] = [user]
            await self._api.send("PUT", f"{where}/status", claim)
        elif len(left) < len(users) or (owners and not living):
            claim["status"] = {**claim["status"], "reservedFor": left} if left else {}
            claim = await self._api.send("PUT", f"{where}/status", claim)
            if not left and FINALIZER in claim["metadata"].get("finalizers", ()):
                claim["metadata"]["finalizers"].remove(FINALIZER)
                await self._api.send("PUT", where, claim)
        if owners and not living:
            await self._api.delete("resourceclaims", name, namespace)


def _is_placed(pod: Json | None) -> bool:
    return pod is not None and bool(pod["spec"].get("nodeName"))


def meant_for(volume: Json, claim: Json) -> bool:
    """Whether a volume was chosen for this claim."""
    return (volume["spec"].get("claimRef") or {}).get("uid") == uid_of(claim)


def reference(claim: Json) -> Json:
    namespace, name = key_of(claim)
    identity = {"namespace": namespace, "name": name, "uid": uid_of(claim)}
    return {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **identity}


def volume_manifest(name: str, storage_class: str, **spec: object) -> Json:
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": "csi.example.com", "volumeHandle": name},
            **spec,
        },
    }


def users_of(claim: Json) -> list[str]:
    return [user["uid"] for user in (claim.get("status") or {}).get("reservedFor") or ()]


def owners_of(claim: Json) -> list[str]:
    return [owner["uid"] for owner in claim["metadata"].get("ownerReferences") or ()]
