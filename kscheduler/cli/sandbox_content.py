"""The content of a sandbox: manifests as users write them, and dumps of other clusters.

An object with a uid comes out of a cluster (`kubectl get -o yaml`, --from-cluster): it is restored
as it was there, before any controller runs. Pods on nodes stay there, owners keep what they own.
Other objects are created as `kubectl apply` would create them, unknown fields and all.
"""

from __future__ import annotations

import asyncio
import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import click

from kscheduler.cli.manifests import Manifest, located
from kscheduler.rest.status import StatusError
from kscheduler.sandbox.resources import BY_KIND
from kscheduler.sandbox.rest.schemas import model_exists, unknown_fields

if TYPE_CHECKING:
    from kscheduler.sandbox import ApiServer

VALIDATION = ("strict", "warn", "ignore")
# Groups of Kubernetes itself: an unknown kind in one of them is a mistake, elsewhere it is
# somebody's own.
_GROUPS = {
    "",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "apps",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
}
# What other objects refer to comes first, whatever the order in the files.
_FIRST = (
    "Namespace",
    "PriorityClass",
    "StorageClass",
    "RuntimeClass",
    "DeviceClass",
    "ResourceSlice",
    "CSIDriver",
    "CSINode",
    "Node",
    "PersistentVolume",
)
# Of a dump: what the sandbox makes itself, or what says nothing about a copy.
_LEFT_OUT = ("Event", "Lease", "LeaseCandidate", "Endpoints", "EndpointSlice")
Say = Callable[[str], None]


class Content:
    """Objects on their way into a sandbox."""

    def __init__(
        self, manifests: Iterable[Manifest], *, validation: str = "strict", say: Say = click.echo
    ) -> None:
        self._validation = validation
        self.say = say
        usable = sorted(self._usable(manifests), key=lambda one: one["kind"] not in _FIRST)
        self.restored = [one for one in usable if (one.get("metadata") or {}).get("uid")]
        self.created = [one for one in usable if not (one.get("metadata") or {}).get("uid")]

    def of_kind(self, kind: str) -> list[Manifest]:
        return [one for one in (*self.restored, *self.created) if one["kind"] == kind]

    def _usable(self, manifests: Iterable[Manifest]) -> Sequence[Manifest]:
        """Manifests of kinds that the sandbox has; the others are named, each kind once."""
        usable: list[Manifest] = []
        skipped: Counter[str] = Counter()
        going = 0
        for manifest in manifests:
            kind = manifest["apiVersion"], manifest["kind"]
            about = manifest.get("metadata") or {}
            if kind not in BY_KIND:
                group = kind[0].rpartition("/")[0]
                elsewhere = any(name == kind[1] for _, name in BY_KIND)
                if group in _GROUPS and (elsewhere or not model_exists(*kind)):
                    raise click.ClickException(_unknown_kind(manifest))
                skipped[f"{kind[1]} ({kind[0]})"] += 1
            elif about.get("uid") and kind[1] in _LEFT_OUT:
                continue
            elif about.get("deletionTimestamp"):
                going += 1
            else:
                usable.append(manifest)
        if skipped:
            listed = ", ".join(f"{count} {kind}" for kind, count in sorted(skipped.items()))
            self.say(f"left out, for the sandbox does not have such kinds: {listed}")
        if going:
            self.say(f"left out, for they were being deleted: {going} objects")
        if skipped and not usable:
            raise click.ClickException("nothing is left of what was given")
        return usable

    def refuse_unknown_fields(self) -> None:
        """Ends it before a cluster is started, where validation is strict."""
        if self._validation == "strict":
            self._check_fields(self.created)

    def restore(self, api: ApiServer) -> list[str]:
        """Restore what comes out of a cluster; returns the names of nodes that are not ready.

        Owners that are not there any more would take their objects with them, so references to
        those are dropped.
        """
        uids = {one["metadata"]["uid"] for one in self.restored}
        uids |= {node["metadata"]["uid"] for node in api.objects.list("nodes")}
        self._make_namespaces(api, self.restored)
        lost: Counter[str] = Counter()
        not_ready = []
        for manifest in self.restored:
            about = manifest["metadata"]
            owners = about.get("ownerReferences") or ()
            if gone := [one for one in owners if one.get("uid") not in uids]:
                about = {**about, "ownerReferences": [one for one in owners if one not in gone]}
                if not about["ownerReferences"]:
                    del about["ownerReferences"]
                manifest = {**manifest, "metadata": about}
                lost.update(one.get("kind", "") for one in gone)
            try:
                api.objects.restore(manifest)
            except StatusError as error:
                # Every cluster has its own `default` namespace, service accounts and so on.
                if error.reason != "AlreadyExists":
                    raise click.ClickException(f"{located(manifest)}: {error}") from error
            if manifest["kind"] == "Node" and not _is_ready(manifest):
                not_ready.append(about["name"])
        if lost:
            kinds = ", ".join(f"{count} by a {kind}" for kind, count in sorted(lost.items()))
            self.say(f"without their owners, which were not given: objects owned {kinds}")
        return not_ready

    async def create_nodes(self, api: ApiServer) -> None:
        """Create what the cluster is made of, so that it is complete when it starts."""
        await self._create(api, [one for one in self.created if one["kind"] in _FIRST])

    async def create(self, api: ApiServer) -> None:
        """Create the rest, one by one, with other tasks between them."""
        await self._create(api, [one for one in self.created if one["kind"] not in _FIRST])

    async def _create(self, api: ApiServer, manifests: Sequence[Manifest]) -> None:
        if manifests and self._validation != "ignore":
            # The first look at a schema imports all models of the client.
            await asyncio.to_thread(self._check_fields, manifests)
        self._make_namespaces(api, manifests)
        for manifest in manifests:
            create(api, manifest)
            await asyncio.sleep(0)

    def _check_fields(self, manifests: Iterable[Manifest]) -> None:
        """Unknown fields: refused, or told as the API server tells them."""
        for manifest in manifests:
            resource = BY_KIND[manifest["apiVersion"], manifest["kind"]]
            unknown = [f'unknown field "{path}"' for path in unknown_fields(resource, manifest)]
            if unknown and self._validation == "strict":
                raise click.ClickException(
                    f"{located(manifest)}: {', '.join(unknown)}; "
                    "--validate=warn creates it and ignores them"
                )
            for one in unknown:
                self.say(f"Warning: {located(manifest)}: {one}")

    def _make_namespaces(self, api: ApiServer, manifests: Iterable[Manifest]) -> None:
        given = {
            one["metadata"].get("name")
            for one in (*self.restored, *self.created)
            if one["kind"] == "Namespace" and one.get("metadata")
        }
        wanted = {
            (one.get("metadata") or {}).get("namespace")
            for one in manifests
            if BY_KIND[one["apiVersion"], one["kind"]].namespaced
        }
        missing = sorted(
            name
            for name in wanted - given
            if isinstance(name, str) and name and api.objects.find("namespaces", name) is None
        )
        for name in missing:
            create(api, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        if missing:
            self.say(f"made namespaces: {', '.join(missing)}")


def create(api: ApiServer, manifest: Manifest) -> None:
    """Create one object; what the server says against it is told with its file and name."""
    try:
        api.objects.create(manifest)
    except StatusError as error:
        raise click.ClickException(f"{located(manifest)}: {error}") from error


def _unknown_kind(manifest: Manifest) -> str:
    kind = manifest["apiVersion"], manifest["kind"]
    text = f"{located(manifest)}: there is no {kind[1]} in {kind[0]}"
    versions = sorted(version for version, name in BY_KIND if name == kind[1])
    if versions:
        return f"{text}; it is in {' and '.join(versions)}"
    names = sorted({name for _, name in BY_KIND})
    if near := difflib.get_close_matches(kind[1], names, 1):
        return f"{text}; did you mean {near[0]}?"
    return text


def _is_ready(node: Manifest) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = [one.get("status") for one in conditions if one.get("type") == "Ready"]
    return ready in ([], ["True"])
