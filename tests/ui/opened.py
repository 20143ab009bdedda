"""The page of a scheduler at work on the embedded cluster, opened by users with their rights."""

import asyncio
import json
from contextlib import asynccontextmanager

import aiohttp

from kscheduler.client.clientcmd.loading_rules import Overrides, load_client_config
from kscheduler.client.explanation_client import Target, reach
from kscheduler.sandbox import ADMIN, User
from kscheduler.ui.reached import ReachedSource
from kscheduler.ui.server import Server
from tests.kit.ports import free_port

OWN_API = "kscheduler.dev"
# Rights by which the page shows anything of a namespace, and of nodes.
NAMESPACED = [
    {
        "apiGroups": [OWN_API],
        "resources": ["decisions", "pendingpods"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": [OWN_API], "resources": ["placementreviews"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
]


class House:
    """A cluster with its scheduler; `page_of` opens the page as somebody."""

    def __init__(self, cluster, port, folder):
        self.cluster, self.port, self.folder = cluster, port, folder

    @classmethod
    @asynccontextmanager
    async def built(cls, cluster, folder, **config):
        port, where = free_port(), cluster.kubeconfig()
        flags = ["--bind-address=127.0.0.1", f"--secure-port={port}"]
        flags += [f"--authentication-kubeconfig={where}", f"--authorization-kubeconfig={where}"]
        async with cluster.scheduler(args=flags, **config) as running:
            house = cls(cluster, port, folder)
            house.daemon = running.daemon
            try:
                yield house
            finally:
                # Politely, so that watches are ended and not waited for.
                await running.stop()

    async def is_serving(self):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def let_in(self, name, namespace, rules):
        """Gives a user rights in one namespace."""
        about = {"name": name, "namespace": namespace}
        self.cluster.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "Role",
                "metadata": about,
                "rules": rules,
            },
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": about,
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
                "subjects": [
                    {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
                ],
            },
        )

    @asynccontextmanager
    async def page_of(self, user=ADMIN, namespace="default"):
        """The page as this user opens it, served but not yet opened."""
        target = Target(server=f"https://127.0.0.1:{self.port}", insecure=True)
        async with self.page_by(target, user, namespace) as server:
            yield server

    @asynccontextmanager
    async def page_by(self, target, user=ADMIN, namespace="default"):
        """The page of the scheduler that `target` leads to."""
        api = self.cluster.api
        token = api.users.add(user if isinstance(user, User) else User(user))
        config = api.kubeconfig()
        config["users"][0]["user"] = {"token": token}
        config["contexts"][0]["context"]["namespace"] = namespace
        path = self.folder / f"{token}.kubeconfig"
        path.write_text(json.dumps(config))
        client_config = load_client_config(Overrides(kubeconfig=str(path)))
        source = ReachedSource(
            lambda: reach(client_config, target, agent="test", timeout_seconds=20.0),
            namespace=namespace,
        )
        async with source, Server(source).serving() as server:
            # As the command does it before it prints the address.
            await source.reached()
            yield server


class Browser:
    """Requests of one browser, cookies kept, but nothing drawn."""

    def __init__(self, server):
        self.server = server
        jar = aiohttp.CookieJar(unsafe=True)
        self.session = aiohttp.ClientSession(f"http://127.0.0.1:{server.port}", cookie_jar=jar)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.session.close()

    async def open(self):
        address = self.server.address.split(str(self.server.port), 1)[1]
        return await self.get(address)

    async def get(self, path, **options):
        async with self.session.get(path, **options) as answer:
            answer.body = await answer.text()
            return answer

    async def post(self, path, fields, **options):
        origin = {"Origin": f"http://127.0.0.1:{self.server.port}"}
        headers = {**origin, **options.pop("headers", {})}
        headers = {name: value for name, value in headers.items() if value is not None}
        async with self.session.post(path, data=fields, headers=headers, **options) as answer:
            answer.body = await answer.text()
            return answer

    @asynccontextmanager
    async def events(self, path="/events"):
        """Server-sent events as (event, id, data)."""
        async with self.session.get(path) as answer:
            assert answer.status == 200

            async def read():
                lines = {}
                while True:
                    line = (await asyncio.wait_for(answer.content.readline(), 30)).decode().strip()
                    if line and not line.startswith(":"):
                        name, _, value = line.partition(": ")
                        lines[name] = value
                    elif lines:
                        event = lines["event"], int(lines["id"]), json.loads(lines["data"])
                        lines = {}
                        return event

            yield read
