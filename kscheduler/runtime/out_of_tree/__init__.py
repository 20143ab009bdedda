"""Out-of-tree plugins: how they are found and checked, and how their faults are contained.

In flow classes that others wrote; out flow plugins that the runtime runs like its own. Open
`registration` first.

    registration   finds the classes, checks them, makes guarded plugins of them
    args           decodes their arguments
    handle         the scheduler as they may use it
    guarded        their methods, with views going in and checked answers coming out (`answers`)
    per_node       `filter_node` and `score_node` behind `filter` and `score`
    guard          one call: bounded in time (`watchdog`), its fault recorded (`health`)

Invariant: whatever such a plugin does, short of ending the process, costs one pod one attempt.
"""
