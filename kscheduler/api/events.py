"""events.k8s.io/v1: what the scheduler tells about a pod."""

from kscheduler.api.core import EventSource, ObjectReference
from kscheduler.api.meta import ApiObject, ApiStruct


class EventSeries(ApiStruct):
    count: int = 0
    last_observed_time: str = ""


class Event(ApiObject):
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource | None = None
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: int = 0
