"""A lease in memory, for electors."""

import asyncio
import copy

from kscheduler.client.errors import Conflict


class Leases:
    """One lease on a server: versions, conflicts, and answers that fail on request."""

    def __init__(self, spec=None, metadata=None):
        self.lease = spec and {"metadata": metadata or {"resourceVersion": "1"}, "spec": spec}
        self.versions = 1
        self.requests = []
        # What the next requests meet, by verb: an exception, or a callable that is awaited first.
        self.ahead = {}

    async def _begin(self, verb):
        self.requests.append((verb, asyncio.get_running_loop().time() - 1000.0))
        for hindrance in self.ahead.pop(verb, []):
            if isinstance(hindrance, Exception):
                raise hindrance
            await hindrance()

    async def get(self):
        await self._begin("get")
        return copy.deepcopy(self.lease)

    async def create(self, spec):
        await self._begin("create")
        if self.lease is not None:
            raise Conflict("there is one")
        return self._store({"metadata": {}, "spec": spec})

    async def update(self, lease):
        await self._begin("update")
        if self.lease is None or lease["metadata"] != self.lease["metadata"]:
            raise Conflict("it has changed")
        return self._store(lease)

    def _store(self, lease):
        self.versions += 1
        version = {"resourceVersion": str(self.versions)}
        self.lease = copy.deepcopy(lease | {"metadata": lease["metadata"] | version})
        return copy.deepcopy(self.lease)

    def steal(self, holder="thief", seconds=15):
        spec = self.lease["spec"] | {"holderIdentity": holder, "leaseDurationSeconds": seconds}
        self._store(self.lease | {"spec": spec})

    @property
    def spec(self):
        return self.lease["spec"]

    @property
    def verbs(self):
        return [verb for verb, _ in self.requests]
