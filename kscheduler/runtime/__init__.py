"""The runtime: runs the plugins of a profile at their extension points and combines their answers.

In flow plugins (made by `profile` from configuration and a registry), and per attempt one pod and a
view of the nodes. Out flow feasible nodes, scores, statuses. Open `framework` first: it is the sum
of one module per extension point.

    profile                      configuration and registry into one Framework per profile
    enqueue, sign                before an attempt
    pre_filter, filter, filter_with_nominated, score   deciding
    post_filter, preemption      when no node fits
    reserve, bind                when the pod has a node; waiting_pods and pods_in_pre_bind know
                                 the pods in between
    plugin_calls                 a call: timed, counted, its exceptions contained
    handle, background           the scheduler around the plugins
    extenders, out_of_tree       HTTP extenders, and plugins that others wrote

Mirrors pkg/scheduler/framework/runtime. Invariant: whatever a plugin does, including raising, ends
in a status of that one attempt.
"""
