"""A small client for tests, of either cluster: JSON in, JSON out, and waiting for what should be.

Deliberately not the program's own client: what both misunderstand would go unnoticed.
"""

import base64
import json
import os
import ssl
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.kit import polling

Json = dict[str, Any]

POLL_SECONDS = 0.05
# Generous, since machines are busy; who waits for failures, as one does without a rule, sets less.
PATIENCE_SECONDS = float(os.environ.get("KSCHEDULER_E2E_PATIENCE") or 90)
MOST_BYTES_PER_LINE = 1 << 20
JSON = "application/json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
AT_ONCE = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
GROUPS = {
    "apiservices": "apis/apiregistration.k8s.io/v1",
    "events": "apis/events.k8s.io/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "replicasets": "apis/apps/v1",
    "poddisruptionbudgets": "apis/policy/v1",
    "priorityclasses": "apis/scheduling.k8s.io/v1",
    "runtimeclasses": "apis/node.k8s.io/v1",
    "clusterroles": "apis/rbac.authorization.k8s.io/v1",
    "clusterrolebindings": "apis/rbac.authorization.k8s.io/v1",
    "rolebindings": "apis/rbac.authorization.k8s.io/v1",
    "storageclasses": "apis/storage.k8s.io/v1",
    "csinodes": "apis/storage.k8s.io/v1",
    "volumeattachments": "apis/storage.k8s.io/v1",
    "roles": "apis/rbac.authorization.k8s.io/v1",
    "deviceclasses": "apis/resource.k8s.io/v1",
    "devicetaintrules": "apis/resource.k8s.io/v1",
    "resourceclaims": "apis/resource.k8s.io/v1",
    "resourceclaimtemplates": "apis/resource.k8s.io/v1",
    "resourceslices": "apis/resource.k8s.io/v1",
}


class RefusedError(Exception):
    """The server answered with a Status that is not success."""

    def __init__(self, code: int, body: str) -> None:
        super().__init__(f"{code}: {body}")
        self.code = code


# Waiting for a server's answers, which takes longer than waiting for one's own tasks.
until = partial(polling.until, seconds=PATIENCE_SECONDS, longest_pause=POLL_SECONDS)


class Api:
    """Requests in the name of one user of a kubeconfig."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        self.url: str = cluster["server"]
        self.token: str = config["users"][0]["user"]["token"]
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self.token}"},
            connector=aiohttp.TCPConnector(ssl=_context(cluster)),
        )

    async def close(self) -> None:
        await self._session.close()

    async def send(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        *,
        headers: dict[str, str] | None = None,
        **query: str,
    ) -> Json:
        kind = STRATEGIC_PATCH if method == "PATCH" else JSON
        code, text = await self.exchange(method, path, body, kind, query, headers=headers)
        if code >= 400:
            raise RefusedError(code, text)
        return json.loads(text)

    async def exchange(
        self,
        method: str,
        path: str,
        body: Any = None,
        kind: str = JSON,
        query: dict[str, str] | None = None,
        user: str = "",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, str]:
        """Code and body of an answer, whatever it is; a body of bytes is sent as it is.

        With `user`, as that user, whom the kubeconfig's own may impersonate.
        """
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        async with self._session.request(
            method,
            f"{self.url}/{path}",
            params=query,
            data=data,
            headers={
                "Content-Type": kind,
                **({"Impersonate-User": user} if user else {}),
                **(headers or {}),
            },
        ) as answer:
            return answer.status, await answer.text()

    async def lines(self, path: str, query: dict[str, str]) -> AsyncGenerator[bytes, None]:
        """A watch's events, undecoded, for as long as it lasts."""
        endless = aiohttp.ClientTimeout(total=None)
        async with self._session.get(
            f"{self.url}/{path}", params=query, timeout=endless, read_bufsize=MOST_BYTES_PER_LINE
        ) as answer:
            async for line in answer.content:
                yield line

    async def get(self, resource: str, name: str, namespace: str = "") -> Json:
        return await self.send("GET", path(resource, namespace, name))

    async def find(self, resource: str, name: str, namespace: str = "") -> Json | None:
        try:
            return await self.get(resource, name, namespace)
        except RefusedError as error:
            if error.code == 404:
                return None
            raise

    async def list(self, resource: str, namespace: str = "", **query: str) -> list[Json]:
        answer = await self.send("GET", path(resource, namespace), **query)
        return answer["items"]

    async def create(self, resource: str, body: Json, namespace: str = "") -> Json:
        return await self.send("POST", path(resource, namespace), body)

    async def patch(
        self, resource: str, name: str, body: Json, namespace: str = "", subresource: str = ""
    ) -> Json:
        return await self.send("PATCH", path(resource, namespace, name, subresource), body)

    async def delete(
        self, resource: str, name: str, namespace: str = "", options: Json = AT_ONCE
    ) -> None:
        """Gone at once, without asking a kubelet; what is gone already is no trouble."""
        try:
            await self.send("DELETE", path(resource, namespace, name), options)
        except RefusedError as error:
            if error.code != 404:
                raise

    async def delete_all(self, resource: str, namespace: str = "") -> None:
        await self.send("DELETE", path(resource, namespace), AT_ONCE)


def path(resource: str, namespace: str = "", name: str = "", subresource: str = "") -> str:
    where = ("namespaces", namespace) if namespace else ()
    parts = (GROUPS.get(resource, "api/v1"), *where, resource, name, subresource)
    return "/".join(part for part in parts if part)


def _context(cluster: Json) -> ssl.SSLContext:
    if "certificate-authority" in cluster:
        return ssl.create_default_context(cafile=cluster["certificate-authority"])
    data = base64.b64decode(cluster["certificate-authority-data"]).decode()
    return ssl.create_default_context(cadata=data)
