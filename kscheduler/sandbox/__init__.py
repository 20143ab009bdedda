"""The sandbox: a cluster in one process, for newcomers and for tests.

HTTP requests flow in as to any API server; objects, watch events and refusals flow out as from one.
A request passes `server` (the listener), `rest` (filters, handlers, watches, discovery), `registry`
(create and update by the rules of a kind, with `admission`) and ends in `store` (bytes, versions,
history). `kinds` declares every kind, `patching` applies patches, `access` knows users and rights.
`aggregation` passes requests on to other servers that have groups of the API.
`kubelets` plays the nodes and `controllers` the parts of a control plane that schedulers depend on.
Open `server` first, then `rest.handlers` and `registry`.

A new kind is one Resource in the module of its group in `kinds` (see there); nothing else has to
know about it. A new controller is a module in `controllers` with a class whose `run` is one task.

Invariants. A request is one synchronous step over the store, so no client sees half of it. An
object is encoded once per change for all watchers. Nothing is unbounded: history, watch queues,
request bodies and events all have a stated cap. The sandbox knows only `api`, `rest` and,
for the selectors in claims, `cel`: it is a server, not a back door, and real clients (kubectl, the
official Python client) must work against it.

Left out: controllers for workloads, budgets and garbage collection, and persistence. A stub that
fakes the few calls a scheduler makes was the alternative; it would have agreed with our own
misunderstandings.
"""

from kscheduler.rest.status import StatusError
from kscheduler.sandbox.access.users import ADMIN, ANONYMOUS, User, read_token_file
from kscheduler.sandbox.controllers.resource_claims import ResourceClaimController
from kscheduler.sandbox.controllers.volumes import VolumeControllers, default_storage_class
from kscheduler.sandbox.kubelets import (
    Kubelets,
    NodeShape,
    example_device_classes,
    example_resource_slices,
    node_manifest,
)
from kscheduler.sandbox.objects import Objects
from kscheduler.sandbox.rest.request import Exchange
from kscheduler.sandbox.server import ApiServer

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "ApiServer",
    "Exchange",
    "Kubelets",
    "NodeShape",
    "Objects",
    "ResourceClaimController",
    "StatusError",
    "User",
    "VolumeControllers",
    "default_storage_class",
    "example_device_classes",
    "example_resource_slices",
    "node_manifest",
    "read_token_file",
]
