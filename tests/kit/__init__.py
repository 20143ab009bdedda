"""Shared by all tests: builders of objects and clusters, and waiting.

- `objects`: nodes and pods as structs, `manifests`: the same as JSON for an API server;
- `clusters`: snapshots, handles and frameworks of a few made-up nodes and plugins;
- `polling`: waiting for a condition; `log`: reading what was logged; `ports`: free ports.

A test package may specialise a builder in a line (`partial(make_pod, namespace="ns")`); it does not
write its own.
"""
