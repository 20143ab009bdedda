"""The sandbox: a cluster in one process, for newcomers and for tests.

HTTP requests flow in as to any API server; objects, watch events and refusals flow out as from one.
`store` keeps bytes and versions, `kinds` knows what makes an object valid, `registry` applies
that, `rest` speaks HTTP, `access` decides who may, `catalog` describes it all to clients,
`kubelets` plays the nodes, and `storage` whoever deals with volumes.

Invariants. A request is one synchronous step over the store, so no client sees half of it. An
object is encoded once per change, whoever watches. Nothing is unbounded: history, watch queues,
request bodies and events all have a stated cap. The sandbox knows only `api`: it is a server, not a
back door, and real clients (kubectl, the official Python client) must work against it.

What it is not: there are no controllers for workloads, budgets or garbage collection, and no
persistence. A stub that fakes the few calls a scheduler makes was the alternative; it would have
agreed with our own misunderstandings.
"""

from kscheduler.sandbox.access.users import ADMIN, ANONYMOUS, User, read_token_file
from kscheduler.sandbox.controllers.volumes import VolumeControllers, default_storage_class
from kscheduler.sandbox.kubelets import Kubelets, NodeShape, node_manifest
from kscheduler.sandbox.objects import Objects
from kscheduler.sandbox.rest.request import Exchange
from kscheduler.sandbox.server import ApiServer
from kscheduler.sandbox.status import StatusError

__all__ = [
    "ADMIN",
    "ANONYMOUS",
    "ApiServer",
    "Exchange",
    "Kubelets",
    "NodeShape",
    "Objects",
    "StatusError",
    "User",
    "VolumeControllers",
    "default_storage_class",
    "node_manifest",
    "read_token_file",
]
