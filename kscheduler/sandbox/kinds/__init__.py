"""Kinds: one declaration for everything the server knows about a kind.

In flow objects as clients sent them, out flow objects as the API server would have stored them, or
the list of everything wrong with them. Open `resource` first: a `Resource` is a row of the table, a
`Strategy` the hooks of writing it. The other modules declare kinds by group (`pods`, `core`,
`workloads`, `storage`, `scheduling`, `devices`, `access`, `registration`, `events`);
`kscheduler.sandbox.resources` puts them into one table. Depth follows use: pods, nodes and the
kinds of `devices` are treated as the real server treats them wherever a scheduler could notice,
other kinds get the defaults that schedulers and kubectl read.

To add a kind, add a Resource to `RESOURCES` in its group's module: names and scope, subresources,
field labels, a Strategy if it has defaults or rules, columns for `kubectl get`, merge rules for its
keyed lists. Discovery, OpenAPI, tables, patches, RBAC, watches and namespace deletion follow from
the row. If kscheduler.api knows the kind, fields of the wrong JSON type are refused by its struct.
"""
