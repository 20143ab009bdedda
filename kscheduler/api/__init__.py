"""The words the rest of the program speaks: Kubernetes objects and what they mean.

In flow JSON bytes (`decode`) and the strings inside them; out flow frozen structs, one module
per API group, and answers about them: how much is a `quantity`, does a selector match
(`labels`, `node_selector`), is a taint tolerated (`taints`), what does a pod ask for
(`requests`). Files that people write come in by another door, strict and full of reasons
(`document`, on `yaml_text` and `json_text`).

Invariants: nothing here waits, logs or remembers more than a bounded memo; a struct never
changes, so it may be shared, compared and kept. Structs hold only what a scheduler reads.
Whatever is written back to a server that holds more than that must be a patch, or be built on the
object's original JSON; a struct encoded as a whole would drop the fields it does not know.

Generated models were the alternative: complete, and two hundred times slower per pod.
"""

from kscheduler.api.resources import RESOURCES, Resource

__all__ = ["RESOURCES", "Resource"]
