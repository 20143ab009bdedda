import json

import msgspec
import pytest

from kscheduler.api.core import (
    ContainerExtendedResourceRequest,
    NodeAllocatableMappedResources,
    NodeAllocatableResourceClaimStatus,
    PodCondition,
    PodExtendedResourceClaimStatus,
    PodStatus,
)
from kscheduler.client.bodies import pod_status_patch

UNSCHEDULABLE = PodCondition(
    type="PodScheduled",
    status="False",
    observed_generation=1,
    last_transition_time="2024-01-01T00:00:00Z",
    reason="Unschedulable",
    message="no nodes available to schedule pods",
)
READY = PodCondition(
    type="Ready", status="True", last_transition_time="2024-01-01T00:00:00Z", reason="x"
)


def changed(condition, **fields):
    return msgspec.structs.replace(condition, **fields)


CLAIM = PodExtendedResourceClaimStatus(
    (ContainerExtendedResourceRequest("c", "example.com/gpu", "container-0-request-1"),), "p1-abc"
)

ADDED = NodeAllocatableResourceClaimStatus(
    resource_claim_name="x",
    containers=("c",),
    mapping=(NodeAllocatableMappedResources(name="cpu", quantity="2"),),
)

WHOLE = (
    '{"lastProbeTime":null,"lastTransitionTime":"2024-01-01T00:00:00Z",'
    '"message":"no nodes available to schedule pods","observedGeneration":1,'
    '"reason":"Unschedulable","status":"False","type":"PodScheduled"}'
)


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(PodStatus(), PodStatus(), None, id="nothing"),
        pytest.param(
            PodStatus(conditions=(UNSCHEDULABLE,)),
            PodStatus(conditions=(UNSCHEDULABLE,)),
            None,
            id="the same condition again",
        ),
        pytest.param(
            PodStatus(),
            PodStatus(node_allocatable_resource_claim_statuses=(ADDED,)),
            '{"status":{"nodeAllocatableResourceClaimStatuses":[{"containers":["c"],'
            '"mapping":[{"name":"cpu","quantity":"2"}],"resourceClaimName":"x"}]}}',
            id="what devices add",
        ),
        pytest.param(
            PodStatus(node_allocatable_resource_claim_statuses=(ADDED,)),
            PodStatus(node_allocatable_resource_claim_statuses=(ADDED,), nominated_node_name="n"),
            '{"status":{"nominatedNodeName":"n"}}',
            id="what devices add is known already",
        ),
        pytest.param(
            PodStatus(),
            PodStatus(conditions=(UNSCHEDULABLE,)),
            f'{{"status":{{"conditions":[{WHOLE}]}}}}',
            id="first condition: the whole of it",
        ),
        pytest.param(
            PodStatus(conditions=(UNSCHEDULABLE,)),
            PodStatus(conditions=(changed(UNSCHEDULABLE, message="other"),)),
            '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],'
            '"conditions":[{"message":"other","type":"PodScheduled"}]}}',
            id="new message: only that",
        ),
        pytest.param(
            PodStatus(conditions=(UNSCHEDULABLE,)),
            PodStatus(conditions=(changed(UNSCHEDULABLE, message="m", reason="SchedulerError"),)),
            '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],'
            '"conditions":[{"message":"m","reason":"SchedulerError","type":"PodScheduled"}]}}',
            id="new message and reason",
        ),
        pytest.param(
            PodStatus(conditions=(UNSCHEDULABLE,)),
            PodStatus(conditions=(changed(UNSCHEDULABLE, message=""),)),
            '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],'
            '"conditions":[{"message":null,"type":"PodScheduled"}]}}',
            id="message removed",
        ),
        pytest.param(
            PodStatus(conditions=(READY,)),
            PodStatus(conditions=(READY, UNSCHEDULABLE)),
            '{"status":{"$setElementOrder/conditions":[{"type":"Ready"},{"type":"PodScheduled"}],'
            f'"conditions":[{WHOLE}]}}}}',
            id="condition beside others",
        ),
        pytest.param(
            PodStatus(conditions=(READY, UNSCHEDULABLE)),
            PodStatus(conditions=(UNSCHEDULABLE,)),
            '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],'
            '"conditions":[{"$patch":"delete","type":"Ready"}]}}',
            id="condition gone",
        ),
        pytest.param(
            PodStatus(conditions=(READY, UNSCHEDULABLE)),
            PodStatus(conditions=(UNSCHEDULABLE, READY)),
            '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"},{"type":"Ready"}]}}',
            id="another order",
        ),
        pytest.param(
            PodStatus(),
            PodStatus(nominated_node_name="n1"),
            '{"status":{"nominatedNodeName":"n1"}}',
            id="nominated",
        ),
        pytest.param(
            PodStatus(conditions=(UNSCHEDULABLE,), nominated_node_name="n1"),
            PodStatus(conditions=(changed(UNSCHEDULABLE, message="m"),)),
            '{"status":{"$setElementOrder/conditions":[{"type":"PodScheduled"}],'
            '"conditions":[{"message":"m","type":"PodScheduled"}],"nominatedNodeName":null}}',
            id="nomination cleared with a new message",
        ),
        pytest.param(
            PodStatus(),
            PodStatus(extended_resource_claim_status=CLAIM),
            '{"status":{"extendedResourceClaimStatus":{"requestMappings":['
            '{"containerName":"c","requestName":"container-0-request-1",'
            '"resourceName":"example.com/gpu"}],"resourceClaimName":"p1-abc"}}}',
            id="claim for extended resources",
        ),
        pytest.param(
            PodStatus(extended_resource_claim_status=CLAIM),
            PodStatus(extended_resource_claim_status=changed(CLAIM, resource_claim_name="p1-def")),
            '{"status":{"extendedResourceClaimStatus":{"resourceClaimName":"p1-def"}}}',
            id="another claim, same mappings",
        ),
        pytest.param(
            PodStatus(extended_resource_claim_status=CLAIM),
            PodStatus(),
            '{"status":{"extendedResourceClaimStatus":null}}',
            id="claim removed",
        ),
    ],
)
def test_patch_holds_what_changed(old, new, want):
    patch = pod_status_patch(old, new)
    assert (patch and patch.decode()) == want


def test_condition_with_a_probe_time_loses_it_explicitly():
    old = PodStatus(conditions=(changed(UNSCHEDULABLE, last_probe_time="2024-01-01T00:00:00Z"),))
    patch = pod_status_patch(old, PodStatus(conditions=(UNSCHEDULABLE,)))
    assert patch is not None
    assert json.loads(patch)["status"]["conditions"] == [
        {"lastProbeTime": None, "type": "PodScheduled"}
    ]
