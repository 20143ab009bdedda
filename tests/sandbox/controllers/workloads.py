"""A cluster under test, and manifests of workloads."""

from collections import Counter

LABELS = {"app": "web"}
TEMPLATE = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}


def template(image="i:1", *, labels=None, annotations=None, **spec):
    metadata = {"labels": labels or LABELS}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": image}], **spec}}


def workload(kind, name="web", *, pods=None, **spec):
    """A workload of apps/v1 with a selector and a template."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": LABELS}, "template": pods or template(), **spec},
    }


def job(name="work", *, pods=None, **spec):
    pods = pods or template(restartPolicy="Never", labels={"app": "work"})
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": pods, **spec},
    }


class Cluster:
    """Objects of a server, with the controllers and kubelets that act on them."""

    def __init__(self, server, kubelets, manager):
        self.server = server
        self.objects = server.objects
        self.kubelets = kubelets
        self.manager = manager
        self.places_pods = True

    def node_for(self, pod):
        """The node of a pod's affinity, else the node with the fewest pods."""
        if not self.places_pods:
            return None
        affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        for term in required.get("nodeSelectorTerms") or ():
            for field in term.get("matchFields") or ():
                return field["values"][0]
        used = Counter(one["spec"].get("nodeName") for one in self.objects.list("pods"))
        names = [
            node["metadata"]["name"]
            for node in self.objects.list("nodes")
            if not node["spec"].get("taints")
        ]
        return min(names, key=lambda name: used[name], default=None)

    def pods(self, selector="app=web"):
        """Pods that are not on their way out."""
        found = self.objects.list("pods", label_selector=selector)
        return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]

    def names(self, selector="app=web"):
        return [pod["metadata"]["name"] for pod in self.pods(selector)]

    def status(self, resource, name="web"):
        return self.objects.get(resource, name).get("status") or {}
