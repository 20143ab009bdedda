"""Kinds that nothing here acts on: stored as they are, so that their manifests can be applied."""

from __future__ import annotations

from kscheduler.rest.tables import AGE, NAME, NONE, Column, at
from kscheduler.sandbox.kinds.resource import STATUS, Resource

_NETWORKING = "networking.k8s.io"
RESOURCES = (
    Resource("", "v1", "podtemplates", "PodTemplate"),
    Resource(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        subresources=(STATUS,),
    ),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"),
    Resource(_NETWORKING, "v1", "ingressclasses", "IngressClass", namespaced=False),
    Resource(
        _NETWORKING,
        "v1",
        "ingresses",
        "Ingress",
        short_names=("ing",),
        subresources=(STATUS,),
        columns=(NAME, Column("Class", at("spec.ingressClassName", NONE)), AGE),
    ),
    Resource(_NETWORKING, "v1", "networkpolicies", "NetworkPolicy", short_names=("netpol",)),
    Resource(
        "node.k8s.io",
        "v1",
        "runtimeclasses",
        "RuntimeClass",
        namespaced=False,
        columns=(NAME, Column("Handler", at("handler")), AGE),
    ),
)
