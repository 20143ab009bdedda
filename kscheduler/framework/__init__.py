"""The contract with plugins, and the runtime that keeps it.

In flow plugins (made by `profile` from configuration and a registry), and per attempt one pod and a
view of the nodes. Out flow verdicts: which nodes are feasible and why the others are not, how much
each is liked, whether the pod may be bound.

    plugin            what a plugin can implement        verdict        what it can answer
    cycle_state       what it may remember               cluster_event  what may change its mind
    row_memo          … and between two attempts         per_node       a simpler, slower way
    handle, listers   what it may use

    runtime           the Framework: one profile at work, the sum of the stages
      enqueueing, signing                                  before an attempt
      pre_filtering, filtering, nominated_pods, scoring    deciding
      post_filtering                                       when nothing fits
      reserving, binding                                   when something does
    waiting_pods, pods_in_pre_bind                         pods between decision and binding

Invariant: a plugin is asked about all nodes at once and never sees them change; whatever it does,
including raising, ends in a verdict. Only pre_bind and bind may wait.
"""
