"""The runtime: runs the plugins of a profile at their extension points and combines their answers.

In flow plugins (made by `profile` from configuration and a registry), and per attempt one pod and a
view of the nodes. Out flow feasible nodes, scores, statuses. Open `framework` first: it is the sum
of one module per extension point.

Invariant: whatever a plugin does, including raising, ends in a status of that one attempt.
"""
