"""Events: stored once in their core/v1 form, shown as core/v1 or events.k8s.io/v1."""

from __future__ import annotations

from kscheduler.api.validation import label_key_errors
from kscheduler.rest import fields
from kscheduler.rest.fields import FieldError
from kscheduler.rest.tables import Column, at
from kscheduler.sandbox.kinds.printers import event_object, last_seen
from kscheduler.sandbox.kinds.resource import Resource, Strategy
from kscheduler.sandbox.metadata import now
from kscheduler.sandbox.store import Object

# events.k8s.io/v1 name -> core/v1 name; fields not listed are called the same in both.
_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_EVENTS_NAMES = {core: name for name, core in _CORE_NAMES.items()}
_LIMITS = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
_REQUIRED = ("reportingComponent", "reportingInstance", "action", "reason")
# All but `series`, which is how an event grows.
_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_MUST_BE_UNSET = ("firstTimestamp", "lastTimestamp", "count", "source")


def to_core(event: Object) -> Object:
    """An events.k8s.io/v1 event as core/v1."""
    return {**_renamed(event, _CORE_NAMES), "apiVersion": "v1"}


def to_events_group(event: Object) -> Object:
    """A core/v1 event as events.k8s.io/v1."""
    return {**_renamed(event, _EVENTS_NAMES), "apiVersion": "events.k8s.io/v1"}


def _renamed(event: Object, names: dict[str, str]) -> Object:
    return {names.get(name, name): value for name, value in event.items()}


def pod_warning(
    pod: Object, reason: str, message: str, component: str, *, host: str = ""
) -> Object:
    """A new event of the core group: what a part of the cluster has to say about a pod."""
    about, moment = pod["metadata"], now()
    return {
        "metadata": {"generateName": f"{about['name']}.", "namespace": about["namespace"]},
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "namespace": about["namespace"],
            "name": about["name"],
            "uid": about["uid"],
            "resourceVersion": about["resourceVersion"],
        },
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": component} | ({"host": host} if host else {}),
        "reportingComponent": component,
        "reportingInstance": host,
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
    }


def strict_errors(event: Object) -> list[FieldError]:
    """Rules of events.k8s.io/v1 for a new event, given in core form."""
    errors = series_errors(event)
    if not event.get("eventTime"):
        errors.append(fields.required("eventTime"))
    if event.get("type") not in ("Normal", "Warning"):
        detail = f"has invalid value: {event.get('type', '')}"
        errors.append(fields.invalid("type", "", detail))
    errors += [
        fields.invalid(name, "", "needs to be unset") for name in _MUST_BE_UNSET if event.get(name)
    ]
    return errors


def change_errors(event: Object, old: Object) -> list[FieldError]:
    """Rules of events.k8s.io/v1 for a changed event, both given in core form."""
    errors = series_errors(event)
    for name in _IMMUTABLE:
        if event.get(name) != old.get(name):
            errors.append(fields.invalid(name, event.get(name), "field is immutable"))
    return errors


def series_errors(event: Object) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if series.get("count", 0) < 2:
        errors.append(fields.invalid("series.count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(fields.required("series.lastObservedTime"))
    return errors


class _EventStrategy(Strategy):
    def default(self, event: Object) -> None:
        for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
            event.setdefault(name, None)
        event.setdefault("source", {})
        event.setdefault("reportingComponent", "")
        event.setdefault("reportingInstance", "")

    def validate(self, event: Object) -> list[FieldError]:
        namespace = event["metadata"].get("namespace", "")
        involved = (event.get("involvedObject") or {}).get("namespace", "")
        mismatch = fields.invalid(
            "involvedObject.namespace", involved, "does not match event.namespace"
        )
        if not event.get("eventTime"):
            agrees = namespace == involved if involved else namespace in ("", "default")
            return [] if agrees else [mismatch]
        errors = [] if involved or namespace in ("default", "kube-system") else [mismatch]
        errors += [fields.required(name) for name in _REQUIRED if not event.get(name)]
        errors += [
            fields.invalid("reportingComponent", event["reportingComponent"], why)
            for why in label_key_errors(event["reportingComponent"])
        ]
        for name, limit in _LIMITS.items():
            if len((event.get(name) or "").encode()) > limit:
                errors.append(fields.invalid(name, "", f"can have at most {limit} characters"))
        return errors


_CORE_LABELS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
)
_COLUMNS = (
    Column("Last Seen", last_seen),
    Column("Type", at("type")),
    Column("Reason", at("reason")),
    Column("Object", event_object),
    Column("Source", at("reportingComponent"), wide=True),
    Column("Message", at("message")),
    Column("Name", lambda item: item["metadata"]["name"], format="name", wide=True),
)
RESOURCES = (
    Resource(
        "",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        field_labels={name: name for name in _CORE_LABELS} | {"source": "source.component"},
        creates_on_update=True,
        strategy=_EventStrategy(),
        columns=_COLUMNS,
    ),
    Resource(
        "events.k8s.io",
        "v1",
        "events",
        "Event",
        short_names=("ev",),
        field_labels={
            "reason": "reason",
            "type": "type",
            "reportingController": "reportingComponent",
            "regarding.kind": "involvedObject.kind",
            "regarding.namespace": "involvedObject.namespace",
            "regarding.name": "involvedObject.name",
            "regarding.uid": "involvedObject.uid",
        },
        creates_on_update=True,
        shows="events",
        strategy=_EventStrategy(),
        columns=_COLUMNS,
    ),
)
