"""API groups of which the scheduler knows one or two kinds each.

apps/v1 (owners whose selectors give pods their default spreading), authentication.k8s.io/v1 and
authorization.k8s.io/v1 (reviews of who sent a request and whether it is allowed),
coordination.k8s.io (the lease that one scheduler holds at a time), events.k8s.io/v1 and policy/v1
(budgets that preemption tries not to break). Groups with more kinds have a module of their own.
"""

from collections.abc import Mapping

from kscheduler.api.core import EventSource, ObjectReference
from kscheduler.api.meta import EMPTY, ApiObject, ApiStruct, IntOrString, LabelSelector


class ReplicaSetSpec(ApiStruct):
    replicas: int | None = None
    selector: LabelSelector | None = None


class ReplicaSet(ApiObject):
    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(ApiStruct):
    replicas: int | None = None
    selector: LabelSelector | None = None


class StatefulSet(ApiObject):
    spec: StatefulSetSpec = StatefulSetSpec()


class UserInfo(ApiStruct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = EMPTY


class TokenReviewSpec(ApiStruct):
    token: str = ""
    audiences: tuple[str, ...] = ()


class TokenReviewStatus(ApiStruct):
    authenticated: bool = False
    user: UserInfo = UserInfo()
    audiences: tuple[str, ...] = ()
    error: str = ""


class TokenReview(ApiObject):
    spec: TokenReviewSpec = TokenReviewSpec()
    status: TokenReviewStatus = TokenReviewStatus()


class NonResourceAttributes(ApiStruct):
    path: str = ""
    verb: str = ""


class ResourceAttributes(ApiStruct):
    """A verb on a collection or, with a name, on one object; without a namespace, in all."""

    namespace: str = ""
    verb: str = ""
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""


class SubjectAccessReviewSpec(ApiStruct):
    resource_attributes: ResourceAttributes | None = None
    non_resource_attributes: NonResourceAttributes | None = None
    user: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = EMPTY
    uid: str = ""


class SubjectAccessReviewStatus(ApiStruct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""
    evaluation_error: str = ""


class SubjectAccessReview(ApiObject):
    spec: SubjectAccessReviewSpec = SubjectAccessReviewSpec()
    status: SubjectAccessReviewStatus = SubjectAccessReviewStatus()


class LeaseSpec(ApiStruct):
    # A zero and an empty string are written out, so absence needs a value of its own.
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None
    strategy: str | None = None
    preferred_holder: str | None = None


class Lease(ApiObject):
    spec: LeaseSpec = LeaseSpec()


class LeaseCandidateSpec(ApiStruct):
    lease_name: str = ""
    ping_time: str | None = None
    renew_time: str | None = None
    binary_version: str = ""
    emulation_version: str = ""
    strategy: str = ""


class LeaseCandidate(ApiObject):
    """An offer to hold a lease, in coordinated leader election (v1beta1)."""

    spec: LeaseCandidateSpec = LeaseCandidateSpec()


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


class PodDisruptionBudgetSpec(ApiStruct):
    selector: LabelSelector | None = None
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None


class PodDisruptionBudgetStatus(ApiStruct):
    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str | None] = EMPTY
    observed_generation: int = 0


class PodDisruptionBudget(ApiObject):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
