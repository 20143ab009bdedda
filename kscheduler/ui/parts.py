"""Parts that views are made of: sentences, badges, numbers, small plots, states of trouble."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from kscheduler.api.explanation import SCHEDULED, UNSCHEDULABLE
from kscheduler.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kscheduler.api.timestamps import TimestampError, parse_time
from kscheduler.ui.html import DASH, Child, Html, e, group
from kscheduler.ui.source import Declined, Lost, Missing, Refused, Trouble

# Outcomes are told by a sign and a word, never by colour alone.
SIGNS = {SCHEDULED: "●", UNSCHEDULABLE: "○"}
OTHER_SIGN = "▲"
WIDTH, HEIGHT = 240, 44


def badge(outcome: str) -> Html:
    kind = {SCHEDULED: "placed", UNSCHEDULABLE: "waits"}.get(outcome, "failed")
    sign = e("span", SIGNS.get(outcome, OTHER_SIGN), aria_hidden="true")
    return e(f"span.badge.{kind}", sign, " ", outcome or "Not decided")


def section(
    title: str,
    *content: Child,
    name: str = "",
    live: str = "",
    later: str = "",
    note: Child = None,
) -> Html:
    """A part with a heading; `live` are the kinds of events after which it is drawn anew, and
    `later` is the address of a page that has more of it.
    """
    identity = name or title.lower().replace(" ", "-").replace("?", "")
    return e(
        f"section#{identity}",
        e("h2", title, id=f"{identity}-title"),
        e("p.note", note) if note else None,
        content,
        aria_labelledby=f"{identity}-title",
        data_live=live or None,
        data_later=later or None,
    )


def facts(pairs: Iterable[tuple[str, Child]]) -> Html:
    return e("dl.facts", [e("div", e("dt", name), e("dd", value)) for name, value in pairs])


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[Child]], numbers: Iterable[int] = ()
) -> Html:
    """A small table, whole; `numbers` are the columns that are aligned to the right."""
    right = frozenset(numbers)

    def cell(tag: str, index: int, content: Child, **attributes: str) -> Html:
        return e(f"{tag}.num" if index in right else tag, content, **attributes)

    return e(
        "div.scroll",
        e(
            "table",
            e("caption.hidden", caption),
            e("thead", e("tr", [cell("th", i, one, scope="col") for i, one in enumerate(heads)])),
            e(
                "tbody",
                [e("tr", [cell("td", i, one) for i, one in enumerate(row)]) for row in rows],
            ),
        ),
        tabindex=0,
        role="region",
        aria_label=caption,
    )


def empty(text: str, *more: Child) -> Html:
    return e("p.state.empty", text, more)


def trouble(what: Trouble) -> Html:
    """A state that was foreseen: no right, no such thing, nobody there."""
    title = {
        Refused: "You may not see this",
        Missing: "There is none",
        Lost: "The scheduler does not answer",
        Declined: "This cannot be answered",
    }.get(type(what), "No answer")
    kind = type(what).__name__.lower()
    return e(f"div.state.{kind}", e("strong", title), e("p", str(what)), role="note")


def partial(text: str) -> Html:
    return e("p.state.partial", e("strong", "Partial view. "), text, role="note")


def copyable(label: str, text: str, *, address: bool = False) -> Html:
    """Text to take along; without scripts it can be selected. An address is copied whole."""
    multiline = "\n" in text
    return e(
        "div.copy.block" if multiline else "div.copy",
        e("span.label", label),
        e(
            "pre",
            e("code", e("a", text, href=text) if address else text),
            tabindex=0 if multiline else None,
        ),
        e("button", "Copy", type="button", data_copy=text, data_address=address, hidden=True),
    )


def moment(text: str | None, now: float | None = None) -> Html:
    """A time as an age, with the time itself at hand."""
    if not text:
        return group(DASH)
    try:
        seconds = (time.time() if now is None else now) - parse_time(text)
    except TimestampError:
        return group(text)
    ago = f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"
    return e("time", ago, datetime=text, title=text)


def duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} min"
    return f"{minutes / 60:.0f} h" if minutes < 48 * 60 else f"{minutes / 1440:.0f} d"


def amount(resource: str, value: float) -> str:
    """An amount of a resource as people read it: 3.5 cores are 3.5, bytes have their unit."""
    if resource == CPU:
        return f"{value:.3g}" if value < 100 else f"{value:,.0f}"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith("hugepages-"):
        for unit, suffix in ((1 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")):
            if abs(value) >= unit:
                return (
                    f"{value / unit:.3g}{suffix}"
                    if value < 1000 * unit
                    else f"{value / unit:.0f}{suffix}"
                )
        return f"{value:.0f}"
    return f"{value:,.0f}"


def counted(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def meter(used: float, total: float, label: str) -> Html:
    """A share as a bar; the numbers stand beside it in text."""
    share = max(0.0, min(1.0, used / total)) if total > 0 else 0.0
    return e(
        "svg.meter",
        e("title", label),
        e("rect.track", width=100, height=10),
        e("rect.level", width=f"{share * 100:.2f}", height=10),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
        aria_label=label,
    )


def plot(label: str, unit: str, *series: Sequence[float | None], digits: int = 1) -> Html:
    """A line or two over the last minutes, the first drawn strong; the label says the numbers."""
    values = [value for one in series for value in one if value is not None]
    top = max(values, default=0.0) or 1.0
    count = max(len(series[0]) - 1, 1)
    lines: list[Html] = []
    for index, one in enumerate(series):
        path, pen = [], "M"
        for i, value in enumerate(one):
            if value is None:
                pen = "M"
                continue
            y = HEIGHT - 3 - (HEIGHT - 8) * value / top
            path.append(f"{pen}{i * WIDTH / count:.1f} {y:.1f}")
            if pen == "M" and (i + 1 == len(one) or one[i + 1] is None):
                path.append("h2")  # A value on its own is a dash.
            pen = "L"
        lines.append(e("path.strong" if index == 0 else "path", d="".join(path)))
    latest = [next((v for v in reversed(one) if v is not None), 0.0) for one in series]
    now = " / ".join(f"{value:.{digits}f}" for value in latest)
    return e(
        "figure.plot",
        e("figcaption", label, " ", e("b", f"{now} {unit}")),
        e(
            "svg",
            e("title", f"{label}, last ten minutes: now {now} {unit}, at most {top:.{digits}f}"),
            e("line", x1=0, x2=WIDTH, y1=HEIGHT - 2, y2=HEIGHT - 2),
            lines,
            viewBox=f"0 0 {WIDTH} {HEIGHT}",
            preserveAspectRatio="none",
            role="img",
        ),
        e("span.most", f"{top:.{digits}f}"),
    )
