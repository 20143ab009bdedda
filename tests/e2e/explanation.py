"""The scheduler's own API, asked with kubectl: through the API server, as different users.

Nothing here makes Services work, so the one of the APIService is of type ExternalName: a real
aggregator follows it to loopback, and so does the embedded one.
"""

import asyncio
import base64
import os
import sysconfig
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from cryptography import x509

from tests.controlplane.binaries import program
from tests.e2e.api import Json, until
from tests.e2e.cluster import Cluster
from tests.e2e.daemon import Daemon
from tests.e2e.identity import NAMESPACE, becomes_allowed
from tests.serving.minting import SERVER, mint, mint_authority

GROUP, VERSION = "kscheduler.dev", "v1alpha1"
SERVICE = "kscheduler-api"
API_SERVICE = f"{VERSION}.{GROUP}"
RBAC = "rbac.authorization.k8s.io"
KUBECTL_SECONDS = 60.0
SCRIPTS = sysconfig.get_path("scripts")
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

AUTHORITY = mint_authority("serving")
NAMES = x509.SubjectAlternativeName([x509.DNSName(f"{SERVICE}.{NAMESPACE}.svc")])


def serving_flags(folder: Path) -> tuple[str, str]:
    """A certificate that is good for the Service's name."""
    pair = mint(SERVICE, by=AUTHORITY, usages=(SERVER,), extensions=((NAMES, False),))
    path = pair.write(folder / "serving.pem")
    return f"--tls-cert-file={path}", f"--tls-private-key-file={path}"


@asynccontextmanager
async def aggregated(cluster: Cluster, daemon: Daemon) -> AsyncIterator[None]:
    """While the API server passes the group on to this daemon, which has `serving_flags`."""
    service = {
        "metadata": {"name": SERVICE},
        "spec": {"type": "ExternalName", "externalName": "localhost"},
    }
    registration = {
        "metadata": {"name": API_SERVICE},
        "spec": {
            "group": GROUP,
            "version": VERSION,
            "service": {"namespace": NAMESPACE, "name": SERVICE, "port": port_of(daemon)},
            "caBundle": base64.b64encode(AUTHORITY.pem).decode(),
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
    }
    await cluster.api.create("services", service, NAMESPACE)
    try:
        await cluster.api.create("apiservices", registration)
        await available(cluster)
        await discovered(cluster)
        yield
    finally:
        await cluster.api.delete("apiservices", API_SERVICE)
        await cluster.api.delete("services", SERVICE, NAMESPACE)


def port_of(daemon: Daemon) -> int:
    port = urlsplit(daemon.url).port
    assert port is not None
    return port


async def available(cluster: Cluster, wanted: str = "True") -> None:
    async def seen() -> bool:
        found = await cluster.api.get("apiservices", API_SERVICE)
        conditions = found.get("status", {}).get("conditions", ())
        return any(one["type"] == "Available" and one["status"] == wanted for one in conditions)

    await until(seen, f"the API is available: {wanted}")


async def discovered(cluster: Cluster) -> None:
    """A real server learns the resources and schemas of an API some time after it is available."""

    async def known() -> bool:
        index = await cluster.api.send("GET", "openapi/v3")
        groups = await cluster.api.send("GET", "apis", headers={"Accept": DISCOVERY})
        listed = [one for one in groups["items"] if one["metadata"]["name"] == GROUP]
        return f"apis/{GROUP}/{VERSION}" in index["paths"] and any(
            version.get("resources") for one in listed for version in one["versions"]
        )

    await until(known, "the API is in discovery")


@dataclass
class Kubectl:
    """kubectl as the user of a kubeconfig, or of another name that the user may take."""

    kubeconfig: Path
    home: Path

    async def start(self, *arguments: str, user: str = "") -> asyncio.subprocess.Process:
        self.home.mkdir(exist_ok=True)
        return await asyncio.create_subprocess_exec(
            program("kubectl"),
            *arguments,
            # After the command, since kubectl takes no flags before the name of a plugin.
            f"--kubeconfig={self.kubeconfig}",
            *(("--as", user, "--as-group", "system:authenticated") if user else ()),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A discovery cache of its own: ports are used again. `kubectl why` is beside us.
            env={"PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", "HOME": str(self.home)},
        )

    async def attempt(
        self, *arguments: str, given: Json | None = None, user: str = ""
    ) -> tuple[int, str, str]:
        """Exit code, standard output and standard error."""
        process = await self.start(*arguments, user=user)
        text = yaml.safe_dump(given).encode() if given else b""
        async with asyncio.timeout(KUBECTL_SECONDS):
            out, err = await process.communicate(text)
        assert process.returncode is not None
        return process.returncode, out.decode(), err.decode()

    async def __call__(self, *arguments: str, given: Json | None = None, user: str = "") -> str:
        code, out, err = await self.attempt(*arguments, given=given, user=user)
        assert (code, err) == (0, ""), f"kubectl {' '.join(arguments)}: {err}{out}"
        return out

    async def read(self, *arguments: str, user: str = "") -> Json:
        found: Json = yaml.safe_load(await self(*arguments, "-o", "yaml", user=user))
        return found

    @asynccontextmanager
    async def watching(self, *arguments: str) -> AsyncIterator[asyncio.StreamReader]:
        """The output of `kubectl get --watch`, which ends with the block."""
        process = await self.start("get", *arguments, "--watch")
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@asynccontextmanager
async def granted(
    cluster: Cluster, user: str, *rules: Json, namespace: str = ""
) -> AsyncIterator[None]:
    """While a user has these rights, in one namespace or everywhere."""
    name = f"{cluster.namespace}-{user}-{namespace or 'everywhere'}"
    about = {"metadata": {"name": name}}
    roles, kind = ("roles", "Role") if namespace else ("clusterroles", "ClusterRole")
    await cluster.api.create(roles, about | {"rules": list(rules)}, namespace)
    try:
        async with bound(cluster, user, kind, about | {"rules": rules}, namespace=namespace):
            yield
    finally:
        await cluster.api.delete(roles, name, namespace)


@asynccontextmanager
async def bound(
    cluster: Cluster, user: str, kind: str, role: Json, *, namespace: str = ""
) -> AsyncIterator[None]:
    """While a user has an existing role, in one namespace or everywhere."""
    role_name = role["metadata"]["name"]
    name = f"{cluster.namespace}-{role_name}"
    bindings = "rolebindings" if namespace else "clusterrolebindings"
    binding = {
        "metadata": {"name": name},
        "roleRef": {"kind": kind, "name": role_name, "apiGroup": RBAC},
        "subjects": [{"kind": "User", "name": user, "apiGroup": RBAC}],
    }
    await cluster.api.create(bindings, binding, namespace)
    try:
        rule = role["rules"][0]
        resource, _, subresource = rule["resources"][0].partition("/")
        asked = {
            "verb": rule["verbs"][0],
            "group": rule["apiGroups"][0],
            "resource": resource,
            "subresource": subresource,
            "namespace": namespace,
        }
        await becomes_allowed(cluster.api, {"user": user, "resourceAttributes": asked})
        yield
    finally:
        await cluster.api.delete(bindings, name, namespace)
