"""The aggregator: which group versions other servers have, and whether those can be asked.

One task looks at every server when an APIService or a Service has changed, when a request could not
be passed on, and from time to time. What it finds is written as the condition Available, and kept
for discovery. Mirrors the availability controller and the discovery manager of kube-aggregator.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Sequence

import msgspec
from aiohttp import web

from kscheduler.api.decode import convert
from kscheduler.api.meta import ApiStruct
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.access.credentials import Authority, KeyPair
from kscheduler.sandbox.aggregation.backend import (
    Backend,
    Relay,
    UnavailableError,
    locate,
)
from kscheduler.sandbox.kinds.registration import (
    AVAILABLE,
    ApiService,
    ApiServiceSpec,
    available_condition,
)
from kscheduler.sandbox.kinds.resource import Resource, Subresource
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.registry import Registry
from kscheduler.sandbox.resources import API_SERVICES, SERVICES
from kscheduler.sandbox.rest.request import Exchange, text_answer
from kscheduler.sandbox.store import Change, Object

# The common name that the ConfigMap extension-apiserver-authentication allows.
PROXY_NAME = "front-proxy-client"
CHECK_AVAILABLE_SECONDS = 30.0
CHECK_UNAVAILABLE_SECONDS = 0.5


class ApiResource(ApiStruct):
    """An entry of an APIResourceList."""

    name: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    group: str = ""
    version: str = ""


class ApiResourceList(ApiStruct):
    resources: tuple[ApiResource, ...]


_decode_resources = msgspec.json.Decoder(ApiResourceList).decode


class Extension:
    """A group version of another server; `resources` are those of its last APIResourceList."""

    def __init__(self, spec: ApiServiceSpec) -> None:
        self.spec = spec
        self.backend: Backend | None = None
        self.available = False
        self.resources: Sequence[Resource] = ()

    @property
    def group_version(self) -> str:
        return f"{self.spec.group}/{self.spec.version}"


class Aggregator:
    """All extensions of the API, by group and version."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        # An authority of its own: whoever has a certificate of it may speak for anybody.
        self.front_proxy = Authority("kscheduler-sandbox-front-proxy-ca")
        self._pair = self.front_proxy.client(PROXY_NAME)
        self._extensions: dict[tuple[str, str], Extension] = {}
        self._wake = asyncio.Event()

    def find(self, path: str) -> Extension | None:
        """The extension that a path belongs to: its resources, its discovery, its OpenAPI."""
        if not self._extensions:
            return None
        match path.strip("/").split("/"):
            case ["apis", group, version, *_] | ["openapi", "v3", "apis", group, version]:
                return self._extensions.get((group, version))
        return None

    def extensions(self) -> list[Extension]:
        """In the order of discovery: the group, then the version of highest priority first."""
        return sorted(
            self._extensions.values(),
            key=lambda one: (
                -one.spec.group_priority_minimum,
                one.spec.group,
                -one.spec.version_priority,
                one.spec.version,
            ),
        )

    async def relay(
        self, extension: Extension, exchange: Exchange, target: str
    ) -> Relay | web.Response:
        """The other server's answer, or 503."""
        if extension.available and extension.backend is not None:
            try:
                return await extension.backend.relay(exchange, target)
            except UnavailableError:
                self._wake.set()
        return text_answer("service unavailable\n", 503)

    async def documents(self, path: str) -> list[bytes]:
        """A document of every server that has it now."""
        found = await asyncio.gather(
            *(
                extension.backend.fetch(path)
                for extension in self.extensions()
                if extension.available and extension.backend is not None
            ),
            return_exceptions=True,
        )
        documents: list[bytes] = []
        for one in found:
            if isinstance(one, bytes):
                documents.append(one)
            elif not isinstance(one, UnavailableError):
                raise one
        return documents

    def register(
        self, group: str, version: str, *, namespace: str, service: str, port: int
    ) -> KeyPair:
        """Create the objects that lead to a server on loopback; returns what it has to serve with.

        The Service is of type ExternalName, which a real aggregator follows as well. Objects of the
        same names, which came with a copied cluster and lead elsewhere, are replaced.
        """
        authority = Authority("kscheduler-sandbox-serving-ca")
        for resource, key in (
            (SERVICES, (namespace, service)),
            (API_SERVICES, ("", f"{version}.{group}")),
        ):
            if self._registry.collection(resource).get(key) is not None:
                self._registry.collection(resource).remove(key)
        self._registry.create(
            SERVICES,
            namespace,
            {
                "metadata": {"name": service},
                "spec": {"type": "ExternalName", "externalName": "localhost"},
            },
        )
        self._registry.create(
            API_SERVICES,
            "",
            {
                "metadata": {"name": f"{version}.{group}"},
                "spec": {
                    "group": group,
                    "version": version,
                    "service": {"namespace": namespace, "name": service, "port": port},
                    "caBundle": base64.b64encode(authority.certificate).decode(),
                    "groupPriorityMinimum": 100,
                    "versionPriority": 100,
                },
            },
        )
        return authority.serving((f"{service}.{namespace}.svc", "localhost", "127.0.0.1"))

    async def run(self) -> None:
        """Until cancelled: look at every server whenever something about it may be different."""

        def changed(change: Change) -> None:
            self._wake.set()

        watched = (API_SERVICES, SERVICES)
        unlisten = [self._registry.collection(one).listen(changed) for one in watched]
        try:
            while True:
                self._wake.clear()
                await self._refresh()
                period = CHECK_AVAILABLE_SECONDS
                if not all(one.available for one in self._extensions.values()):
                    period = CHECK_UNAVAILABLE_SECONDS
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(period if self._extensions else None):
                        await self._wake.wait()
        finally:
            for stop in unlisten:
                stop()
            await self.close_connections()

    async def close_connections(self) -> None:
        """End everything that is being passed on; the next look opens connections again."""
        for extension in self._extensions.values():
            extension.available = False
            if extension.backend is not None:
                await extension.backend.close()
                extension.backend = None
        self._wake.set()

    async def _refresh(self) -> None:
        specs: dict[tuple[str, str], ApiServiceSpec] = {}
        for stored in self._registry.collection(API_SERVICES):
            spec = convert(stored.decode(), ApiService).spec
            if spec.service is not None:
                specs[spec.group, spec.version] = spec
        for key in self._extensions.keys() - specs.keys():
            if (backend := self._extensions.pop(key).backend) is not None:
                await backend.close()
        for key, spec in specs.items():
            self._extensions.setdefault(key, Extension(spec)).spec = spec
        await asyncio.gather(*(self._check(self._extensions[key]) for key in specs))

    async def _check(self, extension: Extension) -> None:
        """Find out whether the server answers, and keep the resources it tells of."""
        spec = extension.spec
        try:
            location = locate(self._registry, spec)
            backend = extension.backend
            if backend is None or backend.location != location:
                extension.backend = Backend(location, self._pair)
                if backend is not None:
                    await backend.close()
                backend = extension.backend
            document = await backend.fetch(f"/apis/{extension.group_version}")
            try:
                listed = _decode_resources(document).resources
            except msgspec.DecodeError as error:
                message = f"/apis/{extension.group_version} is not an APIResourceList: {error}"
                raise UnavailableError("FailedDiscoveryCheck", message) from error
        except UnavailableError as error:
            extension.available = False
            self._write_condition(spec, "False", error.reason, str(error))
        else:
            extension.available = True
            extension.resources = _served(spec, listed)
            self._write_condition(spec, "True", "Passed", "all checks passed")

    def _write_condition(
        self, spec: ApiServiceSpec, status: str, reason: str, message: str
    ) -> None:
        condition = {"type": AVAILABLE, "status": status, "reason": reason, "message": message}

        def edit(item: Object) -> Object:
            item["status"] = {"conditions": [{**condition, "lastTransitionTime": now()}]}
            return item

        name = f"{spec.version}.{spec.group}"
        try:
            known = available_condition(self._registry.get(API_SERVICES, "", name).decode())
            if {key: known.get(key) for key in condition} != condition:
                self._registry.update(API_SERVICES, "", name, edit, subresource="status")
        except StatusError as error:
            if error.reason != "NotFound":  # deleted meanwhile
                raise


def _served(spec: ApiServiceSpec, listed: Sequence[ApiResource]) -> list[Resource]:
    """The resources of an APIResourceList, with their subresources."""
    rows: list[Resource] = []
    for one in listed:
        if "/" in one.name:
            continue
        parts = (part for part in listed if part.name.startswith(f"{one.name}/"))
        rows.append(
            Resource(
                spec.group,
                spec.version,
                one.name,
                one.kind,
                namespaced=one.namespaced,
                short_names=one.short_names,
                categories=one.categories,
                verbs=one.verbs,
                subresources=tuple(
                    Subresource(
                        part.name.partition("/")[2], part.verbs, part.kind, part.group, part.version
                    )
                    for part in parts
                ),
            )
        )
    return rows
