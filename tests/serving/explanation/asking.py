"""A daemon with a secure port beside an API server that decides on askers, and ways to ask it."""

import asyncio
import io
import json
from contextlib import asynccontextmanager

import aiohttp

from kscheduler import app
from kscheduler.cli.command_line import parse
from kscheduler.sandbox import ApiServer, User, node_manifest
from tests.kit.manifests import pod_manifest
from tests.kit.polling import PATIENCE_SECONDS, until
from tests.kit.ports import free_port

GROUP = "kscheduler.dev"
ROOT = f"/apis/{GROUP}/v1alpha1"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
RBAC = "rbac.authorization.k8s.io"

# Askers by what they may do; the token is the name.
NOBODY, TENANT, NODES, ALL, ROOT_USER = "nobody", "tenant", "nodes", "all", "root"
TOKENS = {
    **{f"{name}-token": User(name) for name in (NOBODY, TENANT, NODES, ALL)},
    "root-token": User(ROOT_USER, ("system:masters",)),
}
API = {"apiGroups": [GROUP], "resources": ["*"], "verbs": ["*"]}
GET_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
LIST_NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}


def grant(api, user, *rules, namespace=""):
    """A role with these rules, in one namespace or in all, for the user."""
    kind = "Role" if namespace else "ClusterRole"
    name = f"{user}-{len(rules)}-{namespace or 'all'}-{abs(hash(json.dumps(rules))) % 10_000}"
    about = {"apiVersion": f"{RBAC}/v1", "metadata": {"name": name, "namespace": namespace}}
    if not namespace:
        del about["metadata"]["namespace"]
    api.objects.create(about | {"kind": kind, "rules": list(rules)})
    api.objects.create(
        about
        | {
            "kind": f"{kind}Binding",
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": name},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
        }
    )


class Answer:
    def __init__(self, status, headers, text):
        self.status = status
        self.headers = headers
        self.text = text

    @property
    def body(self):
        return json.loads(self.text)

    @property
    def names(self):
        return [one["metadata"]["name"] for one in self.body["items"]]

    @property
    def refusal(self):
        """Code, reason and message of a Status, which everything that is refused must be."""
        body = self.body
        assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
        assert body["code"] == self.status
        return body["code"], body["reason"], body["message"]


class Explained:
    """The daemon, its API server, and its secure port."""

    def __init__(self, api, daemon, session, port):
        self.api = api
        self.daemon = daemon
        self.session = session
        self.url = f"https://127.0.0.1:{port}"

    async def ask(self, path, user=ROOT_USER, *, method="GET", accept="", body=None, headers=()):
        if isinstance(body, dict):
            body = json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {user}-token", "Accept": accept or "application/json"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        async with self.session.request(
            method,
            self.url + path,
            headers=sent | dict(headers),
            data=None if body is None else io.BytesIO(body),
            timeout=aiohttp.ClientTimeout(PATIENCE_SECONDS),
        ) as answer:
            return Answer(answer.status, answer.headers, await answer.text(errors="replace"))

    def get(self, path, user=ROOT_USER, **how):
        return self.ask(f"{ROOT}{path}", user, **how)

    def review(self, spec, user=ROOT_USER, *, namespace="default", query="", **how):
        where = f"/namespaces/{namespace}" if namespace else ""
        body = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "PlacementReview", "spec": spec}
        path = f"{ROOT}{where}/placementreviews{query}"
        return self.ask(path, user, method="POST", body=body, **how)

    @asynccontextmanager
    async def watching(self, query="", user=ROOT_USER, *, of="decisions"):
        """Events of a watch, as `(type, object)`."""
        headers = {"Authorization": f"Bearer {user}-token"}
        url = f"{self.url}{ROOT}/{of}?watch=true{query}"
        async with self.session.get(url, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            yield Events(answer)

    async def place(self, *names, namespace="default", **pod):
        """Creates pods and waits until they are decided on."""
        for name in names:
            self.api.objects.create(pod_manifest(name, namespace=namespace, **pod))
        log = self.daemon.scheduler.decisions
        if log is not None:
            await until(lambda: all(log.get(namespace, name) for name in names))


class Events:
    def __init__(self, answer):
        self._answer = answer

    async def next(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            line = await self._answer.content.readline()
        if not line:
            return None
        event = json.loads(line)
        return event["type"], event["object"]

    async def named(self, count):
        found = [await self.next() for _ in range(count)]
        return [(kind, one["metadata"]["name"]) for kind, one in found]


@asynccontextmanager
async def running(folder, *flags, nodes=3, elect=False):
    """A daemon at work; two namespaces and some nodes, and the askers' rights."""
    async with ApiServer(tokens=TOKENS, tls=True) as api:
        for namespace in ("other", "third"):
            api.objects.create(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
            )
        for number in range(nodes):
            api.objects.create(node_manifest(f"node-{number}"))
        grant(api, TENANT, API, GET_PODS, namespace="default")
        grant(api, NODES, API, LIST_NODES)
        grant(api, NODES, GET_PODS, namespace="default")
        grant(api, ALL, API, LIST_NODES, GET_PODS)
        kubeconfig = folder / "kubeconfig"
        api.write_kubeconfig(kubeconfig, User("system:kube-scheduler"))
        async with daemon_beside(api, kubeconfig, *flags, elect=elect) as explained:
            yield explained


@asynccontextmanager
async def daemon_beside(api, kubeconfig, *flags, elect=False):
    port = free_port()
    elected = ["--leader-elect-retry-period=50ms"] if elect else ["--leader-elect=false"]
    options, _ = parse(
        [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--kube-api-qps=-1",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            *elected,
            *flags,
        ]
    )
    async with app.setup(options, options.gates()) as daemon:
        task = asyncio.create_task(daemon.run())
        try:
            await until(lambda: daemon.explanations is not None and daemon.synced)
            connector = aiohttp.TCPConnector(ssl=False)
            async with aiohttp.ClientSession(connector=connector) as session:
                yield Explained(api, daemon, session, port)
        finally:
            daemon.stopping.set()
            await asyncio.wait({task}, timeout=PATIENCE_SECONDS)
            assert task.done()
            if not task.cancelled():
                task.exception()
