"""Plugins from outside: how they are found, what they see, and how their faults are contained.

In flow classes of others (by entry point, by flag, or given to `app.main`) and their arguments. Out
flow plugins that the framework runs like its own.

    registration, signatures   classes, found and checked before anything runs
    args                       their arguments, decoded as they declare them
    handle, client, waiting,
    plugin_metrics             what they may use
    views, frozen, node_column what they see of pods and nodes
    guarded (and its parts), guard, answers, watchdog,
    cancellation, rests,
    health                     every call to them

Invariant: whatever such a plugin does, raising, hanging, answering nonsense or writing to what it
was given, ends as an error of that one call, in the plugin's name. In-tree plugins pay nothing.
"""
