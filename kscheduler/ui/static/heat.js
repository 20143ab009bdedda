// The heat map: a cell per node on a canvas, filled from below as far as it is in use, darker the
// fuller. Pointer and arrow keys read a node, Enter or a click opens it.

import { address } from "./stream.js";

const GAP = 1;
const TITLE = 17;
const HIGHEST = 430;
const SIZES = [42, 36, 30, 26, 22, 18, 15, 13, 11, 9, 8, 7, 6, 5, 4];
const root = document.documentElement.dataset.root;

export function heatMaps(scope) {
  for (const place of scope.querySelectorAll("[data-heat]")) new HeatMap(place).start();
}

class HeatMap {
  constructor(place) {
    this.place = place;
    this.canvas = place.querySelector("canvas");
    this.reading = place.querySelector(".reading");
    this.by = place.dataset.by;
    this.marks = new Map((place.dataset.marks || "").split("\n").filter(Boolean)
      .map((one) => one.split("\t")).map(([node, count]) => [node, Number(count)]));
    this.at = -1;
  }

  async start() {
    await this.load();
    const redraw = () => { if (this.canvas.isConnected && this.data) this.layOut(); };
    new ResizeObserver(redraw).observe(this.place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    document.addEventListener("nodes", ({ detail }) => {
      if (!this.canvas.isConnected || !this.data || detail.serial <= this.data.serial) return;
      // Only the next change can be applied; after any other, all nodes are read.
      if (this.loading) this.missed = Number.isFinite(detail.serial) ? detail.serial : 0;
      else if (detail.requested && detail.serial === this.data.serial + 1) this.change(detail);
      else this.load();
    });
    this.canvas.addEventListener("pointermove", (event) => this.read(this.find(event)));
    this.canvas.addEventListener("pointerleave", () => this.read(-1));
    this.canvas.addEventListener("click", (event) => this.go(this.find(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("focus", () => this.read(this.at < 0 ? this.cells[0].node : this.at));
  }

  async load() {
    if (this.loading) return;
    this.loading = true;
    this.missed = 0;
    const answer = await fetch(this.place.dataset.heat).catch(() => null);
    if (answer && answer.ok) {
      this.data = await answer.json();
      this.added = new Set(this.data.added);
      this.layOut();
      this.tell();
    }
    this.loading = false;
    if (this.data && this.missed > this.data.serial) this.load();
  }

  change({ serial, resources, requested }) {
    this.data.serial = serial;
    resources.forEach((name, column) => {
      const values = this.data.requested[name];
      if (values) for (const [node, row] of Object.entries(requested)) values[node] = row[column];
    });
    this.tell();
    this.redraw();
  }

  // Many changes within a frame are one.
  redraw() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => { this.waits = false; this.draw(); });
  }

  // Groups are blocks, laid in rows; cells are as large as fits into the height.
  layOut() {
    const width = this.place.clientWidth;
    if (!width) return;
    for (const size of SIZES) {
      this.size = size;
      this.blocks = [];
      const step = size + GAP;
      let x = 0, y = 0, row = 0;
      for (const { name, nodes } of this.data.groups) {
        const most = Math.max(1, Math.floor((width + GAP) / step));
        const columns = Math.min(most, Math.max(Math.ceil(Math.sqrt(nodes.length * 2.2)), Math.ceil(80 / size)));
        const wide = columns * step;
        if (x && x + wide > width) { x = 0; y += row; row = 0; }
        this.blocks.push({ name, nodes, columns, x, y });
        x += wide + 14;
        row = Math.max(row, Math.ceil(nodes.length / columns) * step + TITLE + 8);
      }
      this.height = y + row;
      if (this.height <= HIGHEST) break;
    }
    const step = this.size + GAP;
    this.cells = this.blocks.flatMap(({ nodes, columns, x, y }) => nodes.map((node, i) => ({
      node, x: x + (i % columns) * step, y: y + TITLE + Math.floor(i / columns) * step,
    })));
    this.order = new Map(this.cells.map((cell, i) => [cell.node, i]));
    const scale = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(this.height * scale);
    this.canvas.style.height = `${this.height}px`;
    this.scale = scale;
    this.draw();
  }

  share(node) {
    const of = this.data.allocatable[this.by][node];
    return of > 0 ? this.data.requested[this.by][node] / of : 0;
  }

  draw() {
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(name).trim();
    const steps = [0, 1, 2, 3, 4, 5].map((i) => colour(`--s${i}`));
    const pen = this.canvas.getContext("2d");
    const size = this.size;
    pen.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.font = `12px ${style.fontFamily}`;
    pen.fillStyle = colour("--soft");
    pen.textBaseline = "top";
    for (const { name, x, y, columns } of this.blocks) {
      const wide = columns * (size + GAP);
      let text = name;
      while (text.length > 3 && pen.measureText(text).width > wide + 8) text = `${text.slice(0, -2)}…`;
      pen.fillText(text, x, y + 1);
    }
    // By colour, not by cell: setting a colour costs more than a rectangle.
    const levels = steps.map(() => []);
    pen.fillStyle = colour("--track");
    for (const cell of this.cells) {
      const share = Math.min(1, this.share(cell.node));
      const level = Math.round(share * size);
      if (level < size) pen.fillRect(cell.x, cell.y, size, size - level);
      if (level) levels[Math.min(5, Math.floor(share * 6))].push(cell.x, cell.y + size - level, level);
    }
    levels.forEach((flat, step) => {
      pen.fillStyle = steps[step];
      for (let i = 0; i < flat.length; i += 3) pen.fillRect(flat[i], flat[i + 1], size, flat[i + 2]);
    });
    if (size >= 8) {
      const half = size / 2, far = size - 3;
      this.sign(pen, colour, this.data.cordoned, [[3, 3, far, far], [far, 3, 3, far]]);
      this.sign(pen, colour, this.added, [[half, 3, half, far], [3, half, far, half]]);
    }
    if (this.marks.size) this.drawMarks(pen, colour);
    if (this.at >= 0) this.frame(pen, this.at, colour("--ink"));
  }

  // Two strokes on each of these nodes, with an edge, so that they are seen on any ground.
  sign(pen, colour, nodes, strokes) {
    pen.beginPath();
    for (const node of nodes) {
      const cell = this.cells[this.order.get(node)];
      if (!cell) continue;
      for (const [x1, y1, x2, y2] of strokes) {
        pen.moveTo(cell.x + x1, cell.y + y1);
        pen.lineTo(cell.x + x2, cell.y + y2);
      }
    }
    for (const [name, width] of [["--sheet", 3], ["--ink", 1.2]]) {
      pen.strokeStyle = colour(name);
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  // Where pods of a review would go: a frame, and how many where there is room for a number.
  drawMarks(pen, colour) {
    pen.textAlign = "center";
    pen.font = `600 ${Math.min(13, this.size - 4)}px ${getComputedStyle(this.canvas).fontFamily}`;
    for (const { node, x, y } of this.cells) {
      const count = this.marks.get(this.data.names[node]);
      if (!count) continue;
      this.frame(pen, node, colour("--strike"));
      if (this.size >= 13) {
        pen.fillStyle = colour("--sheet");
        pen.fillRect(x + 3, y + 3, this.size - 6, this.size - 6);
        pen.fillStyle = colour("--ink");
        pen.fillText(count, x + this.size / 2, y + (this.size - Math.min(13, this.size - 4)) / 2);
      }
    }
    pen.textAlign = "start";
  }

  frame(pen, node, colour) {
    const cell = this.cells[this.order.get(node)];
    if (!cell) return;
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.strokeRect(cell.x, cell.y, this.size, this.size);
  }

  find(event) {
    const box = this.canvas.getBoundingClientRect();
    const x = event.clientX - box.left, y = event.clientY - box.top, size = this.size + GAP;
    const cell = this.cells.find((one) => x >= one.x && x < one.x + size && y >= one.y && y < one.y + size);
    return cell ? cell.node : -1;
  }

  read(node) {
    if (node === this.at) return;
    this.at = node;
    this.canvas.style.cursor = node < 0 ? "" : "pointer";
    this.redraw();
    this.tell();
  }

  tell() {
    const node = this.at;
    if (node < 0) { this.reading.textContent = ""; return; }
    const said = this.data.resources.map((name) => {
      const of = this.data.allocatable[name][node];
      return of ? `${name} ${Math.round(100 * this.data.requested[name][node] / of)} %` : "";
    }).filter(Boolean).join(", ");
    const cordoned = this.data.cordoned.includes(node) ? ", cordoned" : "";
    const added = this.added.has(node) ? ", added" : "";
    const count = this.marks.get(this.data.names[node]);
    const come = count ? `, ${count} would come here` : "";
    this.reading.textContent = `${this.data.names[node]}: ${said}${added}${cordoned}${come}`;
  }

  key(event) {
    const here = Math.max(0, this.order.get(this.at) ?? 0);
    const cell = this.cells[here];
    let next = here;
    if (event.key === "ArrowRight") next = here + 1;
    else if (event.key === "ArrowLeft") next = here - 1;
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const down = event.key === "ArrowDown";
      const others = this.cells.map((one, i) => [one, i]).filter(([one]) => (down ? one.y > cell.y : one.y < cell.y));
      others.sort(([a], [b]) => Math.abs(a.y - cell.y) - Math.abs(b.y - cell.y) || Math.abs(a.x - cell.x) - Math.abs(b.x - cell.x));
      if (others.length) next = others[0][1];
    } else if (event.key === "Home") next = 0;
    else if (event.key === "End") next = this.cells.length - 1;
    else if (event.key === "Enter") { this.go(this.at); return; }
    else return;
    event.preventDefault();
    this.read(this.cells[Math.min(this.cells.length - 1, Math.max(0, next))].node);
  }

  go(node) {
    if (node >= 0 && !this.added.has(node)) location.href = address(root, "nodes", this.data.names[node]);
  }
}
