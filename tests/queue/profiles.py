"""A profile for queues, made of functions."""

from kscheduler.framework.status import Code, Status

PROFILE = "default-scheduler"


class FakeProfile:
    """Sorts by priority and time; `gates` are functions by plugin that may refuse a pod."""

    def __init__(self, events=None, gates=None):
        self.events = events or {}
        self.gates = gates or {}
        self.signed = 0

    def sort_key(self, queued):
        return -queued.pod.priority, queued.timestamp

    def run_pre_enqueue(self, pod, first):
        names = sorted(self.gates, key=lambda name: name != first)
        for name in names:
            if self.gates[name](pod):
                return Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("closed",), name)
        return None

    def still_gates(self, pod, plugin):
        return self.gates[plugin](pod)

    def sign(self, pod):
        self.signed += 1
        return f"{pod.key}@{pod.pod.metadata.resource_version}"
