"""Kubelets: nodes that behave, without machines.

Changes of pods and nodes flow in from the store, statuses, leases and deletions flow back through
the registry, so that watchers see what real kubelets would have caused. `kubelet` is the task that
plays all nodes, `admission` what a kubelet checks, `dynamic_resources` what it does about claims,
`nodes` their manifests and leases, `devices` the devices that example nodes have.

A pod that is bound is checked as a kubelet checks it (resources, ports, affinity, NoExecute
taints). One that does not fit fails with OutOfcpu and the like, which makes a scheduler's
overcommitment visible; one that fits runs after a short delay, as soon as its claims are reserved
for it. A deleted pod ends after another. Pods of Jobs finish by themselves after a while. A node
without conditions is ready, for its kubelet says so.
"""

from kscheduler.sandbox.kubelets.devices import example_device_classes, example_resource_slices
from kscheduler.sandbox.kubelets.kubelet import Kubelets
from kscheduler.sandbox.kubelets.nodes import Image, NodeShape, node_manifest

__all__ = [
    "Image",
    "Kubelets",
    "NodeShape",
    "example_device_classes",
    "example_resource_slices",
    "node_manifest",
]
