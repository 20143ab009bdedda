"""A copy of a live cluster: everything that matters to scheduling, read and never written.

The kubeconfig is found as kubectl finds it: $KUBECONFIG or ~/.kube/config. Only GETs are sent.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import replace

from kscheduler.cli.manifests import Manifest
from kscheduler.client.clientcmd.kubeconfig import active_context, load
from kscheduler.client.clientcmd.rest_config import RestConfig, check_usable, rest_config_of
from kscheduler.client.clientcmd.validation import validate
from kscheduler.client.errors import Forbidden, Gone, NotFound
from kscheduler.client.transport import Transport, user_agent
from kscheduler.errors import KschedulerError
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


def rest_config(context: str, environ: dict[str, str] | None = None) -> RestConfig:
    """The address and credentials of a context, or of the current one."""
    values = os.environ if environ is None else environ
    listed = [path for path in values.get("KUBECONFIG", "").split(os.pathsep) if path]
    paths = listed or [str(Path(values.get("HOME", "~")).expanduser() / ".kube" / "config")]
    parsed = [load(path) for path in paths if Path(path).exists()]
    if not parsed:
        raise click.ClickException(f"--from-cluster: no kubeconfig at {' or '.join(paths)}")
    merged = replace(
        parsed[0],
        clusters=tuple(entry for one in parsed for entry in one.clusters),
        users=tuple(entry for one in parsed for entry in one.users),
        contexts=tuple(entry for one in parsed for entry in one.contexts),
        current_context=context or next(filter(None, (one.current_context for one in parsed)), ""),
    )
    names = [entry.name for entry in merged.contexts]
    if merged.current_context not in names:
        wanted = merged.current_context or "(none is current)"
        have = ", ".join(names) or "none"
        raise click.ClickException(
            f"--from-cluster: there is no context {wanted}; the kubeconfig has: {have}"
        )
    active = active_context(merged)
    validate(active)
    config = rest_config_of(active)
    check_usable(config)
    return config


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
