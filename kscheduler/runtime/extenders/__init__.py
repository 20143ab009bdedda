"""Extenders: HTTP services that filter, score, preempt or bind beside the plugins.

In: a pod, and the nodes that plugins accepted or would preempt on. Out: the nodes that extenders
leave, scores to add, victims, and whether a pod is bound. What is sent where is for the client.

    extenders   all of them together, as the cycle and preemption call them; open this first
    extender    one of them: its verbs, and which pods it is interested in
    messages    the JSON of k8s.io/kube-scheduler/extender/v1
"""
