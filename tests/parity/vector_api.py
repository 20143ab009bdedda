"""The API server of a recorded cluster: what plugins write comes back to them as a watch would.

Only writes of resource claims have an effect; nothing becomes of others, as in the recording.
"""

import asyncio
import json
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, TypeVar

from kscheduler.api import RESOURCES
from kscheduler.api.core import Pod
from kscheduler.api.meta import ApiObject
from kscheduler.api.resources import RESOURCE_CLAIMS, Resource
from kscheduler.client.errors import Conflict, NotFound
from kscheduler.client.informers.decoding import WRITTEN_BACK, Shape, retaining_json, shape_of
from kscheduler.client.informers.informer import Informer
from kscheduler.client.informers.pace import Gate, Pace

Json = dict[str, Any]
T = TypeVar("T")

RESOURCE_OF_KIND = {resource.kind: resource for resource in RESOURCES}
RESOURCE_OF_STRUCT = {resource.struct: resource for resource in RESOURCES}
# What a recording leaves out of allocations, because it is different every time.
UNSTABLE = {"allocationTimestamp", "shareID"}
SECONDS_PER_WRITE = 10.0


class RecordedObjects:
    """Informers of every collection, fed by hand."""

    def __init__(self, objects: Iterable[Json]) -> None:
        self._informers: dict[type[ApiObject], Informer[Any]] = {}
        self._shapes: dict[type[ApiObject], Shape[Any]] = {}
        for item in objects:
            self.put(item)

    def lister(self, kind: type[ApiObject]) -> Informer[Any]:
        if kind not in self._informers:
            self._shapes[kind] = shape = _shape_of(RESOURCE_OF_STRUCT[kind])
            self._informers[kind] = Informer(shape, Pace(Gate()))
        return self._informers[kind]

    def put(self, item: Json) -> None:
        informer, decoded = self._decoded(item)
        informer.put(decoded.key, decoded)

    def remove(self, item: Json) -> None:
        informer, decoded = self._decoded(item)
        informer.remove(decoded.key, decoded)

    def _decoded(self, item: Json) -> tuple[Informer[Any], Any]:
        kind = RESOURCE_OF_KIND[item["kind"]].struct
        informer = self.lister(kind)
        return informer, self._shapes[kind].decode(json.dumps(item).encode())


def _shape_of(resource: Resource) -> Shape[Any]:
    """As the scheduler's own informers decode the collection."""
    shape = shape_of(resource.struct, resource.kind)
    wanted = WRITTEN_BACK.get(resource.struct)
    return shape if wanted is None else retaining_json(shape, wanted)


class RecordedApi:
    """A transport for the scheduler's client; what it stores is seen by `objects` at once.

    It also plays the drivers: a claim that gets a reservation has its binding conditions True.
    """

    def __init__(self, items: Iterable[Json], objects: RecordedObjects) -> None:
        self._objects = objects
        self._claims = {
            RESOURCE_CLAIMS.path(item["metadata"]["namespace"], item["metadata"]["name"]): item
            for item in items
            if item["kind"] == RESOURCE_CLAIMS.kind
        }
        self._generated = 0
        self._version = 1_000_000

    def claims_of(self, pod: Pod) -> dict[str, str]:
        """Allocations of the claims that are reserved for the pod, as text, by name."""
        return {
            claim["metadata"]["name"]: stable_text(claim["status"]["allocation"])
            for claim in self._claims.values()
            if any(
                user["uid"] == pod.uid for user in claim.get("status", {}).get("reservedFor", ())
            )
        }

    async def request(
        self, method: str, path: str, *, body: bytes | None = None, **_: object
    ) -> bytes:
        if f"/{RESOURCE_CLAIMS.plural}" not in path:
            return b"{}"
        stored, given = path.removesuffix("/status"), json.loads(body or b"null")
        if method == "POST":
            return self._created(stored, given)
        if stored not in self._claims:
            name = path.rpartition("/")[2]
            raise NotFound(f'{RESOURCE_CLAIMS.group_resource} "{name}" not found')
        if method == "DELETE":
            return self._deleted(stored)
        assert method == "PUT", method
        return self._updated(stored, given, "status" if path != stored else "metadata")

    def _created(self, collection: str, given: Json) -> bytes:
        self._generated += 1
        metadata = given["metadata"]
        name = f"{metadata['generateName']}gen{self._generated}"
        unique = {"name": name, "uid": f"uid-{name}"}
        return self._stored(f"{collection}/{name}", {**given, "metadata": metadata | unique})

    def _updated(self, path: str, given: Json, part: str) -> bytes:
        old = self._claims[path]
        if given["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"]:
            raise Conflict(f"{path} has been modified")
        answer = self._stored(path, {**old, part: given.get(part, {})})
        if given.get("status", {}).get("reservedFor"):
            self._play_drivers(path)
        return answer

    def _play_drivers(self, path: str) -> None:
        """Every binding condition of the claim's devices becomes True."""
        claim = self._claims[path]
        devices = [
            {key: result[key] for key in ("driver", "pool", "device", "shareID") if key in result}
            | {"conditions": [_true(kind) for kind in result["bindingConditions"]]}
            for result in claim["status"]["allocation"]["devices"].get("results", ())
            if "bindingConditions" in result
        ]
        if devices:
            self._stored(path, {**claim, "status": {**claim["status"], "devices": devices}})

    def _deleted(self, path: str) -> bytes:
        item = self._claims.pop(path)
        self._objects.remove(item)
        return json.dumps(item).encode()

    def _stored(self, path: str, item: Json) -> bytes:
        self._version += 1
        item = {**item, "metadata": item["metadata"] | {"resourceVersion": str(self._version)}}
        self._claims[path] = item
        self._objects.put(item)
        return json.dumps(item).encode()


def _true(kind: str) -> Json:
    return {
        "type": kind,
        "status": "True",
        "reason": "Ready",
        "message": "",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }


def stable_text(value: Any) -> str:
    """JSON without what is different every time, its members sorted.

    Those of a driver's own parameters keep their order: to the API server they are a text.
    """
    return json.dumps(_stable(value))


def _stable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: value[key] if key == "parameters" else _stable(value[key])
            for key in sorted(value.keys() - UNSTABLE)
        }
    return [_stable(one) for one in value] if isinstance(value, list) else value


def at_end(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a plugin's writes, which find everything ready here."""

    async def bounded() -> T:
        async with asyncio.timeout(SECONDS_PER_WRITE):
            return await coroutine

    return asyncio.run(bounded())
