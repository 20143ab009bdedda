"""The cluster as a scheduler holds it: nodes are rows, and what is asked about them are columns.

In flow Nodes and bound Pods as informers deliver them, and pods that were just decided (`cache`).
Out flows `Nodes`, read-only columns for one decision (`nodes_view`), and forks of it for every
"what if" (`fork`). A pod enters compiled (`pod_info`); what follows from its spec alone is worked
out once for all pods that share it (`pod_template`).

What nodes are (`nodes`) and what pods take of them (`occupancy`) are kept apart: a fork copies the
second and shares the first. Who matches which selector, and who carries which affinity term, is
counted per row as pods come and go (`pod_index`), so that a decision never walks over pods. Which
rows changed lately is noted (`change_log`), for answers that are kept between decisions.

Invariants: after any sequence of events all columns and counts equal those of a fresh start with
the same objects; a row is reused, never shifted; nothing a decision is shown can be written
through; no decision loops over nodes in Python. Everything remembered is bounded and can be made
again.

Objects per node, copied for each decision, were the alternative: simple, and linear in nodes.
"""
