"""The heat map's data, and the map itself as a picture for those without scripts."""

from __future__ import annotations

import msgspec

from kscheduler.ui.cluster import NodeColumns
from kscheduler.ui.html import Html, e

CELL, GAP, WIDE = 12, 1, 60
# More groups than these are one: a label that tells nearly all nodes apart groups nothing.
MAX_GROUPS = 60
OTHERS = "others"
STEPS = ("#eef3f3", "#cfe3e4", "#a3cbce", "#6eadb2", "#2f8a91", "#07525a")


def groups_of(nodes: NodeColumns, key: str) -> list[tuple[str, list[int]]]:
    if not key:
        return [("all nodes", list(range(len(nodes.names))))]
    found = [(name or "without this label", rows) for name, rows in nodes.groups(key).items()]
    if len(found) <= MAX_GROUPS:
        return found
    rest = [row for _, rows in found[MAX_GROUPS - 1 :] for row in rows]
    return [*found[: MAX_GROUPS - 1], (OTHERS, rest)]


def node_data(nodes: NodeColumns, key: str) -> bytes:
    """Columns, and nodes by group; amounts are rounded to what a picture needs."""
    return msgspec.json.encode(
        {
            "names": nodes.names,
            "resources": nodes.resources,
            "allocatable": nodes.allocatable,
            "requested": nodes.requested,
            "cordoned": [index for index, is_so in enumerate(nodes.cordoned) if is_so],
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
