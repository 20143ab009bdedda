"""coordination.k8s.io: the lease that one scheduler holds at a time."""

from kscheduler.api.meta import ApiObject, ApiStruct


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
