"""Protobuf request bodies, for the kinds that clients like to send that way.

kubectl's `create` subcommands and client-go's typed clients write protobuf when they can; answers
may be JSON, which they all accept. The messages that are read are listed in `_TABLE`, the kinds in
`KINDS`. A kind or a field that is not listed is refused, never dropped.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from kscheduler.api.timestamps import format_micro_time_ns, format_time_ns

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_MAGIC = b"k8s\0"
_NANO = 10**9
_TWO_64 = 2**64
_EMBEDDED = "_"  # in place of a name: a message whose fields are its holder's in JSON


class ProtobufError(ValueError):
    """The body is damaged, or speaks of something that is not listed."""


def decode(body: bytes) -> dict[str, Any]:
    """The object in an envelope, as its JSON form."""
    if not body.startswith(_MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message")
    envelope = dict(_fields(body[len(_MAGIC) :]))
    about = {number: _text(value) for number, value in _fields(_bytes(envelope.get(1, b"")))}
    version, kind = about.get(1, ""), about.get(2, "")
    # Options come under the version of whatever they are about.
    message = kind if kind == "DeleteOptions" else KINDS.get((version, kind))
    if message is None:
        raise ProtobufError(f"{kind} in version {version} is not read in protobuf")
    return {"apiVersion": version, "kind": kind, **_message(_bytes(envelope.get(2, b"")), message)}


def _message(body: bytes, name: str) -> dict[str, Any]:
    """Go writes fields that are not set as zero; those are left out unless they can be null."""
    known, item = MESSAGES[name], dict[str, Any]()
    for number, raw in _fields(body):
        field = known.get(number)
        if field is None:
            raise ProtobufError(f"field {number} of {name} is not read in protobuf")
        if field.is_list:
            item.setdefault(field.name, []).append(_value(raw, field.type))
        elif field.is_map:
            entry = dict(_fields(_bytes(raw)))  # 1 is the key, 2 the value
            value = _value(entry.get(2, b""), field.type)
            item.setdefault(field.name, {})[_text(entry.get(1, b""))] = value
        else:
            value = _value(raw, field.type)
            if field.name == _EMBEDDED:
                item |= value
            elif value or field.is_pointer:
                item[field.name] = value
    return item


def _value(raw: bytes | int, kind: str) -> Any:
    match kind:
        case "string":
            return _text(raw)
        case "int":
            return _signed(raw)
        case "bool":
            return bool(raw)
        case "bytes":
            return base64.b64encode(_bytes(raw)).decode()
        case "time" | "microtime":
            parts = dict(_fields(_bytes(raw)))  # 1 is seconds, 2 nanoseconds
            if not parts:
                return None
            nanoseconds = _signed(parts.get(1, 0)) * _NANO + _signed(parts.get(2, 0))
            return (format_micro_time_ns if kind == "microtime" else format_time_ns)(nanoseconds)
        case "quantity":
            return _text(dict(_fields(_bytes(raw))).get(1, b""))
        case "json":
            return msgspec.json.decode(_bytes(dict(_fields(_bytes(raw))).get(1, b"")) or b"{}")
        case "int-or-string":
            parts = dict(_fields(_bytes(raw)))  # 1 says whether it is 3, a text, or 2, a number
            return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))
    return _message(_bytes(raw), kind)


def _fields(body: bytes) -> Iterator[tuple[int, bytes | int]]:
    """Number and raw value of each field; only varints and length-delimited values occur."""
    position = 0
    while position < len(body):
        tag, position = _varint(body, position)
        match tag & 7:
            case 0:
                value, position = _varint(body, position)
                yield tag >> 3, value
            case 2:
                length, position = _varint(body, position)
                if position + length > len(body):
                    raise ProtobufError("unexpected end of protobuf message")
                yield tag >> 3, body[position : position + length]
                position += length
            case wire_type:
                raise ProtobufError(f"wire type {wire_type} does not occur in API objects")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(body):
            break
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise ProtobufError("damaged number in protobuf message")


def _bytes(raw: bytes | int) -> bytes:
    if isinstance(raw, int):
        raise ProtobufError("a number where a text or message was expected")
    return raw


def _text(raw: bytes | int) -> str:
    try:
        return _bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError(f"a text that is not UTF-8: {error}") from error


def _signed(raw: bytes | int) -> int:
    if isinstance(raw, bytes):
        raise ProtobufError("a text or message where a number was expected")
    return raw - _TWO_64 if raw >= _TWO_64 // 2 else raw


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its JSON name and how to read it."""

    name: str
    type: str = "string"
    is_list: bool = False
    is_map: bool = False
    is_pointer: bool = False


_SCALAR_SHORTHANDS = {"": "string", "i": "int", "b": "bool", "qty": "quantity"}
_ENTRY = re.compile(r"(\d+) (\w+)(?:: (\S+))?")

_TABLE = {
    # meta
    "ObjectMeta": "1 name, 2 generateName, 3 namespace, 4 selfLink, 5 uid, 6 resourceVersion, "
    "7 generation: i, 8 creationTimestamp: time, 9 deletionTimestamp: time, "
    "10 deletionGracePeriodSeconds: i?, 11 labels: {}, 12 annotations: {}, "
    "13 ownerReferences: [OwnerReference], 14 finalizers: [], 17 managedFields: [ManagedFields]",
    "OwnerReference": "1 kind, 3 name, 4 uid, 5 apiVersion, 6 controller: b?, "
    "7 blockOwnerDeletion: b?",
    "ManagedFields": "1 manager, 2 operation, 3 apiVersion, 4 time: time, 6 fieldsType, "
    "7 fieldsV1: json, 8 subresource",
    "LabelSelector": "1 matchLabels: {}, 2 matchExpressions: [Requirement]",
    "Requirement": "1 key, 2 operator, 3 values: []",
    "Condition": "1 type, 2 status, 3 observedGeneration: i, 4 lastTransitionTime: time, "
    "5 reason, 6 message",
    "DeleteOptions": "1 gracePeriodSeconds: i?, 2 preconditions: Preconditions, "
    "3 orphanDependents: b?, 4 propagationPolicy, 5 dryRun: []",
    "Preconditions": "1 uid, 2 resourceVersion",
    # core
    "Namespace": "1 metadata: ObjectMeta, 2 spec: NamespaceSpec, 3 status: NamespaceStatus",
    "NamespaceSpec": "1 finalizers: []",
    "NamespaceStatus": "1 phase",
    "ConfigMap": "1 metadata: ObjectMeta, 2 data: {}, 3 binaryData: {bytes}, 4 immutable: b?",
    "Secret": "1 metadata: ObjectMeta, 2 data: {bytes}, 3 type, 4 stringData: {}, 5 immutable: b?",
    "ServiceAccount": "1 metadata: ObjectMeta, 2 secrets: [ObjectReference], "
    "3 imagePullSecrets: [LocalReference], 4 automountServiceAccountToken: b?",
    "LocalReference": "1 name",
    "ObjectReference": "1 kind, 2 namespace, 3 name, 4 uid, 5 apiVersion, 6 resourceVersion, "
    "7 fieldPath",
    "Binding": "1 metadata: ObjectMeta, 2 target: ObjectReference",
    "Event": "1 metadata: ObjectMeta, 2 involvedObject: ObjectReference, 3 reason, 4 message, "
    "5 source: EventSource, 6 firstTimestamp: time, 7 lastTimestamp: time, 8 count: i, 9 type, "
    "10 eventTime: microtime, 11 series: EventSeries, 12 action, 13 related: ObjectReference, "
    "14 reportingComponent, 15 reportingInstance",
    "EventSource": "1 component, 2 host",
    "EventSeries": "1 count: i, 2 lastObservedTime: microtime",
    "Service": "1 metadata: ObjectMeta, 2 spec: ServiceSpec, 3 status: ServiceStatus",
    "ServiceSpec": "1 ports: [ServicePort], 2 selector: {}, 3 clusterIP, 4 type, "
    "5 externalIPs: [], 7 sessionAffinity, 8 loadBalancerIP, 9 loadBalancerSourceRanges: [], "
    "10 externalName, 11 externalTrafficPolicy, 12 healthCheckNodePort: i, "
    "13 publishNotReadyAddresses: b, 17 ipFamilyPolicy, 18 clusterIPs: [], 19 ipFamilies: [], "
    "20 allocateLoadBalancerNodePorts: b?, 21 loadBalancerClass, 22 internalTrafficPolicy",
    "ServicePort": "1 name, 2 protocol, 3 port: i, 4 targetPort: int-or-string, 5 nodePort: i, "
    "6 appProtocol",
    "ServiceStatus": "1 loadBalancer: LoadBalancer",
    "LoadBalancer": "",
    "PodTemplateSpec": "1 metadata: ObjectMeta, 2 spec: PodSpec",
    "PodSpec": "2 containers: [Container], 3 restartPolicy, 4 terminationGracePeriodSeconds: i?, "
    "5 activeDeadlineSeconds: i?, 6 dnsPolicy, 7 nodeSelector: {}, 8 serviceAccountName, "
    "9 serviceAccount, 10 nodeName, 11 hostNetwork: b, 12 hostPID: b, 13 hostIPC: b, "
    "14 securityContext: Nothing?, 15 imagePullSecrets: [LocalReference], 16 hostname, "
    "17 subdomain, 19 schedulerName, 20 initContainers: [Container], "
    "21 automountServiceAccountToken: b?, 22 tolerations: [Toleration], 24 priorityClassName, "
    "25 priority: i?, 30 enableServiceLinks: b?, 31 preemptionPolicy, 32 overhead: {qty}, "
    "38 schedulingGates: [LocalReference]",
    "Container": "1 name, 2 image, 3 command: [], 4 args: [], 5 workingDir, "
    "6 ports: [ContainerPort], 7 env: [EnvVar], 8 resources: Resources, "
    "13 terminationMessagePath, 14 imagePullPolicy, 16 stdin: b, 17 stdinOnce: b, 18 tty: b, "
    "20 terminationMessagePolicy, 24 restartPolicy",
    "ContainerPort": "1 name, 2 hostPort: i, 3 containerPort: i, 4 protocol, 5 hostIP",
    "EnvVar": "1 name, 2 value",
    "Resources": "1 limits: {qty}, 2 requests: {qty}",
    "Toleration": "1 key, 2 operator, 3 value, 4 effect, 5 tolerationSeconds: i?",
    "NodeSelector": "1 nodeSelectorTerms: [NodeSelectorTerm]",
    "NodeSelectorTerm": "1 matchExpressions: [Requirement], 2 matchFields: [Requirement]",
    "Nothing": "",
    "ResourceQuota": "1 metadata: ObjectMeta, 2 spec: QuotaSpec, 3 status: QuotaStatus",
    "QuotaSpec": "1 hard: {qty}, 2 scopes: []",
    "QuotaStatus": "1 hard: {qty}, 2 used: {qty}",
    # apps
    "Deployment": "1 metadata: ObjectMeta, 2 spec: DeploymentSpec, 3 status: DeploymentStatus",
    "DeploymentSpec": "1 replicas: i?, 2 selector: LabelSelector, 3 template: PodTemplateSpec, "
    "4 strategy: DeploymentStrategy, 5 minReadySeconds: i, 6 revisionHistoryLimit: i?, "
    "7 paused: b, 9 progressDeadlineSeconds: i?",
    "DeploymentStrategy": "1 type, 2 rollingUpdate: RollingUpdate",
    "RollingUpdate": "1 maxUnavailable: int-or-string?, 2 maxSurge: int-or-string?",
    "DeploymentStatus": "1 observedGeneration: i, 2 replicas: i, 3 updatedReplicas: i, "
    "4 availableReplicas: i, 5 unavailableReplicas: i, 7 readyReplicas: i",
    # batch
    "Job": "1 metadata: ObjectMeta, 2 spec: JobSpec, 3 status: JobStatus",
    "JobSpec": "1 parallelism: i?, 2 completions: i?, 3 activeDeadlineSeconds: i?, "
    "4 selector: LabelSelector?, 5 manualSelector: b?, 6 template: PodTemplateSpec, "
    "7 backoffLimit: i?, 8 ttlSecondsAfterFinished: i?, 9 completionMode, 10 suspend: b?, "
    "12 backoffLimitPerIndex: i?, 13 maxFailedIndexes: i?, 14 podReplacementPolicy, 15 managedBy",
    "JobStatus": "2 startTime: time, 3 completionTime: time, 4 active: i, 5 succeeded: i, "
    "6 failed: i, 7 completedIndexes, 9 ready: i?, 11 terminating: i?",
    "CronJob": "1 metadata: ObjectMeta, 2 spec: CronJobSpec, 3 status: CronJobStatus",
    "CronJobSpec": "1 schedule, 2 startingDeadlineSeconds: i?, 3 concurrencyPolicy, "
    "4 suspend: b?, 5 jobTemplate: JobTemplateSpec, 6 successfulJobsHistoryLimit: i?, "
    "7 failedJobsHistoryLimit: i?, 8 timeZone",
    "CronJobStatus": "1 active: [ObjectReference], 4 lastScheduleTime: time, "
    "5 lastSuccessfulTime: time",
    "JobTemplateSpec": "1 metadata: ObjectMeta, 2 spec: JobSpec",
    # policy and scheduling
    "Eviction": "1 metadata: ObjectMeta, 2 deleteOptions: DeleteOptions",
    "PodDisruptionBudget": "1 metadata: ObjectMeta, 2 spec: BudgetSpec, 3 status: BudgetStatus",
    "BudgetSpec": "1 minAvailable: int-or-string?, 2 selector: LabelSelector?, "
    "3 maxUnavailable: int-or-string?, 4 unhealthyPodEvictionPolicy",
    "BudgetStatus": "1 observedGeneration: i, 2 disruptedPods: {time}, 3 disruptionsAllowed: i, "
    "4 currentHealthy: i, 5 desiredHealthy: i, 6 expectedPods: i, 7 conditions: [Condition]",
    "PriorityClass": "1 metadata: ObjectMeta, 2 value: i, 3 globalDefault: b, 4 description, "
    "5 preemptionPolicy",
    # resource
    "ResourceClaim": "1 metadata: ObjectMeta, 2 spec: ClaimSpec, 3 status: ClaimStatus",
    "ClaimSpec": "1 devices: DeviceClaim",
    "DeviceClaim": "1 requests: [DeviceRequest], 2 constraints: [DeviceConstraint], "
    "3 config: [ClaimConfiguration]",
    "DeviceRequest": "1 name, 2 exactly: ExactRequest, 3 firstAvailable: [SubRequest]",
    "ExactRequest": "1 deviceClassName, 2 selectors: [DeviceSelector], 3 allocationMode, "
    "4 count: i, 5 adminAccess: b?, 6 tolerations: [Toleration], 7 capacity: Capacity, "
    "8 derivedAttributes: [DerivedAttribute]",
    "SubRequest": "1 name, 2 deviceClassName, 3 selectors: [DeviceSelector], 4 allocationMode, "
    "5 count: i, 6 tolerations: [Toleration], 7 capacity: Capacity, "
    "8 derivedAttributes: [DerivedAttribute]",
    "DeviceSelector": "1 cel: CELSelector",
    "CELSelector": "1 expression",
    "Capacity": "1 requests: {qty}",
    "DerivedAttribute": "1 name, 2 expression",
    "DeviceConstraint": "1 requests: [], 2 matchAttribute, 3 distinctAttribute",
    "ClaimConfiguration": "1 requests: [], 2 _: DeviceConfiguration",
    "DeviceConfiguration": "1 opaque: OpaqueConfiguration",
    "OpaqueConfiguration": "1 driver, 2 parameters: json",
    "ClaimStatus": "1 allocation: Allocation?, 2 reservedFor: [Consumer], "
    "4 devices: [DeviceStatus]",
    "Allocation": "1 devices: AllocatedDevices, 3 nodeSelector: NodeSelector?, "
    "5 allocationTimestamp: time",
    "AllocatedDevices": "1 results: [AllocatedDevice], 2 config: [AllocatedConfiguration]",
    "AllocatedDevice": "1 request, 2 driver, 3 pool, 4 device, 5 adminAccess: b?, "
    "6 tolerations: [Toleration], 7 bindingConditions: [], 8 bindingFailureConditions: [], "
    "9 shareID, 10 consumedCapacity: {qty}, 11 skipNodeOperations: []",
    "AllocatedConfiguration": "1 source, 2 requests: [], 3 _: DeviceConfiguration",
    "Consumer": "1 apiGroup, 3 resource, 4 name, 5 uid",
    "DeviceStatus": "1 driver, 2 pool, 3 device, 4 conditions: [Condition], 5 data: json, "
    "6 networkData: NetworkData, 7 shareID",
    "NetworkData": "1 interfaceName, 2 ips: [], 3 hardwareAddress",
    # coordination and events
    "Lease": "1 metadata: ObjectMeta, 2 spec: LeaseSpec",
    "LeaseSpec": "1 holderIdentity: ?, 2 leaseDurationSeconds: i?, 3 acquireTime: microtime, "
    "4 renewTime: microtime, 5 leaseTransitions: i?, 6 strategy, 7 preferredHolder",
    "NewEvent": "1 metadata: ObjectMeta, 2 eventTime: microtime, 3 series: EventSeries, "
    "4 reportingController, 5 reportingInstance, 6 action, 7 reason, "
    "8 regarding: ObjectReference, 9 related: ObjectReference, 10 note, 11 type, "
    "12 deprecatedSource: EventSource, 13 deprecatedFirstTimestamp: time, "
    "14 deprecatedLastTimestamp: time, 15 deprecatedCount: i",
    # access
    "Role": "1 metadata: ObjectMeta, 2 rules: [Rule]",
    "Rule": "1 verbs: [], 2 apiGroups: [], 3 resources: [], 4 resourceNames: [], "
    "5 nonResourceURLs: []",
    "RoleBinding": "1 metadata: ObjectMeta, 2 subjects: [Subject], 3 roleRef: RoleReference",
    "Subject": "1 kind, 2 apiGroup, 3 name, 4 namespace",
    "RoleReference": "1 apiGroup, 2 kind, 3 name",
    "TokenReview": "1 metadata: ObjectMeta, 2 spec: TokenReviewSpec, 3 status: TokenReviewStatus",
    "TokenReviewSpec": "1 token, 2 audiences: []",
    "TokenReviewStatus": "1 authenticated: b, 2 user: UserInfo, 3 error",
    "UserInfo": "1 username, 2 uid, 3 groups: []",
    "SelfReview": "1 metadata: ObjectMeta, 2 status: SelfReviewStatus",
    "SelfReviewStatus": "1 userInfo: UserInfo",
    "TokenRequest": "1 metadata: ObjectMeta, 2 spec: TokenRequestSpec, "
    "3 status: TokenRequestStatus",
    "TokenRequestSpec": "1 audiences: [], 3 boundObjectRef: BoundReference, "
    "4 expirationSeconds: i?",
    "BoundReference": "1 kind, 2 apiVersion, 3 name, 4 uid",
    "TokenRequestStatus": "1 token, 2 expirationTimestamp: time",
    "RulesReview": "1 metadata: ObjectMeta, 2 spec: RulesReviewSpec, 3 status: RulesReviewStatus",
    "RulesReviewSpec": "1 namespace",
    "RulesReviewStatus": "3 incomplete: b, 4 evaluationError",
    "AccessReview": "1 metadata: ObjectMeta, 2 spec: AccessReviewSpec, "
    "3 status: AccessReviewStatus",
    "AccessReviewSpec": "1 resourceAttributes: ResourceAttributes?, "
    "2 nonResourceAttributes: PathAttributes?, 3 user, 4 groups: [], 6 uid",
    "AccessReviewStatus": "1 allowed: b, 2 reason, 3 evaluationError, 4 denied: b",
    "ResourceAttributes": "1 namespace, 2 verb, 3 group, 4 version, 5 resource, 6 subresource, "
    "7 name",
    "PathAttributes": "1 path, 2 verb",
}

_RBAC = "rbac.authorization.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"
KINDS: dict[tuple[str, str], str] = {
    **{
        ("v1", kind): kind
        for kind in (
            "Binding",
            "ConfigMap",
            "Event",
            "Namespace",
            "ResourceQuota",
            "Secret",
            "Service",
            "ServiceAccount",
        )
    },
    ("apps/v1", "Deployment"): "Deployment",
    ("batch/v1", "CronJob"): "CronJob",
    ("batch/v1", "Job"): "Job",
    ("policy/v1", "Eviction"): "Eviction",
    ("policy/v1", "PodDisruptionBudget"): "PodDisruptionBudget",
    ("scheduling.k8s.io/v1", "PriorityClass"): "PriorityClass",
    ("resource.k8s.io/v1", "ResourceClaim"): "ResourceClaim",
    ("coordination.k8s.io/v1", "Lease"): "Lease",
    ("events.k8s.io/v1", "Event"): "NewEvent",
    (_RBAC, "Role"): "Role",
    (_RBAC, "ClusterRole"): "Role",
    (_RBAC, "RoleBinding"): "RoleBinding",
    (_RBAC, "ClusterRoleBinding"): "RoleBinding",
    ("authentication.k8s.io/v1", "TokenReview"): "TokenReview",
    ("authentication.k8s.io/v1", "SelfSubjectReview"): "SelfReview",
    ("authentication.k8s.io/v1", "TokenRequest"): "TokenRequest",
    (_AUTHORIZATION, "SelfSubjectRulesReview"): "RulesReview",
    (_AUTHORIZATION, "SubjectAccessReview"): "AccessReview",
    (_AUTHORIZATION, "SelfSubjectAccessReview"): "AccessReview",
    (_AUTHORIZATION, "LocalSubjectAccessReview"): "AccessReview",
}


def _parse(line: str) -> dict[int, Field]:
    """Fields by number from a line of the table: `[type]` a list, `{type}` a map, `?` a pointer."""
    found = {}
    for number, name, kind in _ENTRY.findall(line):
        kind = kind.rstrip(",")
        inner = kind.strip("[]{}?")
        found[int(number)] = Field(
            name,
            _SCALAR_SHORTHANDS.get(inner, inner),
            is_list=kind.startswith("["),
            is_map=kind.startswith("{"),
            is_pointer=kind.endswith("?"),
        )
    return found


MESSAGES: dict[str, dict[int, Field]] = {name: _parse(line) for name, line in _TABLE.items()}
