"""apps/v1: the owners whose selectors give pods their default spreading."""

from kscheduler.api.meta import ApiObject, ApiStruct, LabelSelector


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
