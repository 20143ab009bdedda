"""A copy of a live cluster: everything that matters to scheduling, read and never written.

The kubeconfig is found as kubectl finds it: $KUBECONFIG or ~/.kube/config. Only GETs are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import click
import msgspec

from kscheduler.cli.manifests import Manifest
from kscheduler.client.clientcmd.loading_rules import Overrides, load_client_config
from kscheduler.client.clientcmd.rest_config import RestConfig
from kscheduler.client.errors import Forbidden, Gone, NotFound
from kscheduler.client.transport import Transport, user_agent
from kscheduler.errors import ConfigError, KschedulerError
from kscheduler.sandbox.kinds.resource import Resource
from kscheduler.sandbox.resources import BY_NAME

PAGE = 500  # objects per request
# Everything a scheduler or a controller decides by; secrets, config maps and roles stay where they
# are.
COPIED = (
    "namespaces",
    "nodes",
    "pods",
    "services",
    "replicationcontrollers",
    "persistentvolumeclaims",
    "persistentvolumes",
    "daemonsets.apps",
    "deployments.apps",
    "replicasets.apps",
    "statefulsets.apps",
    "controllerrevisions.apps",
    "jobs.batch",
    "cronjobs.batch",
    "poddisruptionbudgets.policy",
    "priorityclasses.scheduling.k8s.io",
    "storageclasses.storage.k8s.io",
    "csidrivers.storage.k8s.io",
    "csinodes.storage.k8s.io",
    "csistoragecapacities.storage.k8s.io",
    "volumeattachments.storage.k8s.io",
    "resourceclaims.resource.k8s.io",
    "resourceclaimtemplates.resource.k8s.io",
    "deviceclasses.resource.k8s.io",
    "resourceslices.resource.k8s.io",
)
# Without these there is nothing to play with.
_NEEDED = ("nodes", "pods")


def rest_config(context: str) -> RestConfig:
    """The address and credentials of a context, or of the current one, found as kubectl does."""
    try:
        return load_client_config(Overrides(context=context)).rest
    except ConfigError as error:
        raise click.ClickException(f"--from-cluster: {error}") from error


async def copy_of(config: RestConfig, say: Callable[[str], None]) -> list[Manifest]:
    """All objects of the copied kinds; kinds that may not be read are named and left out."""
    found: list[Manifest] = []
    withheld: list[str] = []
    async with Transport(config, agent=user_agent("sandbox"), timeout_seconds=60.0) as transport:
        for name in COPIED:
            try:
                found += await _list(transport, BY_NAME[name])
            except NotFound:
                continue  # a group that this cluster does not have
            except Forbidden:
                if name in _NEEDED:
                    raise
                withheld.append(name)
    if withheld:
        say(f"left out, for you may not list them: {', '.join(withheld)}")
    counts = {kind: sum(one["kind"] == kind for one in found) for kind in ("Node", "Pod")}
    say(
        f"copied from {config.server}: {counts['Node']} nodes, {counts['Pod']} pods; "
        "nothing is written there"
    )
    return found


async def _list(transport: Transport, resource: Resource) -> list[Manifest]:
    """All objects of a resource, page by page; an expired page begins anew, without pages."""
    items: list[Manifest] = []
    query = {"limit": str(PAGE)}
    while True:
        try:
            answer = await transport.request("GET", resource.path(), query=query)
        except Gone:
            if "continue" not in query:
                raise
            items, query = [], {}
            continue
        page: dict[str, Any] = msgspec.json.decode(answer)
        named = {"apiVersion": resource.group_version, "kind": resource.kind}
        items += ({**named, **item} for item in page.get("items") or ())
        following = (page.get("metadata") or {}).get("continue")
        if not following:
            return items
        query = {"limit": str(PAGE), "continue": following}


def read_live_cluster(context: str, say: Callable[[str], None]) -> list[Manifest]:
    """The copy, read to its end before anything else starts."""
    try:
        config = rest_config(context)
        return asyncio.run(copy_of(config, say))
    except KschedulerError as error:
        raise click.ClickException(f"--from-cluster: {error}") from error
