"""Grids: tables that may have thousands of rows, told once and drawn twice.

The server draws the first rows, with links that sort, filter and turn pages: that works without
scripts. The script reads all rows as JSON and draws those in sight.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kscheduler.ui.html import DASH, Child, Html, e
from kscheduler.ui.page import Page

ROWS = 50
MAX_ROWS = 500
Cell = str | float | int | None


class Column(msgspec.Struct, frozen=True, rename="camel"):
    """One column; `link` is the beginning of the address that a cell's text ends."""

    key: str
    title: str
    numeric: bool = False
    digits: int = 0
    suffix: str = ""
    link: str = ""
    # Drawn as a bar of this many; the number stands beside it.
    bar_of: float = 0
    hint: str = ""


class Grid:
    """Rows of cells; `marks` gives rows a word that is shown and spoken: "chosen"."""

    def __init__(
        self,
        name: str,
        caption: str,
        columns: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        *,
        marks: Mapping[int, str] | None = None,
        sort: str = "",
    ) -> None:
        self.name = name
        self.caption = caption
        self.columns = columns
        self.rows = rows
        self.marks = marks or {}
        # The order in which rows are given is shown by this column; "-" before it is descending.
        self.sort = sort

    def to_json(self) -> bytes:
        return msgspec.json.encode(
            {
                "columns": self.columns,
                "rows": self.rows,
                "marks": {str(row): mark for row, mark in self.marks.items()},
                "sort": self.sort,
            }
        )

    def render(self, page: Page, data: str) -> Html:
        """The rows that the page's query asks for; `data` is where the script finds all."""
        query = page.query
        sort = query.get("sort", self.sort)
        text = query.get("filter", "").casefold()
        order = [row for row in range(len(self.rows)) if self._matches(row, text)]
        key = sort.removeprefix("-")
        index = next((i for i, one in enumerate(self.columns) if one.key == key), None)
        if index is not None and sort != self.sort:
            order.sort(key=lambda row: _sortable(self.rows[row][index]), reverse=sort[0] == "-")
            # What has no value is last in either direction.
            order.sort(key=lambda row: self.rows[row][index] is None)
        start = _whole(query.get("from", "0"), len(order))
        shown = order[start : start + ROWS]
        head = e("tr", [self._head(page, column, sort) for column in self.columns])
        body = [self._row(page, row) for row in shown]
        return e(
            "div.grid",
            e(
                "form.filter",
                e("label", "Filter", for_=f"{self.name}-filter"),
                e(
                    "input",
                    id=f"{self.name}-filter",
                    name="filter",
                    type="search",
                    value=query.get("filter", ""),
                    autocomplete="off",
                    placeholder="any column",
                ),
                [
                    e("input", type="hidden", name=name, value=value)
                    for name, value in query.items()
                    if name not in ("filter", "from")
                ],
                e("button", "Filter"),
                e("output.count", _count(len(order), len(self.rows)), aria_live="polite"),
                method="get",
                role="search",
            ),
            e(
                "div.scroll",
                e(
                    "table",
                    e("caption.hidden", self.caption),
                    e("thead", head),
                    e("tbody", body or e("tr", e("td.empty", "No rows.", colspan=len(head)))),
                    aria_rowcount=len(order) + 1,
                ),
                tabindex=0,
                role="region",
                aria_label=self.caption,
            ),
            self._pager(page, start, len(order)),
            data_grid=page.to(data),
            data_root=page.to(""),
        )

    def _matches(self, row: int, text: str) -> bool:
        if not text:
            return True
        return any(text in str(cell).casefold() for cell in self.rows[row] if cell is not None) or (
            text in self.marks.get(row, "").casefold()
        )

    def _head(self, page: Page, column: Column, sort: str) -> Html:
        descending = sort == f"-{column.key}"
        is_sorted = sort.removeprefix("-") == column.key
        # Numbers are wanted largest first.
        first = f"-{column.key}" if column.numeric else column.key
        again = column.key if column.numeric else f"-{column.key}"
        to = again if sort == first else first
        return e(
            "th.num" if column.numeric else "th",
            e(
                "a",
                column.title,
                href=page.here(sort=to, **{"from": None}),
                title=column.hint or None,
            ),
            scope="col",
            aria_sort=("descending" if descending else "ascending") if is_sorted else None,
        )

    def _row(self, page: Page, row: int) -> Html:
        mark = self.marks.get(row)
        cells: list[Html] = []
        for index, (column, cell) in enumerate(zip(self.columns, self.rows[row], strict=True)):
            inside: Child = _text(column, cell)
            if column.link and cell:
                inside = e("a", inside, href=page.to(column.link + page.quoted(str(cell))))
            if column.bar_of and isinstance(cell, int | float):
                inside = [bar(float(cell), column.bar_of), inside]
            if index == 0 and mark:
                inside = [inside, " ", e("span.mark", mark)]
            cells.append(e("td.num" if column.numeric else "td", inside))
        return e("tr.marked" if mark else "tr", cells)

    def _pager(self, page: Page, start: int, total: int) -> Html | None:
        if total <= ROWS:
            return None
        links: list[Child] = []
        if start:
            links.append(e("a", "Previous", href=page.here(**{"from": max(0, start - ROWS)})))
        links.append(e("span", f"Rows {start + 1:,} to {min(start + ROWS, total):,} of {total:,}"))
        if start + ROWS < total:
            links.append(e("a", "Next", href=page.here(**{"from": start + ROWS})))
        return e(
            "nav.pager", [[link, " "] for link in links], aria_label=f"Pages of {self.caption}"
        )


def bar(value: float, of: float) -> Html:
    """A small bar beside a number that says the same."""
    width = max(0.0, min(1.0, value / of)) * 48
    return e(
        "svg.bar",
        e("rect.track", width=48, height=8, rx=1),
        e("rect.level", width=f"{width:.1f}", height=8, rx=1),
        viewBox="0 0 48 8",
        width=48,
        height=8,
        aria_hidden="true",
    )


def _text(column: Column, cell: Cell) -> str:
    if cell is None:
        return DASH
    if isinstance(cell, str):
        return cell
    return f"{cell:,.{column.digits}f}{column.suffix}"


def _sortable(cell: Cell) -> Any:
    if cell is None:
        return (0, 0)
    return (1, cell.casefold()) if isinstance(cell, str) else (0, cell)


def _count(shown: int, total: int) -> str:
    rows = "1 row" if total == 1 else f"{total:,} rows"
    return rows if shown == total else f"{shown:,} of {rows}"


def _whole(text: str, most: int) -> int:
    return min(int(text), max(0, most - 1)) if text.isdecimal() and len(text) < 9 else 0
