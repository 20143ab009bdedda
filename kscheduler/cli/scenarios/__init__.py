"""Scenarios: what happens in a sandbox by itself, so that there is something to watch.

A scenario is a few chapters (`chapters`), played one after the other on a `stage`: objects made,
changed and deleted in the sandbox's API server as a user would (`moves`), with a sentence that says
what happens and why it is worth a look. The board shows the sentence on top; without a terminal it
is a line among the placements. Every chapter leaves the cluster as it found it.
"""

# Scenarios by name, and what each shows; `--scenario list` prints it.
SCENARIOS = {
    "tour": "all of the following, one after the other, again and again on a terminal",
    "rollout": "a Deployment gets a new image, and its pods are replaced step by step",
    "burst": "many pods at once, and how fast the queue is empty again",
    "node-failure": "a node falls silent, its pods are evicted and replaced, it comes back",
    "pending": "a pod that fits nowhere until a node gets a label",
    "preemption": "an important pod, no room for it, and the pods that have to go",
    "devices": "GPUs, whole, in quarters and shared, by claims",
    "workload": "a small mixed workload, and then nothing (the default with --once)",
    "none": "nothing at all (the default with -f, --from-cluster and --server-only)",
}
