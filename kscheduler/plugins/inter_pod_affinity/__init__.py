"""InterPodAffinity: pods that must, must not or prefer to be near other pods.

In: the pod's affinity terms and those that existing pods carry, both counted by the pod index as
pods by row. Out: nodes that break a required term, and scores by preferred ones.

    plugin          the extension points, and the events that wake a rejected pod
    filtering       required terms: which nodes have matching pods in their domains
    scoring         preferred terms: what the pods around a node are worth
    domain_counts   pods added up by topology domain, also for what-ifs on many rows
    terms           terms over namespaces' labels, with the namespaces named

Open `plugin`, then `filtering`.
"""

from kscheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity

__all__ = ["InterPodAffinity"]
