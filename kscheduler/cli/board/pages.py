"""Pages of the board: texts that take the whole screen."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

from rich.text import Text

from kscheduler.api.amounts import at_least, at_most
from kscheduler.cli.board.cluster import ZONE, Cluster, state_of
from kscheduler.cli.board.sentences import pod_name
from kscheduler.cli.page import counted, tamed

# Pods of a node that are listed.
MAX_PODS = 250
KEYS = (
    ("↑ ↓  PgUp PgDn", "select a node, a decision, a pod; scroll a text"),
    ("← →  Tab", "go from panel to panel"),
    ("Enter", "explain the selected pod, as `kscheduler explain` does; show the selected node"),
    ("n", "all nodes, zone by zone"),
    ("p", "all pods that wait, and why"),
    ("d", "the latest decisions, with the scores that made them"),
    ("Esc", "back to the overview"),
    ("+  -", "ten pods more, ten pods fewer, of the Deployment burst"),
    ("k", "kill the selected node: its kubelet stops; again: it starts"),
    ("c", "cordon the selected node; again: uncordon it"),
    ("space", "hold the scenario, and let it go on; the cluster runs meanwhile"),
    ("?", "this page"),
    ("q  Ctrl-C", "quit; nothing is kept"),
)
LEGEND = (
    "A decision reads: pod → node: scores by plugin, times their weights = the total, and the next "
    "best node with its own.",
    "A node's CPU and MEMORY are what its pods have asked for, not what they use.",
    "Pods that are evicted for a more important one are struck through.",
    "All is real to kubectl: what keys do here, kubectl sees, and the other way round.",
)


def help_lines(addresses: Mapping[str, str], columns: int) -> list[Text]:
    """Keys, how to read the board, and where else to look."""
    lines = [_heading("Keys")]
    for key, meaning in KEYS:
        lines += _fact(key, meaning, columns, width=16)
    lines += [Text(), _heading("How to read it")]
    for sentence in LEGEND:
        lines += _fact("", sentence, columns, width=1)
    lines += [Text(), _heading("Elsewhere")]
    for name, address in addresses.items():
        lines += _fact(name, address, columns, width=9)
    return lines


def answer_lines(blocks: Iterable[str]) -> list[Text]:
    """Blocks of an explanation, with their colours and a line between them."""
    text = "\n\n".join(block for block in blocks if block)
    return [Text(" ", no_wrap=True).append_text(Text.from_ansi(line)) for line in text.split("\n")]


def node_lines(cluster: Cluster, name: str, columns: int) -> list[Text]:
    """A node as the scheduler's cache has it: resources, taints, labels, devices and pods."""
    nodes = cluster.nodes
    row = nodes.row_of(name)
    if row is None:
        return [Text(f" {name} is not there any more.")]
    node = nodes.node(row)
    zone = node.metadata.labels.get(ZONE) or "none"
    facts = {"state": state_of(node) or "Ready", "zone": zone}
    taints = [
        f"{one.key}{f'={one.value}' if one.value else ''}:{one.effect}" for one in node.spec.taints
    ]
    if taints:
        facts["taints"] = ", ".join(taints)
    labels = (f"{key}={value}" for key, value in sorted(node.metadata.labels.items()))
    facts["labels"] = ", ".join(labels)
    if devices := cluster.devices().get(name):
        taken = " ".join(sorted(devices.allocated))
        facts["devices"] = f"{len(devices.allocated)} of {devices.total} allocated {taken}"
    lines = [line for item in facts.items() for line in _fact(*item, columns, width=9)]
    lines += [Text(), *_table(("RESOURCE", "ASKED FOR", "ALLOCATABLE"), _amounts(cluster, row))]
    pods = list(islice(nodes.pods(row), MAX_PODS))
    rows = [
        (
            pod_name(one.namespace, one.name),
            at_least("cpu", one.requests.get("cpu", 0)),
            at_least("memory", one.requests.get("memory", 0)),
            str(one.priority),
        )
        for one in sorted(pods, key=lambda one: one.key)
    ]
    lines += [Text(), *_table(("POD", "CPU", "MEMORY", "PRIORITY"), rows)]
    if left := len(nodes.pods(row)) - len(pods):
        lines.append(Text(f" and {counted(left, 'more pod')}"))
    return lines


def _amounts(cluster: Cluster, row: int) -> list[tuple[str, str, str]]:
    nodes = cluster.nodes
    found = [("pods", str(int(nodes.pod_count[row])), str(int(nodes.max_pods[row])))]
    for resource, column in nodes.resources.items():
        there, asked = int(nodes.allocatable[row, column]), int(nodes.requested[row, column])
        if there or asked:
            found.append((resource, at_least(resource, asked), at_most(resource, there)))
    return found


def _heading(text: str) -> Text:
    line = Text(" ", no_wrap=True)
    line.append(text, "bold")
    return line


def _fact(name: str, text: str, columns: int, *, width: int) -> list[Text]:
    """A name and a text beside it, which may take several lines."""
    room = max(20, columns - width - 2)
    wrapped = textwrap.wrap(tamed(text), room, break_on_hyphens=False) or [""]
    lines = [Text(f" {'':<{width}}{line}", no_wrap=True) for line in wrapped]
    lines[0] = Text(" ", no_wrap=True).append(f"{name:<{width}}", "bold").append(wrapped[0])
    return lines


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[Text]:
    """Columns as wide as their widest cell, in cells of the terminal."""
    cells = [[Text(tamed(text)) for text in row] for row in (header, *rows)]
    widths = [max(cell.cell_len for cell in column) for column in zip(*cells, strict=True)]
    lines = []
    for number, row in enumerate(cells):
        line = Text(" ", no_wrap=True)
        for cell, width in zip(row, widths, strict=True):
            cell.truncate(width + 3, pad=True)
            line.append_text(cell)
        if not number:
            line.stylize("bold", 0, len(line))
        lines.append(line)
    return lines
