"""Kubernetes objects and what they mean.

In flow JSON bytes (`decode`) and the strings inside them; out flow frozen structs, by API group
(`core`, `resource`, `scheduling`, `storage`, `small_groups`; `meta` is what all share), and answers
about them: how much a `quantity` is, whether a selector matches (`labels`, `fields`,
`node_selector`), whether a taint is tolerated (`taints`), what a pod requests (`requests`).
`resources` is the table of kinds with their URLs; open it first.

Invariants: nothing here waits, logs or keeps more than a bounded cache; a struct never
changes, so it may be shared, compared and kept. Structs hold only what a scheduler reads.
Whatever is written back to a server that holds more than that must be a patch, or be built on the
object's original JSON; a struct encoded as a whole would drop the fields it does not know.

The official client's models were the alternative: complete, and 24 times slower per pod (see
docs/dependencies.md).
"""

from kscheduler.api.resources import RESOURCES, Resource

__all__ = ["RESOURCES", "Resource"]
