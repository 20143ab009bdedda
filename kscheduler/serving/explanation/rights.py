"""The second gate: what the asker may see of what it may ask for.

Rights are those of the Kubernetes API, asked by SubjectAccessReview like the first gate's, and kept
as long: who may read pods and nodes there reads of them here, and nobody else does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable

from kscheduler.api.resources import NODES, PODS, Resource
from kscheduler.api.small_groups import ResourceAttributes, UserInfo
from kscheduler.gotext.strconv import quote
from kscheduler.rest import status
from kscheduler.rest.status import StatusError
from kscheduler.serving.access import Authorizer
from kscheduler.serving.explanation.resources import Served

# Rights in namespaces that are asked for at the same time, and by one request.
AT_ONCE = 10
MAX_NAMESPACES = 500


class Asker:
    """The user of one request, and its rights."""

    def __init__(self, user: UserInfo, authorizer: Authorizer) -> None:
        self.user = user
        self._authorizer = authorizer

    async def may(self, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
        """ApiError if the API server does not decide."""
        asked = ResourceAttributes(
            namespace=namespace,
            verb=verb,
            group=resource.group,
            version=resource.version,
            resource=resource.plural,
            name=name,
        )
        verdict = await self._authorizer.decide_on(self.user, asked)
        return verdict.allowed and not verdict.denied

    async def sees_nodes(self) -> bool:
        return await self.may("list", NODES)

    async def sees_pods(self, namespace: str = "", name: str = "") -> bool:
        return await self.may("get", PODS, namespace, name)

    async def namespaces_seen(self, namespaces: Iterable[str]) -> Collection[str]:
        """The namespaces of these where the asker may get pods. Of one that may not everywhere,
        MAX_NAMESPACES are looked up; the others count as closed to it.
        """
        wanted = sorted(set(namespaces))
        if not wanted or await self.sees_pods():
            return frozenset(wanted)
        del wanted[MAX_NAMESPACES:]
        limit = asyncio.Semaphore(AT_ONCE)

        async def asked(namespace: str) -> bool:
            async with limit:
                return await self.sees_pods(namespace)

        seen = await asyncio.gather(*map(asked, wanted))
        return frozenset(one for one, is_seen in zip(wanted, seen, strict=True) if is_seen)

    async def need_pods(self, served: Served, namespace: str, name: str = "") -> None:
        """403, with the right that is missing, unless the asker may get pods there."""
        if not await self.sees_pods(namespace, name):
            where = f"in the namespace {quote(namespace)}" if namespace else "at the cluster scope"
            raise self.lacks(served, name, f'"get" on "pods" {where}')

    def lacks(self, served: Served, name: str, right: str, what: str = "pods") -> StatusError:
        why = (
            f"User {quote(self.user.username)} may not see the {what} it is about: "
            f"the right {right} is needed for that"
        )
        return status.forbidden(served, name, why)
