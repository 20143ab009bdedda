"""Objects as a user would write them."""

PODS = "/api/v1/namespaces/default/pods"
NODES = "/api/v1/nodes"


def pod_manifest(name="p", **spec):
    containers = spec.pop("containers", [{"name": "c", "image": "example.com/app:1"}])
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": spec.pop("labels", {})},
        "spec": {"containers": containers, **spec},
    }


def node_manifest(name="n", **parts):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": parts.pop("labels", {})},
        "spec": parts,
        "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    }
