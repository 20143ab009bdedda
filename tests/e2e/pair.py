"""Two servers, a real API server and the embedded one, and the same requests to both.

What is compared is what a client reads: fields without a value and fields that are not there are
the same to it, identities and times differ by nature.
"""

import json
import re
import uuid

import pytest

from tests.controlplane.fixtures import locked
from tests.e2e.api import Api
from tests.e2e.fixtures import REAL, SANDBOX

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
OWN = {"uid", "resourceVersion", "creationTimestamp", "managedFields", "continue"}
# Of nodes, for their kubelets to fill in.
FOR_KUBELETS = {"nodeInfo", "daemonEndpoints"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
VERSION = re.compile(r"current: \d+")
# A pod's forbidden changes are shown as Go prints them, which only Go can.
GO_DIFF = re.compile(r"(previously negative\)).*", re.DOTALL)


class Pair:
    """Two servers that should agree."""

    def __init__(self, real: Api, sandbox: Api, namespace: str) -> None:
        self.apis = {REAL: real, SANDBOX: sandbox}
        self.namespace = namespace

    def path(self, rest: str) -> str:
        return rest.format(ns=f"api/v1/namespaces/{self.namespace}", name=self.namespace)

    async def agree(self, method, where, body=None, kind="application/json", user="", **query):
        """Both answers, as far as they should be equal, are; returns that answer."""
        answers = {
            server: await self._ask(api, method, self.path(where), body, kind, query, user)
            for server, api in self.apis.items()
        }
        told = json.dumps(body)[:200]
        assert answers[SANDBOX] == answers[REAL], f"{method} {where} {query or ''} {told}"
        return answers[REAL]

    async def _ask(self, api, method, where, body, kind, query, user):
        code, text = await api.exchange(method, where, body, kind, query, user)
        try:
            return code, essence(json.loads(text))
        except ValueError:
            return code, text


def essence(value, name=""):
    """A JSON value without what has no value and without what differs by nature."""
    if isinstance(value, dict):
        inner = {
            key: essence(item, key)
            for key, item in value.items()
            if key not in OWN and key not in FOR_KUBELETS
        }
        return {key: item for key, item in inner.items() if item not in (None, {}, [], "", False)}
    if isinstance(value, list):
        return [essence(item) for item in value]
    if isinstance(value, str):
        text = TIME.sub("TIME", ID.sub("ID", VERSION.sub("current", value)))
        return GO_DIFF.sub(r"\1", text)
    return value


@pytest.fixture
async def pair(control_plane, sandbox, run_folder):
    namespace = f"same-{uuid.uuid4().hex[:8]}"
    with locked(run_folder / "controlplane.in-use"):
        apis = [Api(folder / "kubeconfig") for folder in (control_plane, sandbox)]
        pair = Pair(*apis, namespace)
        for api in apis:
            await api.create("namespaces", {"metadata": {"name": namespace}})
        try:
            yield pair
        finally:
            for api in apis:
                await api.delete_all("pods", namespace)
                await api.delete_all("nodes")
                await api.close()
