"""What Ginkgo reports about a run, in its JSON format."""

import msgspec

SPEC = "It"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
NANOSECONDS = 1e-9


class Failure(msgspec.Struct, rename="pascal", frozen=True):
    message: str = ""


class Node(msgspec.Struct, rename="pascal"):
    """A spec, or something that is done before or after all of them."""

    leaf_node_type: str
    leaf_node_text: str
    # passed, failed, skipped, pending, panicked, interrupted, aborted or timedout.
    state: str
    run_time: int
    container_hierarchy_texts: list[str] | None = None
    failure: Failure = Failure()

    @property
    def name(self) -> str:
        return " ".join([*(self.container_hierarchy_texts or ()), self.leaf_node_text])

    @property
    def selected(self) -> bool:
        """Whether it was to be run: a spec that skipped itself says why."""
        return self.state != SKIPPED or bool(self.failure.message)


class Report(msgspec.Struct, rename="pascal"):
    spec_reports: list[Node]


class Spec(msgspec.Struct, frozen=True):
    """The result of one that was run."""

    name: str
    state: str
    seconds: float
    # Why it did not pass.
    reason: str = ""


class BrokenSuiteError(Exception):
    """Specs could not be run; the text says what failed before them."""


def read(content: bytes) -> list[Spec]:
    """The specs that were run, in the order of their names. Those that were not selected, about
    3,000, are left out; there may be no others.
    """
    nodes = [
        node
        for report in msgspec.json.decode(content, type=list[Report])
        for node in report.spec_reports
    ]
    specs = [
        Spec(node.name, node.state, node.run_time * NANOSECONDS, node.failure.message)
        for node in nodes
        if node.leaf_node_type == SPEC and node.selected
    ]
    broken = [
        f"{node.leaf_node_type}: {node.failure.message}"
        for node in nodes
        if node.leaf_node_type != SPEC and node.state not in (PASSED, SKIPPED)
    ]
    if broken and not specs:
        raise BrokenSuiteError("\n".join(broken))
    return sorted(specs, key=lambda spec: spec.name)
