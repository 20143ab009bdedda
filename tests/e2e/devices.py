"""Devices of a cluster under test, and the parts of those who are not there: drivers, controllers.

After a test `check` asks an independent judge about all claims there are.
"""

from copy import deepcopy
from typing import Any

from tests.e2e.api import Json, RefusedError, until
from tests.e2e.cluster import Cluster
from tests.kit.claim_checker import claim_violations
from tests.kit.devices import claim_manifest, class_manifest, slice_manifest

FINALIZER = "resource.kubernetes.io/delete-protection"
CLUSTER_WIDE = ("resourceslices", "deviceclasses", "devicetaintrules")


class Devices:
    """Slices, classes, rules and claims; those that belong to no namespace are the test's own."""

    def __init__(self, cluster: Cluster) -> None:
        self.api, self.namespace = cluster.api, cluster.namespace
        self._cluster = cluster
        # Slices as they once were: devices may be in use that are no longer published.
        self._withdrawn: list[Json] = []

    async def create_class(self, name: str = "gpu", *expressions: str, **spec: Any) -> None:
        made = await self.api.create("deviceclasses", class_manifest(name, *expressions, **spec))
        await self._cluster.known("deviceclasses", made)

    async def publish(self, name: str, **fields: Any) -> Json:
        """A slice; one of this name is replaced."""
        body = slice_manifest(name, **fields)
        known = await self.api.find("resourceslices", name)
        if known is None:
            made = await self.api.create("resourceslices", body)
        else:
            self._withdrawn.append(deepcopy(known))
            body["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
            where = f"apis/resource.k8s.io/v1/resourceslices/{name}"
            made = await self.api.send("PUT", where, body)
        await self._cluster.known("resourceslices", made)
        return made

    async def withdraw(self, name: str) -> None:
        self._withdrawn.append(await self.api.get("resourceslices", name))
        await self.api.delete("resourceslices", name)

    async def taint(self, name: str, selector: Json, key: str, effect: str = "NoSchedule") -> None:
        spec = {"deviceSelector": selector, "taint": {"key": key, "value": "x", "effect": effect}}
        made = await self.api.create("devicetaintrules", {"metadata": {"name": name}, "spec": spec})
        await self._cluster.known("devicetaintrules", made)

    async def create_claim(self, name: str, *requests: Json, **fields: Any) -> Json:
        body = claim_manifest(name, *requests)
        body["metadata"] |= fields
        return await self.api.create("resourceclaims", body, self.namespace)

    async def claim(self, name: str) -> Json:
        return await self.api.get("resourceclaims", name, self.namespace)

    async def claims(self) -> list[Json]:
        return await self.api.list("resourceclaims", self.namespace)

    async def allocation(self, name: str) -> Json:
        """Of a claim, once it has one."""

        async def allocated() -> Json | None:
            return (await self.claim(name)).get("status", {}).get("allocation")

        found = await until(allocated, f"claim {name} is allocated")
        assert found is not None
        return found

    async def devices_of(self, name: str) -> list[str]:
        """`pool/device` of each device that a claim has, once it has any."""
        results = (await self.allocation(name))["devices"]["results"]
        return [f"{one['pool']}/{one['device']}" for one in results]

    async def report(self, name: str, kind: str, status: str = "True") -> None:
        """What a driver says of a claim's first device."""
        result = (await self.allocation(name))["devices"]["results"][0]
        condition = {
            "type": kind,
            "status": status,
            "reason": "Said",
            "message": "so",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        told = {key: result[key] for key in ("driver", "pool", "device")}
        await self._change_status(name, {"devices": [told | {"conditions": [condition]}]})

    async def release(self, name: str, pod: str) -> None:
        """What the claim controller does when a pod is gone; unused claims are deallocated."""
        status = (await self.claim(name)).get("status", {})
        left = [user for user in status.get("reservedFor", ()) if user["name"] != pod]
        kept = {"allocation": status["allocation"], "reservedFor": left} if left else {}
        await self._change_status(name, kept, keep=False)

    async def _change_status(self, name: str, change: Json, *, keep: bool = True) -> None:
        """Write a status, however often somebody else was faster."""

        async def written() -> bool:
            claim = await self.claim(name)
            claim["status"] = {**claim.get("status", {}), **change} if keep else change
            where = f"apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{name}"
            try:
                await self.api.send("PUT", f"{where}/status", claim)
            except RefusedError as error:
                if error.code != 409:
                    raise
                return False
            return True

        await until(written, f"the status of {name} is written")

    async def check(self) -> None:
        """No device is given away twice, nothing is left over; see `claim_checker`."""
        problems = claim_violations(
            await self.claims(),
            await self.api.list("resourceslices"),
            await self.api.list("pods", self.namespace),
            await self.api.list("nodes"),
            withdrawn=self._withdrawn,
        )
        assert not problems, "\n".join(problems)

    async def clear(self) -> None:
        await self.api.delete_all("pods", self.namespace)
        for claim in await self.claims():
            name = claim["metadata"]["name"]
            claim["metadata"].pop("finalizers", None)
            # Not a patch: opaque parameters must come as this client has sent them before.
            where = f"apis/resource.k8s.io/v1/namespaces/{self.namespace}/resourceclaims/{name}"
            await self.api.send("PUT", where, claim)
            await self.api.delete("resourceclaims", name, self.namespace)
        for resource in CLUSTER_WIDE:
            await self.api.delete_all(resource)
