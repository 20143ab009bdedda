"""Aggregated cluster roles have the rules of the roles that their labels choose."""

from tests.kit.polling import until

ROLES = "clusterroles.rbac.authorization.k8s.io"
READS_RACKS = {"apiGroups": ["example.com"], "resources": ["racks"], "verbs": ["get"]}
PART = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {
        "name": "racks",
        "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"},
    },
    "rules": [READS_RACKS],
}


def resources(cluster, name, verb):
    """What a role lets do this."""
    rules = cluster.objects.get(ROLES, name).get("rules") or ()
    return {one for rule in rules if verb in rule["verbs"] for one in rule["resources"]}


async def test_admin_edit_and_view_grant_what_they_grant_in_every_cluster(cluster):
    await until(lambda: "roles" in resources(cluster, "admin", "create"))
    await until(lambda: "pods" in resources(cluster, "admin", "list"))
    assert "pods" in resources(cluster, "view", "list")
    assert "secrets" not in resources(cluster, "view", "list")
    assert "pods" not in resources(cluster, "view", "create")
    assert {"pods", "secrets", "deployments/scale"} <= resources(cluster, "edit", "create")
    assert "roles" not in resources(cluster, "edit", "create")
    assert {"pods", "secrets", "deployments/scale"} <= resources(cluster, "admin", "create")


async def test_a_role_that_comes_and_goes_changes_those_it_is_a_part_of(cluster):
    def grants(name):
        return READS_RACKS in (cluster.objects.get(ROLES, name).get("rules") or ())

    cluster.objects.create(PART)
    await until(lambda: all(grants(name) for name in ("view", "edit", "admin")))
    cluster.objects.delete(ROLES, "racks")
    await until(lambda: not any(grants(name) for name in ("view", "edit", "admin")))
