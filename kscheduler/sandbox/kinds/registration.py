"""APIServices: the group apiregistration.k8s.io, by which other servers add groups to the API.

`kscheduler.sandbox.aggregation` does what they say. Differs: groups that the sandbox serves itself
have none.
"""

from __future__ import annotations

import msgspec

from kscheduler.api.meta import ApiObject, ApiStruct
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import AGE, NAME, Column
from kscheduler.sandbox.kinds.merging import CONDITIONS
from kscheduler.sandbox.kinds.resource import STATUS, Resource, Strategy
from kscheduler.sandbox.store import Object

GROUP = "apiregistration.k8s.io"
AVAILABLE = "Available"
_MOST = {"groupPriorityMinimum": 20000, "versionPriority": 1000}


class ServiceReference(ApiStruct):
    namespace: str = ""
    name: str = ""
    port: int = 443


class ApiServiceSpec(ApiStruct):
    """A group version, and the Service whose server has it; without one, this server has it."""

    group: str = ""
    version: str = ""
    service: ServiceReference | None = None
    ca_bundle: bytes = b""
    insecure_skip_tls_verify: bool = msgspec.field(default=False, name="insecureSkipTLSVerify")
    group_priority_minimum: int = 0
    version_priority: int = 0


class ApiService(ApiObject):
    spec: ApiServiceSpec = ApiServiceSpec()


class _ApiServiceStrategy(Strategy):
    def default(self, item: Object) -> None:
        service = item.setdefault("spec", {}).get("service")
        if service is not None:
            service.setdefault("port", 443)

    def validate(self, item: Object) -> list[FieldError]:
        spec, name = item["spec"], item["metadata"].get("name", "")
        errors: list[FieldError] = []
        wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
        if name != wanted:
            why = f'must be `spec.version+"."+spec.group`: "{wanted}"'
            errors.append(fields.invalid("metadata.name", name, why))
        for field, most in _MOST.items():
            if not 0 < spec.get(field, 0) <= most:
                why = f"must be positive and less than {most}"
                errors.append(fields.invalid(f"spec.{field}", spec.get(field, 0), why))
        bundle, skips = spec.get("caBundle"), spec.get("insecureSkipTLSVerify", False)
        service = spec.get("service")
        if service is None:
            if bundle:
                why = "local APIServices may not have a caBundle"
                errors.append(fields.invalid("spec.caBundle", bundle, why))
            if skips:
                why = "local APIServices may not have insecureSkipTLSVerify"
                errors.append(fields.invalid("spec.insecureSkipTLSVerify", skips, why))
            return errors
        errors += [
            fields.required(f"spec.service.{part}")
            for part in ("namespace", "name")
            if not service.get(part)
        ]
        if not 0 < service["port"] < 65536:
            why = "must be between 1 and 65535, inclusive"
            errors.append(fields.invalid("spec.service.port", service["port"], why))
        if skips and bundle:
            why = "may not be true if caBundle is present"
            errors.append(fields.invalid("spec.insecureSkipTLSVerify", skips, why))
        return errors


def available_condition(item: Object) -> Object:
    """The condition Available; empty while nothing is known."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one.get("type") == AVAILABLE), {})


def _service(item: Object) -> str:
    service = item["spec"].get("service")
    return f"{service['namespace']}/{service['name']}" if service else "Local"


def _available(item: Object) -> str:
    found = available_condition(item)
    if found.get("status") == "True":
        return "True"
    return f"{found.get('status', 'Unknown')} ({found['reason']})" if found else "Unknown"


RESOURCES = (
    Resource(
        GROUP,
        "v1",
        "apiservices",
        "APIService",
        namespaced=False,
        categories=("api-extensions",),
        subresources=(STATUS,),
        strategy=_ApiServiceStrategy(),
        struct=ApiService,
        columns=(NAME, Column("Service", _service), Column("Available", _available), AGE),
        merge={"APIServiceStatus": CONDITIONS},
    ),
)
