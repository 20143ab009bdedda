"""Claims, classes, slices and taint rules as the API server stores and refuses them.

tests/e2e/test_same_answers_devices.py compares many more answers with those of a real server.
"""

from contextlib import asynccontextmanager

import aiohttp
import pytest

from kscheduler.sandbox import StatusError, User
from tests.kit.devices import (
    FINALIZER,
    GROUP,
    allocation,
    claim_manifest,
    class_manifest,
    request,
    slice_manifest,
    template_manifest,
)
from tests.kit.manifests import pod_manifest
from tests.sandbox.rest import PODS, Rest

CLAIMS = f"/apis/{GROUP}/namespaces/default/resourceclaims"
STATUS = f"{CLAIMS}/c/status"
POD_1, POD_2 = ({"resource": "pods", "name": f"p{i}", "uid": f"u{i}"} for i in (1, 2))


def selecting(expression):
    return request(selectors=[{"cel": {"expression": expression}}])


@pytest.mark.parametrize(
    ("manifest", "wrong"),
    [
        pytest.param(
            claim_manifest("c", {"name": "r"}),
            "spec.devices.requests[0]: Required value: "
            "exactly one of `exactly` or `firstAvailable` is required",
            id="a request for nothing",
        ),
        pytest.param(
            claim_manifest("c", *(request(f"r{i}") for i in range(33))),
            "spec.devices.requests: Too many: 33: must have at most 32 items",
            id="too many requests",
        ),
        pytest.param(
            claim_manifest("c", selecting("device.driver")),
            "spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: "
            '"device.driver": must evaluate to bool or the unknown type, not string',
            id="a selector that is no condition",
        ),
        pytest.param(
            claim_manifest("c", request(adminAccess=True)),
            "spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires "
            "the `resource.kubernetes.io/admin-access: true` label on the containing namespace",
            id="admin access",
        ),
        pytest.param(
            template_manifest("c", request(count=-1)),
            "spec.spec.devices.requests[0].exactly.count: Invalid value: -1: "
            "must be greater than zero",
            id="a template",
        ),
        pytest.param(
            class_manifest("c", extendedResourceName="cpu"),
            'spec.extendedResourceName: Invalid value: "cpu": '
            "a name must be a domain-prefixed path, such as 'example.com/my-prop'",
            id="a class for a native resource",
        ),
        pytest.param(
            slice_manifest("c", devices=129),
            "spec.devices: Too many: 129: must have at most 128 items",
            id="too many devices",
        ),
        pytest.param(
            slice_manifest("c", nodeName="n", allNodes=True),
            'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, '
            "`nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields "
            "are set",
            id="a slice in two places",
        ),
    ],
)
def test_an_object_is_invalid(objects, manifest, wrong):
    with pytest.raises(StatusError) as refused:
        objects.create(manifest)
    assert str(refused.value) == f'{manifest["kind"]}.resource.k8s.io "c" is invalid: {wrong}'


def test_admin_access_needs_a_label_of_the_namespace(objects):
    labels = {"resource.kubernetes.io/admin-access": "true"}
    objects.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops", "labels": labels}}
    )
    claim = claim_manifest("c", request(adminAccess=True))
    objects.create(claim | {"metadata": {"name": "c", "namespace": "ops"}})


def test_quantities_are_stored_in_their_canonical_form(objects):
    device = {"name": "d", "capacity": {"memory": {"value": "1024Mi"}, "slots": {"value": "500u"}}}
    stored = objects.create(slice_manifest("n", devices=[device]))
    capacity = stored["spec"]["devices"][0]["capacity"]
    assert capacity == {"memory": {"value": "1Gi"}, "slots": {"value": "500u"}}


class TestStatus:
    @pytest.fixture(autouse=True)
    def claim(self, objects):
        return objects.create(claim_manifest("c"))

    async def test_consumers_are_merged_by_uid(self, rest):
        given = {"allocation": allocation("n"), "reservedFor": [POD_1]}
        assert (await rest.patch(STATUS, {"status": given}))[0] == 200
        await rest.patch(STATUS, {"status": {"reservedFor": [POD_2]}})
        gone = {"$patch": "delete", "uid": "u1"}
        _, body = await rest.patch(STATUS, {"status": {"reservedFor": [gone]}})
        assert body["status"] == {"allocation": allocation("n"), "reservedFor": [POD_2]}

    async def test_a_patch_for_another_claim_of_this_name_is_refused(self, rest):
        patch = {"metadata": {"uid": "another"}, "status": {"allocation": allocation("n")}}
        code, body = await rest.patch(STATUS, patch)
        assert code == 422
        assert body["message"] == (
            'ResourceClaim.resource.k8s.io "c" is invalid: metadata.uid: Invalid value: "another": '
            "field is immutable"
        )

    async def test_an_update_for_another_claim_of_this_name_is_a_conflict(self, rest, claim):
        claim["metadata"]["uid"] = "another"
        code, body = await rest.put(STATUS, claim)
        assert (code, body["reason"]) == (409, "Conflict")

    @pytest.mark.parametrize(
        ("first", "then", "wrong"),
        [
            pytest.param(
                {},
                {"reservedFor": [POD_1]},
                "status.reservedFor: Forbidden: may not be specified when `allocated` is not set",
                id="reserved before it is allocated",
            ),
            pytest.param(
                {"allocation": allocation("n")},
                {"allocation": allocation("n", "gpu-1")},
                "status.allocation: Invalid value: null: field cannot be modified once set",
                id="allocated otherwise",
            ),
            pytest.param(
                {"allocation": allocation("n")},
                {"reservedFor": [{**POD_1, "uid": f"u{i}"} for i in range(257)]},
                "status.reservedFor: Too many: 257: must have at most 256 items",
                id="reserved too often",
            ),
            pytest.param(
                {},
                {"allocation": allocation("n", *(f"gpu-{i}" for i in range(33)))},
                "status.allocation.devices.results: Too many: 33: must have at most 32 items",
                id="too many devices",
            ),
        ],
    )
    async def test_a_status_is_invalid(self, rest, first, then, wrong):
        assert (await rest.patch(STATUS, {"status": first}))[0] == 200
        code, body = await rest.patch(STATUS, {"status": then})
        assert code == 422
        assert body["message"] == f'ResourceClaim.resource.k8s.io "c" is invalid: {wrong}'

    async def test_a_claim_that_is_being_deleted_gets_no_new_consumer(self, rest, objects):
        def protect(item):
            item["metadata"]["finalizers"] = [FINALIZER]

        objects.update("resourceclaims.resource.k8s.io", "c", protect)
        given = {"allocation": allocation("n"), "reservedFor": [POD_1]}
        await rest.patch(STATUS, {"status": given})
        _, marked = await rest.delete(f"{CLAIMS}/c")
        assert "deletionTimestamp" in marked["metadata"]
        code, body = await rest.patch(STATUS, {"status": {"reservedFor": [POD_2]}})
        assert code == 422
        assert "new entries may not be added while" in body["message"]
        freed = {"allocation": None, "reservedFor": None}
        assert (await rest.patch(STATUS, {"status": freed}, "merge"))[0] == 200
        await rest.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}}, "merge")
        assert (await rest.get(f"{CLAIMS}/c"))[0] == 404

    async def test_words_about_devices_go_with_their_allocation(self, rest):
        await rest.patch(STATUS, {"status": {"allocation": allocation("n")}})
        told = {"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}
        _, body = await rest.patch(STATUS, {"status": {"devices": [told]}})
        assert body["status"]["devices"] == [told]
        _, body = await rest.patch(STATUS, {"status": {"allocation": None}})
        assert body["status"] == {}


@asynccontextmanager
async def acting_as(server, name):
    headers = {"Authorization": f"Bearer {server.users.add(User(name))}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        yield Rest(session, server.url)


def grant(objects, user, resource, *verbs):
    name = f"{user}-{resource.replace('/', '-')}"
    rule = {"apiGroups": ["resource.k8s.io"], "resources": [resource], "verbs": list(verbs)}
    group = "rbac.authorization.k8s.io"
    objects.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": [rule],
        }
    )
    objects.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
    )


class TestRights:
    """Allocating and talking about devices need rights besides that to write a status."""

    async def test_allocating_needs_the_right_to_bind(self, server, objects):
        objects.create(claim_manifest("c"))
        grant(objects, "joe", "resourceclaims/status", "patch")
        async with acting_as(server, "joe") as rest:
            code, body = await rest.patch(STATUS, {"status": {"allocation": allocation("n")}})
            assert code == 422
            assert body["message"] == (
                'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: '
                "changing status.allocation or status.reservedFor requires "
                'resource="resourceclaims/binding", verb="patch" permission: '
                'resourceclaims.resource.k8s.io is forbidden: User "joe" cannot patch resource '
                '"resourceclaims/binding" in API group "resource.k8s.io" at the cluster scope'
            )
            grant(objects, "joe", "resourceclaims/binding", "patch")
            code, _ = await rest.patch(STATUS, {"status": {"allocation": allocation("n")}})
            assert code == 200

    async def test_talking_about_devices_needs_a_right_for_their_driver(self, server, objects):
        objects.create(claim_manifest("c"))
        grant(objects, "joe", "resourceclaims/status", "patch")
        grant(objects, "joe", "resourceclaims/binding", "patch")
        told = {"devices": [{"driver": "gpu.example.com", "pool": "n", "device": "gpu-0"}]}
        async with acting_as(server, "joe") as rest:
            await rest.patch(STATUS, {"status": {"allocation": allocation("n")}})
            code, body = await rest.patch(STATUS, {"status": told})
            assert code == 422
            assert (
                'changing status.devices requires resource="resourceclaims/driver", '
                'verb="[arbitrary-node:patch]" permission: ' in body["message"]
            )
            grant(objects, "joe", "resourceclaims/driver", "arbitrary-node:patch")
            assert (await rest.patch(STATUS, {"status": told}))[0] == 200

    async def test_the_scheduler_of_a_cluster_may_allocate_and_reserve(self, server, objects):
        objects.create(claim_manifest("c"))
        given = {"allocation": allocation("n"), "reservedFor": [POD_1]}
        async with acting_as(server, "system:kube-scheduler") as rest:
            assert (await rest.patch(STATUS, {"status": given}))[0] == 200


@pytest.mark.parametrize(
    ("state", "wrong"),
    [
        pytest.param(
            {"resourceClaimStatuses": [{"name": "b", "resourceClaimName": "c"}]},
            'status.resourceClaimStatuses[0].name: Invalid value: "b": '
            "must match the name of an entry in `spec.resourceClaims`",
            id="a claim it does not have",
        ),
        pytest.param(
            {"extendedResourceClaimStatus": {"resourceClaimName": "c"}},
            "status.extendedResourceClaimStatus.requestMappings: Required value: "
            "at least one request mapping is required",
            id="a claim for no resource",
        ),
    ],
)
async def test_what_a_pod_says_about_its_claims_is_invalid(rest, objects, state, wrong):
    objects.create(
        pod_manifest("p", resourceClaims=[{"name": "a", "resourceClaimTemplateName": "t"}])
    )
    code, body = await rest.patch(f"{PODS}/p/status", {"status": state})
    assert (code, body["message"]) == (422, f'Pod "p" is invalid: {wrong}')
