// Long tables: all rows are read once, those in sight are drawn. Sorting and filtering happen here,
// and the address keeps them, so that it can be sent to somebody else.

import { address, element } from "./stream.js";

const HIGH = 28;
const MORE = 12;

export function grids(scope) {
  for (const place of scope.querySelectorAll("[data-grid]")) start(place);
}

async function fetchRows(place) {
  const answer = await fetch(place.dataset.grid).catch(() => null);
  return answer && answer.ok ? answer.json() : null;
}

async function start(place) {
  // One that was kept when its surroundings were drawn anew.
  if (place.classList.contains("drawn")) return;
  let data = await fetchRows(place);
  if (!data || !place.isConnected) return;
  const root = document.documentElement.dataset.root;
  const table = place.querySelector("table"), body = table.tBodies[0], view = place.querySelector(".scroll");
  const input = place.querySelector("input[type=search]"), count = place.querySelector(".count");
  const query = new URLSearchParams(location.search);
  let sort = query.get("sort") || data.sort, order = [], drawn = "";
  const formats = data.columns.map((column) => new Intl.NumberFormat("en", {
    minimumFractionDigits: column.digits, maximumFractionDigits: column.digits,
  }));
  const show = (column, cell) => (cell === null ? "–"
    : typeof cell === "string" ? cell : formats[column].format(cell) + data.columns[column].suffix);

  function arrange() {
    const text = input.value.toLowerCase();
    order = data.rows.map((_, i) => i).filter((i) => !text ||
      data.rows[i].some((cell) => cell !== null && String(cell).toLowerCase().includes(text)) ||
      (data.marks[i] || "").toLowerCase().includes(text));
    const key = sort.replace(/^-/, ""), column = data.columns.findIndex((one) => one.key === key);
    if (column >= 0 && sort !== data.sort) {
      const sign = sort.startsWith("-") ? -1 : 1;
      order.sort((a, b) => {
        const x = data.rows[a][column], y = data.rows[b][column];
        if (x === null || y === null) return (x === null) - (y === null) || a - b;
        if (typeof x === typeof y) {
          return sign * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y) || a - b;
        }
        return sign * (typeof x === "string" ? 1 : -1);
      });
    }
    const rows = data.rows.length === 1 ? "1 row" : `${data.rows.length.toLocaleString("en")} rows`;
    count.textContent = order.length === data.rows.length ? rows : `${order.length.toLocaleString("en")} of ${rows}`;
    table.setAttribute("aria-rowcount", order.length + 1);
    drawn = "";
    draw();
  }

  function draw() {
    const first = Math.max(0, Math.floor(view.scrollTop / HIGH) - MORE);
    const past = Math.min(order.length, first + Math.ceil((view.clientHeight || 500) / HIGH) + 2 * MORE);
    if (drawn === `${first} ${past}`) return;
    drawn = `${first} ${past}`;
    const rows = [];
    if (first) rows.push(spacer(first));
    for (let i = first; i < past; i += 1) rows.push(row(order[i], i));
    if (past < order.length) rows.push(spacer(order.length - past));
    if (!rows.length) rows.push(element("tr", {}, element("td", { class: "empty", colspan: data.columns.length }, "No rows.")));
    body.replaceChildren(...rows);
  }

  function spacer(rows) {
    const cell = element("td", { colspan: data.columns.length });
    cell.style.height = `${rows * HIGH}px`;
    return element("tr", { "aria-hidden": "true" }, cell);
  }

  function row(index, position) {
    const mark = data.marks[index];
    return element("tr", { class: mark ? "marked" : null, "aria-rowindex": position + 2 }, ...data.columns.map((column, i) => {
      const cell = data.rows[index][i], text = show(i, cell), inside = [];
      if (column.barOf && typeof cell === "number") inside.push(bar(cell, column.barOf));
      inside.push(column.link && cell ? element("a", { href: address(root, column.link.replace(/\/$/, ""), cell) }, text) : text);
      if (i === 0 && mark) inside.push(" ", element("span", { class: "mark" }, mark));
      return element("td", { class: column.numeric ? "num" : null, title: text.length > 40 ? text : null }, ...inside);
    }));
  }

  function bar(value, of) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    for (const [name, v] of [["class", "bar"], ["width", 48], ["height", 8], ["viewBox", "0 0 48 8"], ["aria-hidden", "true"]]) made.setAttribute(name, v);
    for (const [kind, width] of [["track", 48], ["level", 48 * Math.max(0, Math.min(1, value / of))]]) {
      const part = document.createElementNS("http://www.w3.org/2000/svg", "rect");
      for (const [name, v] of [["class", kind], ["width", width], ["height", 8], ["rx", 1]]) part.setAttribute(name, v);
      made.append(part);
    }
    return made;
  }

  function remember() {
    const now = new URLSearchParams(location.search);
    for (const [name, value] of [["sort", sort === data.sort ? "" : sort], ["filter", input.value]]) {
      if (value) now.set(name, value); else now.delete(name);
    }
    now.delete("from");
    const text = now.toString();
    history.replaceState(null, "", text ? `?${text}` : location.pathname);
  }

  place.classList.add("drawn");
  place.addEventListener("reload", async () => {
    const fresh = await fetchRows(place);
    if (!fresh) return;
    data = fresh;
    arrange();
  });
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const column = data.columns[i];
    const button = element("button", { type: "button", title: column.hint || null }, column.title);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = column.numeric ? `-${column.key}` : column.key;
      sort = sort === first ? (column.numeric ? column.key : `-${column.key}`) : first;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", sort.startsWith("-") ? "descending" : "ascending");
      view.scrollTop = 0;
      arrange();
      remember();
    });
  });
  const form = place.querySelector("form");
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button").hidden = true;
  input.addEventListener("input", () => { view.scrollTop = 0; arrange(); remember(); });
  view.addEventListener("scroll", () => requestAnimationFrame(draw), { passive: true });
  arrange();
}
