"""Controllers: the loops of a control plane that a scheduler's user depends on.

Changes flow in from the store (`Collection.listen`); what a controller does about them flows back
through the registry, so that watchers see what a real controller would have caused. A controller is
one asyncio task. `controller_manager` starts all of them, like kube-controller-manager.

Open `controller` first: keys that wait, retries, statuses. `owned_pods` is the common part of the
controllers of pods: `replica_sets`, `stateful_sets`, `daemon_sets`, `jobs`; `deployments` and
`cron_jobs` are a level above them. `garbage_collector` follows owner references, `disruption` keeps
budgets, `node_lifecycle` taints silent nodes and evicts from them. `volumes` runs the volume
controllers: persistent volumes (`persistent_volumes`), ephemeral volumes, and attach/detach
(`attach_detach`). `resource_claims` makes device claims from templates and releases them.
`namespaces` empties terminating namespaces, gives new ones their service account, and expires
events; the API server starts it itself.

Invariant: what is done to an object follows from what is stored, so a change may be handled any
number of times, in any order. A new controller keeps it: listeners mark keys, `sync` reconciles.
"""
