"""The state of the cluster: nodes are rows, and what is asked about them are columns.

In flow Nodes and bound Pods as informers deliver them, and pods that were just decided (`cache`,
the module to open first). Out flows `Nodes`, read-only columns for one decision (`nodes_view`), and
nodes as they would be if pods came or left (`what_if`). A pod enters compiled (`pod_info`); what
follows from its spec alone is worked out once for all pods that share it (`pod_template`).

Nodes (`nodes`) and what pods take of them (`occupancy`) are kept apart: a what-if copies columns of
the second and shares the first. Pods that match a selector, and pods that carry an affinity term,
are counted per row as they come and go (`pod_index`), so that a decision never walks over pods.
Rows that changed lately are noted (`change_log`), for answers that are kept between decisions.

Invariants: after any sequence of events all columns and counts equal those of a fresh start with
the same objects; a row is reused, never shifted; nothing a decision is shown can be written
through; no decision loops over nodes in Python. Everything remembered is bounded and can be made
again.

Objects per node, copied for each decision, were the alternative: simple, and linear in nodes.
"""
