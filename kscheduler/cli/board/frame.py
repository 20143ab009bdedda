"""One picture of the board: what is there and what is selected in, a Text per line out.

    title                                   nodes, pods, the window too small …
    story                                   what the scenario does, and why that is worth a look
    QUEUE                                   pods that wait, by state
    NODES  by zone, with bars   ┐
    DECISIONS  with reasons     ├           overview; `n`, `d`, `p` give one the whole height
    WAITING  and why            ┘
    keys, or the answer to the last one

A list is cut to the lines it has before anything of it is read, so a picture costs as much as it
has lines, not nodes.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum

import msgspec
from rich.cells import cell_len
from rich.text import Text

from kscheduler.cli.board.cluster import Cluster, Decided, Eviction, NodeFacts, Usage, Zone
from kscheduler.cli.board.sentences import BAD, GOOD, POD, QUIET, STRUCK, pod_name
from kscheduler.cli.page import counted, tamed

LEAST_COLUMNS, LEAST_LINES = 60, 18
MANY_LINES = 24  # from which on a story may take three lines
TITLE, HEADING, FOCUS, STORY = "bold white on blue", "bold", "bold reverse", "magenta"
SELECTED, MARKED = "reverse", "bold"
SHADES = "▁▂▃▄▅▆▇█"
# States of the queue where there is little room.
NARROW = {"being tried": "tried", "backing off": "backoff"}
# What keys do, the most useful first: as many as fit are shown.
KEYS = (
    "? help",
    "q quit",
    "Enter explain",
    "↑↓ select",
    "←→ panel",
    "n nodes",
    "p pending",
    "d decisions",
    "+ - pods",
    "k kill",
    "c cordon",
    "space pause",
)
KEYS_OF_LIST = ("Esc overview", "Enter explain", "↑↓ select", *KEYS[5:], *KEYS[:2])
KEYS_OF_TEXT = ("Esc back", "↑↓ scroll", *KEYS[:2])


class Panel(Enum):
    """A list of things that can be selected."""

    NODES = "NODES"
    DECISIONS = "DECISIONS"
    WAITING = "WAITING"


class Page(msgspec.Struct):
    """A text that takes the whole screen: an explanation, a node, the help."""

    title: str
    lines: Sequence[Text] = ()
    first: int = 0  # line on top
    # Writes the lines anew for every picture, for so many columns.
    write: Callable[[int], Sequence[Text]] | None = None


class Story(msgspec.Struct):
    """The scenario in words; empty without one."""

    title: str = ""
    text: str = ""
    is_paused: bool = False


class Look(msgspec.Struct):
    """View, selection and scrolling of whoever sits at the keyboard."""

    panel: Panel = Panel.NODES
    # Whether the panel has the whole screen.
    is_alone: bool = False
    page: Page | None = None
    node: str = ""
    decision: Decided | None = None
    pod: str = ""
    # The answer to the last key.
    message: str = ""


def frame(cluster: Cluster, look: Look, story: Story, size: os.terminal_size) -> list[Text]:
    """As many lines as the terminal has, none wider than it."""
    if size.columns < LEAST_COLUMNS or size.lines < LEAST_LINES:
        lines = _too_small(size)
    elif look.page is not None:
        lines = _page(look, look.page, size)
    else:
        lines = _board(cluster, look, story, size)
    blank = [Text() for _ in range(size.lines - len(lines))]
    return [fitted(line, size.columns) for line in (*lines, *blank)][: size.lines]


def fitted(line: Text, columns: int) -> Text:
    """The line, cut with an ellipsis if it is too wide; a wide character counts for two."""
    if cell_len(line.plain) > columns:
        line = line.copy()
        line.truncate(columns, overflow="ellipsis")
    return line


def _too_small(size: os.terminal_size) -> list[Text]:
    sentence = (
        f"This window has {size.columns}×{size.lines} cells; the board needs "  # noqa: RUF001
        f"{LEAST_COLUMNS}×{LEAST_LINES}. Make it larger and the board is back; q quits."  # noqa: RUF001
    )
    return [Text(line) for line in textwrap.wrap(sentence, max(size.columns, 1))]


def _page(look: Look, page: Page, size: os.terminal_size) -> list[Text]:
    height = size.lines - 2
    if page.write is not None:
        page.lines = page.write(size.columns)
    page.first = max(0, min(page.first, len(page.lines) - height))
    shown = page.lines[page.first : page.first + height]
    left = len(page.lines) - page.first - len(shown)
    more = counted(left, "more line") if left else ""
    lines = [_bar_line(f" {page.title}", f"{more} ", size.columns), *shown]
    lines += [Text() for _ in range(height - len(shown))]
    return [*lines, _keys_line(look.message, KEYS_OF_TEXT, size.columns)]


def _board(cluster: Cluster, look: Look, story: Story, size: os.terminal_size) -> list[Text]:
    lines = [_title_line(cluster, story, size.columns), *_story_lines(story, size)]
    lines.append(_queue_line(cluster, size.columns))
    free = size.lines - len(lines) - 1
    if look.is_alone:
        lines += _panel(cluster, look, look.panel, free, size.columns)
        keys: Sequence[str] = KEYS_OF_LIST
    else:
        free -= 3  # headings
        waiting = max(2, free // 5)
        wanted = cluster.nodes.total + len(cluster.zones())
        nodes = max(1, min(wanted, free - waiting - max(3, free // 3)))
        heights = {Panel.NODES: nodes, Panel.DECISIONS: free - nodes - waiting}
        heights[Panel.WAITING] = waiting
        for panel, height in heights.items():
            lines += _panel(cluster, look, panel, height + 1, size.columns)
        keys = KEYS
    return [*lines, _keys_line(look.message, keys, size.columns)]


def _bar_line(left: str, right: str, columns: int) -> Text:
    room = max(0, columns - cell_len(right))
    line = Text(no_wrap=True)
    line.append(tamed(left))
    line.truncate(room, overflow="ellipsis", pad=True)
    line.append(right)
    line.stylize(TITLE, 0, len(line))
    return line


def _title_line(cluster: Cluster, story: Story, columns: int) -> Text:
    nodes, pods = cluster.nodes.total, cluster.scheduler.cache.pod_count
    waiting = cluster.waiting_count
    name = "kscheduler sandbox" if columns >= 80 else "sandbox"
    left = (
        f" {name}   {counted(nodes, 'node')}   {counted(pods, 'pod')} placed   {waiting:,} waiting"
    )
    right = "scenario PAUSED, space goes on " if story.is_paused else "? help  q quit "
    return _bar_line(left, right, columns)


def _story_lines(story: Story, size: os.terminal_size) -> list[Text]:
    """Always as many lines, so that nothing below moves."""
    height = 3 if size.lines >= MANY_LINES else 2
    if not story.title:
        return []
    text = f"{story.title}: {story.text}"
    wrapped = textwrap.wrap(tamed(text), size.columns - 2, max_lines=height, placeholder=" …")
    lines = [Text(f" {line}", no_wrap=True) for line in wrapped]
    for line in lines:
        line.stylize(STORY, 0, len(line))
    lines[0].stylize("bold", 1, 1 + len(story.title))
    return lines + [Text() for _ in range(height - len(lines))]


def _queue_line(cluster: Cluster, columns: int) -> Text:
    line = Text(no_wrap=True)
    line.append(" QUEUE", HEADING)
    sizes = list(cluster.queue_sizes())
    for name, count in sizes:
        told = f"   {name}" if columns >= 80 else f" {NARROW.get(name, name)}"
        line.append(f"{told} {count:,}", "bold yellow" if count else QUIET)
    return line


def _keys_line(message: str, keys: Iterable[str], columns: int) -> Text:
    if message:
        line = Text(no_wrap=True)
        line.append(f" {tamed(message)}", "bold")
        return line
    shown, room = [], columns - 1
    for key in keys:
        if cell_len(key) <= room:
            shown.append(key)
            room -= cell_len(key) + 2
    line = Text(no_wrap=True)
    line.append(f" {'  '.join(shown)}", QUIET)
    return line


# Panels.


def _panel(cluster: Cluster, look: Look, panel: Panel, height: int, columns: int) -> Iterator[Text]:
    """A heading and lines of the panel, `height` of them together."""
    if panel is Panel.NODES:
        lines = list(_nodes(cluster, look, height, columns))
    elif panel is Panel.DECISIONS:
        lines = list(_decisions(cluster, look, height, columns))
    else:
        lines = list(_waiting(cluster, look, height, columns))
    yield from lines[:height]
    for _ in range(height - len(lines)):
        yield Text()


def _heading(panel: Panel, look: Look, note: str = "") -> Text:
    line = Text(" ", no_wrap=True)
    line.append(panel.value, FOCUS if look.panel is panel else HEADING)
    line.append(note, QUIET)
    return line


def first_shown(count: int, height: int, selected: int | None) -> int:
    """Where a window of a list begins, so that what is selected is in sight."""
    if selected is None or count <= height:
        return 0
    return max(0, min(selected - height // 2, count - height))


def _chosen(line: Text, columns: int, *, is_selected: bool, has_focus: bool) -> Text:
    if is_selected:
        line = line.copy()
        line.truncate(columns, overflow="ellipsis", pad=True)
        line.stylize(SELECTED if has_focus else MARKED, 0, len(line))
    return line


def _decisions(cluster: Cluster, look: Look, height: int, columns: int) -> Iterator[Text]:
    decided = cluster.decided
    yield _heading(Panel.DECISIONS, look, "  the latest first" if decided else "")
    if not decided:
        yield Text("  none yet", QUIET)
    has_focus = look.panel is Panel.DECISIONS
    selected = None
    if look.decision is not None and look.decision in decided:
        selected = decided.index(look.decision)
    # Where nobody looks closer, the latest are in sight.
    start = first_shown(len(decided), height - 1, selected if has_focus else None)
    for place in range(start, min(len(decided), start + height - 1)):
        line = Text("  ", no_wrap=True).append_text(decided[place].line(columns - 2))
        yield _chosen(line, columns, is_selected=place == selected, has_focus=has_focus)


def _waiting(cluster: Cluster, look: Look, height: int, columns: int) -> Iterator[Text]:
    keys, count = cluster.waiting_keys(), cluster.waiting_count
    rows = height - 1
    hidden = f"  {count:,}" + (", p lists them" if count > rows and not look.is_alone else "")
    yield _heading(Panel.WAITING, look, hidden if count else "")
    if not keys:
        yield Text("  nobody", QUIET)
    selected = keys.index(look.pod) if look.pod in keys else None
    has_focus = look.panel is Panel.WAITING
    start = first_shown(len(keys), rows, selected)
    for place, key in enumerate(keys[start : start + rows], start):
        where, why = cluster.why_waiting(key)
        line = Text("  ", no_wrap=True)
        line.append(pod_name(*key.split("/", 1)), POD)
        line.append(f" {where}: ", "yellow")
        line.append(tamed(why))
        yield _chosen(line, columns, is_selected=place == selected, has_focus=has_focus)


# Nodes.


class Widths(msgspec.Struct, frozen=True):
    """Columns of the list of nodes, in cells."""

    name: int
    bar: int
    devices: int
    rest: int


def _nodes(cluster: Cluster, look: Look, height: int, columns: int) -> Iterator[Text]:
    """Nodes under their zones; where there are too many for that, zones in a line each, and the
    nodes around the selected one.
    """
    rows, zones, height = cluster.node_rows(), cluster.zones(), height - 1
    selected = cluster.place_of(look.node)
    has_focus = look.panel is Panel.NODES
    entries: list[Zone | int] = []  # a zone, or the place of a node
    if len(rows) + len(zones) <= height or look.is_alone:
        start, place = 0, 0
        for zone in zones:
            entries.append(zone)
            entries.extend(range(place, place + len(zone.rows)))
            place += len(zone.rows)
        if selected is not None:
            start = first_shown(len(entries), height, entries.index(selected))
        entries = entries[start : start + height]
    else:
        entries += zones[: max(1, height // 2)]
        left = height - len(entries)
        start = first_shown(len(rows), left, selected)
        entries += range(start, min(len(rows), start + left))
    facts = {one: cluster.facts(rows[one]) for one in entries if isinstance(one, int)}
    widths = _widths(columns, [one.name for one in facts.values()], has_devices=cluster.devices())
    shown = sum(isinstance(one, int) for one in entries)
    note = "" if shown == len(rows) else f"{shown} of {len(rows):,} in sight"
    yield _node_heading(look, widths, note)
    if not rows:
        yield Text("  none yet", QUIET)
    for entry in entries:
        if isinstance(entry, Zone):
            is_whole = len(rows) + len(zones) <= height or look.is_alone
            yield _zone_line(cluster, entry, widths, has_strip=not is_whole)
        else:
            line = node_line(facts[entry], widths)
            yield _chosen(line, columns, is_selected=entry == selected, has_focus=has_focus)


def _widths(columns: int, names: Sequence[str], *, has_devices: object) -> Widths:
    longest = max((cell_len(name) for name in names), default=0)
    name = max(14, min(longest + 1, columns // 4))
    bar = 6 if columns < 76 else 8 if columns < 96 else 12 if columns < 130 else 16
    devices = 8 if has_devices else 0
    return Widths(name, bar, devices, columns - name - 2 * (bar + 6) - devices - 9)


def _node_heading(look: Look, widths: Widths, note: str) -> Text:
    line = _heading(Panel.NODES, look)
    line.truncate(widths.name + 2, pad=True)
    for title in ("CPU", "MEMORY"):
        line.append(f" {title:<{widths.bar + 5}}", HEADING)
    line.append(" PODS", HEADING)
    if widths.devices:
        line.append(f" {'DEVICES':<{widths.devices - 1}}", HEADING)
    line.append(f"  {note}", QUIET)
    return line


def _zone_line(cluster: Cluster, zone: Zone, widths: Widths, *, has_strip: bool) -> Text:
    line = Text(" ", no_wrap=True)
    line.append(tamed(zone.name) or "no zone", "bold cyan")
    line.truncate(widths.name + 2, overflow="ellipsis", pad=True)
    _append_bars(line, cluster.usage(zone.rows), widths.bar)
    line.append(f" {int(cluster.nodes.pod_count[zone.rows].sum()):>4}", QUIET)
    line.append(" " * widths.devices)
    line.append(f"  {counted(len(zone.rows), 'node')} ", QUIET)
    if has_strip:
        for share in cluster.strip(zone.rows, max(0, widths.rest - 14)):
            shade = SHADES[min(len(SHADES) - 1, int(share * len(SHADES)))]
            line.append(shade, _colour(share) if share else QUIET)
    return line


def node_line(node: NodeFacts, widths: Widths) -> Text:
    """Bars, counts, and at the end what matters most: trouble, victims, or workloads."""
    line = Text("  ", no_wrap=True)
    line.append(tamed(node.name), BAD if node.state else "")
    line.truncate(widths.name + 2, overflow="ellipsis", pad=True)
    _append_bars(line, node.usage, widths.bar)
    line.append(f" {node.pods:>4}")
    if widths.devices:
        line.append(f" {node.devices:<{widths.devices - 1}}")
    line.append("  ")
    if node.state:
        line.append(f"{node.state} ", "bold red")
    if node.eviction is not None:
        _append_eviction(line, node.eviction, widths.rest)
    else:
        for name, count in node.workloads:
            line.append(f"{tamed(name)}×{count} " if count > 1 else f"{tamed(name)} ", QUIET)  # noqa: RUF001
    return line


def _append_eviction(line: Text, eviction: Eviction, room: int) -> None:
    """Victims struck through, as many as there is room for, and the pod they made way for."""
    preemptor = f"→ {tamed(eviction.preemptor)} "
    room -= cell_len(preemptor)
    left = len(eviction.victims)
    for victim in eviction.victims:
        # The owner's name and what tells its pods apart, without the template's hash between.
        parts = tamed(victim).split("-")
        name = f"{parts[0]}-{parts[-1]}" if len(parts) > 2 else tamed(victim)
        if cell_len(name) + 8 > room:
            break
        line.append(name, STRUCK)
        line.append(" ")
        room -= cell_len(name) + 1
        left -= 1
    if left:
        line.append(f"{left} more " if left < len(eviction.victims) else f"{left} ", BAD)
    line.append(preemptor, "bold")


def _append_bars(line: Text, usage: Usage, width: int) -> None:
    for share in (usage.cpu, usage.memory):
        filled = min(width, round(share * width))
        line.append(" ")
        line.append("█" * filled, _colour(share))
        line.append("░" * (width - filled), QUIET)
        line.append(f" {min(share, 9.99):>4.0%}")


def _colour(share: float) -> str:
    return BAD if share > 0.9 else "yellow" if share > 0.7 else GOOD
