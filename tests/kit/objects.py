"""Nodes and pods as structs: those of `kscheduler.testing`, with whatever else a test is about.

    make_pod("web-1", labels={"app": "web"}, node="n1", nodeSelector={"disk": "ssd"})

What has no keyword of its own is spelled as in a manifest; values are as in YAML, or structs.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from kscheduler import testing
from kscheduler.api.core import Node, NodeSpec, NodeStatus, Pod, PodSpec, PodStatus
from kscheduler.api.decode import without_nulls
from kscheduler.api.meta import OwnerReference
from kscheduler.state.pod_info import PodInfo

DELETED_AT = "2030-01-01T00:00:00Z"
# Names in Python by names in JSON.
SPEC_FIELDS = {field.encode_name: field.name for field in structs.fields(PodSpec)}


def make_pod(
    name: str = "p",
    *,
    namespace: str = "default",
    uid: str | None = None,
    version: str = "",
    generation: int = 0,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Mapping[str, str] | None = None,
    deleted: bool | str | None = False,
    node: str = "",
    nominated: str = "",
    scheduler: str = "default-scheduler",
    priority: int | None = 0,
    requests: Mapping[str, str] | None = None,
    host_port: int = 0,
    claims: Iterable[str] = (),
    gates: Iterable[str] = (),
    status: PodStatus | Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod of one container that asks for `requests`, unless `containers` are given.

    Its uid is `uid-` and its name. `owner` controls it; `deleted` is true or a timestamp; it mounts
    one volume per name in `claims`, and waits for `gates`.
    """
    pod = testing.make_pod(
        name,
        namespace=namespace,
        labels=labels or {},
        annotations=annotations or {},
        requests=requests or {},
        node=node,
        scheduler=scheduler,
    )
    metadata = structs.replace(
        pod.metadata,
        uid=f"uid-{name}" if uid is None else uid,
        resource_version=version,
        generation=generation,
        deletion_timestamp=(DELETED_AT if deleted is True else deleted) or None,
        owner_references=(_struct({**owner, "controller": True}, OwnerReference),) if owner else (),
    )
    if host_port:
        ports = [{"containerPort": host_port, "hostPort": host_port}]
        requested = {"requests": requests or {}}
        spec["containers"] = [{"name": "c", "ports": ports, "resources": requested}]
    if claims:
        spec["volumes"] = [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    given = _struct(status or {}, PodStatus)
    if nominated:
        given = structs.replace(given, nominated_node_name=nominated)
    return Pod(metadata, _replaced(structs.replace(pod.spec, priority=priority), spec), given)


def make_pod_info(name: str = "p", **fields: Any) -> PodInfo:
    """The pod as the scheduler keeps it; `fields` are those of `make_pod`."""
    return PodInfo(make_pod(name, **fields))


def make_node(
    name: str = "n1",
    *,
    uid: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, str] | None = None,
    images: Mapping[str, int] | None = None,
    features: Iterable[str] = (),
    status: NodeStatus | Mapping[str, Any] | None = None,
    **spec: Any,
) -> Node:
    """A node that has four CPUs, 16 GiB and room for 110 pods; or `allocatable` and nothing else.

    Its uid is its name. `images` are sizes in bytes by name; `status` adds to these.
    """
    node = testing.make_node(name, labels=labels or {}, annotations=annotations or {})
    told = {
        "allocatable": node.status.allocatable if allocatable is None else allocatable,
        "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
        "declaredFeatures": list(features),
    }
    if not isinstance(status, NodeStatus):
        status = _struct({**told, **(status or {})}, NodeStatus)
    metadata = structs.replace(node.metadata, uid=uid or name)
    return Node(metadata, _struct(spec, NodeSpec), status)


def _struct(value: Any, kind: type) -> Any:
    return msgspec.convert(without_nulls(value), kind)


def _replaced(spec: PodSpec, fields: dict[str, Any]) -> PodSpec:
    """The spec with these of its fields, by their names in JSON; what it does not keep is dropped,
    as in decoding.
    """
    if not fields:
        return spec
    given = _struct(fields, PodSpec)
    names = (SPEC_FIELDS[name] for name in fields if name in SPEC_FIELDS)
    return structs.replace(spec, **{name: getattr(given, name) for name in names})
