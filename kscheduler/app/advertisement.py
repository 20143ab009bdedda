"""Where this instance can be asked: on its lease for clients, in an EndpointSlice for a Service.

The leader's lease has, as annotations, the pod or address and the port of its secure port and the
fingerprint of its certificate. They are part of the elector's own writes (`election.KubeLease`), so
they cost no request and are never another holder's.

A Service in front of several replicas, like that of an APIService, must lead to the one that
decides. With --leader-service it has no selector, and the leader writes its EndpointSlice. That
needs rights on one object; the alternatives need more or heal less. A label on the leader's
own pod needs `patch` on every pod of the namespace, and stays when the container is killed and
started again in the same pod. A readiness check that only the leader passes holds up rollouts. A
standby that forwards requests has to be trusted with everybody's identity. When a leader is killed,
the slice leads nowhere until another instance holds the lease, which then overwrites it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from kscheduler import logs
from kscheduler.api.explanation import (
    ADDRESS_ANNOTATION,
    CERTIFICATE_ANNOTATION,
    POD_ANNOTATION,
    PORT_ANNOTATION,
)
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import Resource
from kscheduler.client.errors import ApiError, NotFound
from kscheduler.client.kube_client import KubeClient
from kscheduler.leader_election import RawLease

log = logs.logger(__name__)

KEYS = (POD_ANNOTATION, PORT_ANNOTATION, ADDRESS_ANNOTATION, CERTIFICATE_ANNOTATION)

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", ApiObject)
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
# The name that the Service's port has.
PORT_NAME = "https"
LOOK_SECONDS = 1.0
# Written again so often, in case it was deleted or changed.
WRITE_SECONDS = 30.0
RETRY_SECONDS = 5.0


class Advertisement:
    """The annotations of the lease; `annotations` may be read from any thread."""

    def __init__(
        self,
        listener: socket.socket,
        server: str,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """`server` is the API server's URL: the way to it tells which address is ours."""
        self._listener = listener
        self._server = server
        self._environment = environment
        self._own_address = ""
        self._certificate = b""
        self.annotations: Mapping[str, str] = {}

    def look_up(self) -> None:
        """Finds the address of this instance; may wait for a name to be resolved."""
        self._own_address = own_address(self._server, self._environment)

    def refresh(self, certificate: bytes) -> None:
        """Takes over the certificate in PEM that clients are shown; the first call publishes."""
        if certificate == self._certificate:
            return
        self._certificate = certificate
        host, port = self._listener.getsockname()[:2]
        found = {PORT_ANNOTATION: str(port), CERTIFICATE_ANNOTATION: fingerprint(certificate)}
        pod = pod_of(self._environment)
        if pod:
            found[POD_ANNOTATION] = pod
        unspecified = ip_address(host).is_unspecified
        if not unspecified or not pod:
            shown = self._own_address or socket.gethostname() if unspecified else host
            found[ADDRESS_ANNOTATION] = f"[{shown}]:{port}" if ":" in shown else f"{shown}:{port}"
        # Replaced as a whole: the election's thread reads it.
        self.annotations = found


def fingerprint(certificate: bytes) -> str:
    """SHA-256 of the first certificate of a chain in PEM, in hexadecimal digits."""
    end = "-----END CERTIFICATE-----"
    first = certificate.decode().partition(end)[0] + end
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN") :])).hexdigest()


def pod_of(environment: Mapping[str, str], namespace_file: Path = NAMESPACE_FILE) -> str:
    """`namespace/name` of the pod that this process runs in; empty if it knows of none."""
    namespace, name = environment.get("POD_NAMESPACE", ""), environment.get("POD_NAME", "")
    if not namespace and namespace_file.exists():
        namespace = namespace_file.read_text().strip()
        # The name of a pod is its host name, unless it uses the host's network.
        name = name or socket.gethostname()
    return f"{namespace}/{name}" if namespace and name else ""


def own_address(server: str, environment: Mapping[str, str] = os.environ) -> str:
    """The address that packets to the API server come from; no packet is sent to find out. Empty
    if there is no way to it.
    """
    if address := environment.get("POD_IP", ""):
        return address
    url = urlsplit(server)
    try:
        family, kind, _, _, target = socket.getaddrinfo(
            url.hostname, url.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def advertised(lease: RawLease, annotations: Mapping[str, str]) -> RawLease:
    """A copy of the lease with these annotations of ours and no others of ours."""
    metadata = dict(lease.get("metadata") or {})
    before = metadata.get("annotations") or {}
    kept = {name: value for name, value in before.items() if name not in KEYS}
    if kept or annotations:
        metadata["annotations"] = {**kept, **annotations}
    elif before:
        del metadata["annotations"]
    return {**lease, "metadata": metadata}


class LeaderEndpoint:
    """Makes this instance the one endpoint of a Service while it leads."""

    def __init__(
        self,
        client: KubeClient,
        service: str,
        *,
        address: Callable[[], str],
        port: int,
        leads: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`service` is `namespace/name`; the client's fence keeps back what comes too late."""
        self._client = client
        self._namespace, self._name = service.split("/")
        self._address = address
        self._port = port
        self._leads = leads
        self._clock = clock

    async def run(self) -> None:
        """Until cancelled."""
        due_at = 0.0
        while True:
            if not self._leads():
                due_at = 0.0
            elif self._clock() >= due_at:
                try:
                    await self._write()
                    due_at = self._clock() + WRITE_SECONDS
                except (ApiError, ValueError) as error:
                    due_at = self._clock() + RETRY_SECONDS
                    log.error(
                        error,
                        "Unable to become the endpoint of the leader's service",
                        service=f"{self._namespace}/{self._name}",
                    )
            await asyncio.sleep(LOOK_SECONDS)

    async def _write(self) -> None:
        body = self._slice(await asyncio.to_thread(self._address))
        try:
            await self._client.update(ENDPOINT_SLICES, self._name, body, self._namespace)
        except NotFound:
            await self._client.create(ENDPOINT_SLICES, body, self._namespace)

    def _slice(self, address: str) -> bytes:
        """ValueError while this instance has no address."""
        version = ip_address(address).version
        return msgspec.json.encode(
            {
                "kind": ENDPOINT_SLICES.kind,
                "apiVersion": ENDPOINT_SLICES.api_version,
                "metadata": {
                    "name": self._name,
                    "namespace": self._namespace,
                    "labels": {SERVICE_NAME: self._name, MANAGED_BY: "kscheduler.dev"},
                },
                "addressType": f"IPv{version}",
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                "ports": [{"name": PORT_NAME, "port": self._port, "protocol": "TCP"}],
            }
        )
