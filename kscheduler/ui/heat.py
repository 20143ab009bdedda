"""The heat map's data, and the map itself as a picture for those without scripts.

In a what-if the map has the nodes as they would be: added ones in a group of their own, since a
colour alone would not tell them, drained and cordoned ones crossed out, and no removed ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from kscheduler.api.pod_questions import numbered_names, stem_like
from kscheduler.ui.cluster import NodeColumns
from kscheduler.ui.html import Html, e
from kscheduler.ui.question import Question

CELL, GAP, WIDE = 12, 1, 60
# More groups than these are one: a label that tells nearly all nodes apart groups nothing.
MAX_GROUPS = 60
OTHERS = "others"
ADDED = "added"
STEPS = ("#eef3f3", "#cfe3e4", "#a3cbce", "#6eadb2", "#2f8a91", "#07525a")


def changed_nodes(nodes: NodeColumns, question: Question) -> NodeColumns:
    """Nodes as a what-if has them; indexes of existing nodes stay what they are."""
    index_of = {name: index for index, name in enumerate(nodes.names)}
    removed = frozenset(index_of[name] for name in question.remove if name in index_of)
    closed = {index_of[name] for name in (*question.drain, *question.cordon) if name in index_of}
    like = index_of.get(question.like)
    count = 0 if like is None else question.add
    names = list(islice(numbered_names(stem_like(question.like), index_of), count))

    def longer(columns: Mapping[str, list[float]], *, empty: bool) -> dict[str, list[float]]:
        return {
            name: [*values, *([0.0 if empty or like is None else values[like]] * count)]
            for name, values in columns.items()
        }

    return replace(
        nodes,
        names=[*nodes.names, *names],
        labels=[*nodes.labels, *([{} if like is None else nodes.labels[like]] * count)],
        allocatable=longer(nodes.allocatable, empty=False),
        requested=longer(nodes.requested, empty=True),
        cordoned=[
            *(is_so or index in closed for index, is_so in enumerate(nodes.cordoned)),
            *([False] * count),
        ],
        tainted=[*nodes.tainted, *([False] * count)],
        first_added=len(nodes.names),
        removed=removed,
    )


def groups_of(nodes: NodeColumns, key: str) -> list[tuple[str, list[int]]]:
    """Titles and indexes; the first group has the nodes that would be added."""
    first = [(ADDED, list(nodes.added))] if nodes.added else []
    if not key:
        rows = [i for i in range(len(nodes.names)) if i not in nodes.removed]
        return [*first, ("all nodes", rows[: len(rows) - len(nodes.added)])]
    found = [(name or "without this label", rows) for name, rows in nodes.groups(key).items()]
    if nodes.added:
        found = [(name, [row for row in rows if row < nodes.added.start]) for name, rows in found]
    if len(found) > MAX_GROUPS:
        rest = [row for _, rows in found[MAX_GROUPS - 1 :] for row in rows]
        found = [*found[: MAX_GROUPS - 1], (OTHERS, rest)]
    return [*first, *((name, rows) for name, rows in found if rows)]


def node_data(nodes: NodeColumns, key: str) -> bytes:
    """Columns, and nodes by group; amounts are rounded to what a picture needs."""
    return msgspec.json.encode(
        {
            "serial": nodes.serial,
            "names": nodes.names,
            "resources": nodes.resources,
            "allocatable": nodes.allocatable,
            "requested": nodes.requested,
            "cordoned": [index for index, is_so in enumerate(nodes.cordoned) if is_so],
            "added": list(nodes.added),
            "groups": [{"name": name, "nodes": rows} for name, rows in groups_of(nodes, key)],
        }
    )


def picture(nodes: NodeColumns, key: str, by: str) -> str:
    """An SVG of all cells, group by group."""
    by = by if by in nodes.resources else nodes.resources[0]
    cells: list[Html] = []
    y = 0
    step = CELL + GAP
    for name, rows in groups_of(nodes, key):
        cells.append(e("text", name, x=0, y=y + 11, font_size=11, fill="#77818a"))
        y += 16
        for index, row in enumerate(rows):
            share = min(100.0, nodes.used(by, row) or 0.0)
            level = CELL * share / 100
            x, top = index % WIDE * step, y + index // WIDE * step
            title = e("title", f"{nodes.names[row]}: {share:.0f} % of {by}")
            cells.append(e("rect", title, x=x, y=top, width=CELL, height=CELL, fill="#e4e8ea"))
            fill = STEPS[min(5, int(share / 100 * 6))]
            cells.append(
                e(
                    "rect",
                    x=x,
                    y=f"{top + CELL - level:.1f}",
                    width=CELL,
                    height=f"{level:.1f}",
                    fill=fill,
                )
            )
        y += -(-len(rows) // WIDE) * step + 8
    return e(
        "svg",
        cells,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {WIDE * step} {y}",
        width=WIDE * step,
        height=y,
        font_family="system-ui, sans-serif",
    )
