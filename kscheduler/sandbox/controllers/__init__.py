"""Controllers: the loops of a control plane that a scheduler depends on.

Changes flow in from the store (`Collection.listen`); what a controller does about them flows back
through the registry, so that watchers see what a real controller would have caused. A controller is
one asyncio task; there is none for workloads, disruption budgets or garbage collection.

`volumes` runs the volume controllers: persistent volumes (`persistent_volumes`), ephemeral volumes,
and attach/detach (`attach_detach`). `resource_claims` makes device claims from templates and
releases them. `namespaces` empties terminating namespaces, gives new ones their service account,
and expires events. The API server starts `namespaces` itself; the others are the caller's to start,
like the kubelets.

Invariant: what is done to an object follows from what is stored, so a change may be handled any
number of times, in any order. A new controller keeps it: listeners mark keys, `run` reconciles.
"""
