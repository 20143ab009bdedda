// The page is whole without this. Here it becomes live: parts are drawn anew when what they show
// has changed, pictures and long tables are drawn in the browser, texts can be copied.

import { follow } from "./live.js";
import { heatMaps } from "./heat.js";
import { grids } from "./grid.js";
import { gap, line } from "./stream.js";

const root = document.documentElement.dataset.root;
// A part is drawn anew at most this often, and not while somebody types in it.
const REST_MS = 2000;

function enhance(scope) {
  heatMaps(scope);
  grids(scope);
  for (const button of scope.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = button.dataset.copy;
      const whole = "address" in button.dataset ? new URL(text, location.href).href : text;
      await navigator.clipboard.writeText(whole);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
  // The part itself may be one: what takes long is asked for again.
  if (scope.dataset && scope.dataset.later) fetchLater(scope);
  for (const later of scope.querySelectorAll("[data-later]")) fetchLater(later);
  for (const input of scope.querySelectorAll("[data-lists]")) {
    input.addEventListener("change", () => listParts(input));
  }
  // A choice takes effect at once; the button is for those without scripts.
  for (const form of scope.querySelectorAll("form.controls")) {
    const button = form.querySelector("button");
    if (button) button.hidden = true;
    form.addEventListener("change", () => form.requestSubmit());
  }
}

// Parts of an address as a document: parsed by the browser, never as text by a script.
function load(address) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", address);
    request.responseType = "document";
    request.onload = () => {
      // A document without scripts has them as elements: the picture of 15,000 nodes takes seconds.
      for (const one of request.response ? request.response.querySelectorAll("noscript") : []) one.remove();
      resolve(request.response);
    };
    request.onerror = () => reject(new Error("not reached"));
    request.send();
  });
}

function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const key = focused && (focused.id || focused.getAttribute("href"));
  const scrolled = [...old.querySelectorAll(".scroll")].map((one) => one.scrollTop);
  const open = new Set([...old.querySelectorAll("details[open] > summary")].map((one) => one.textContent));
  const taken = document.importNode(fresh, true);
  for (const one of taken.querySelectorAll("details > summary")) {
    if (open.has(one.textContent)) one.parentElement.open = true;
  }
  // Long tables stay as they are sorted, filtered and scrolled, and read their rows again.
  const kept = new Map([...old.querySelectorAll(".grid.drawn")].map((one) => [one.dataset.grid, one]));
  for (const place of taken.querySelectorAll("[data-grid]")) {
    const drawn = kept.get(place.dataset.grid), heads = (one) => one.querySelector("thead").textContent;
    if (!drawn || heads(drawn) !== heads(place)) continue;
    place.replaceWith(drawn);
    drawn.dispatchEvent(new Event("reload"));
  }
  old.replaceWith(taken);
  enhance(taken);
  [...taken.querySelectorAll(".scroll")].forEach((one, i) => { one.scrollTop = scrolled[i] || 0; });
  if (key) {
    const again = [...taken.querySelectorAll("a, button, input, select")]
      .find((one) => one.id === key || one.getAttribute("href") === key);
    if (again) again.focus({ preventScroll: true });
  }
}

// What takes a question to the scheduler is asked for after the page is there.
async function fetchLater(place) {
  const address = place.dataset.later;
  delete place.dataset.later;
  place.removeAttribute("data-later");
  const loaded = await load(address).catch(() => null);
  const fresh = loaded && place.id && loaded.getElementById(place.id);
  if (fresh && place.isConnected) replace(place, fresh);
}

// A pod was named: its rules and containers are listed, for changes.
async function listParts(input) {
  const loaded = await load(`${root}what-if?pod=${encodeURIComponent(input.value.trim())}`).catch(() => null);
  const place = document.getElementById(input.dataset.lists), fresh = loaded && loaded.getElementById(input.dataset.lists);
  if (place && fresh) replace(place, fresh);
}

let wanted = new Set();
let timer = 0;
let last = 0;
let busy = false;

function refresh(...kinds) {
  kinds.forEach((kind) => wanted.add(kind));
  if (!timer && !busy) timer = setTimeout(draw, Math.max(0, last + REST_MS - performance.now()));
}

async function draw() {
  timer = 0;
  busy = true;
  const kinds = wanted;
  wanted = new Set();
  const isTyping = (place) =>
    place.contains(document.activeElement) && document.activeElement.matches("input, select, textarea");
  const places = [...document.querySelectorAll("[data-live]")].filter((place) =>
    place.id && place.dataset.live.split(" ").some((kind) => kinds.has(kind)) && !isTyping(place));
  if (places.length) {
    const fresh = await load(location.href).catch(() => null);
    const whole = document.querySelector("[data-whole]"), now = fresh && fresh.querySelector("[data-whole]");
    if (whole && now && parts(whole) !== parts(now) && !isTyping(whole)) {
      // Other parts than before: a pod that waited has its place.
      replace(whole, now);
    } else if (fresh) {
      for (const place of places) {
        const part = fresh.getElementById(place.id);
        if (part && !place.isEqualNode(part)) replace(place, part);
        // A view that could not be shown at all is whole again.
        else if (!part && place.id === "trouble") replace(place.closest("main"), fresh.querySelector("main"));
      }
    }
  }
  if (told !== opened || gaps) count();
  last = performance.now();
  busy = false;
  if (wanted.size) refresh();
}

const parts = (scope) => [...scope.querySelectorAll("[data-live]")].map((one) => one.id).join(" ");

const connection = document.getElementById("connection");
function say(state, text, why = "") {
  connection.className = `connection ${state}`;
  if (connection.textContent !== text) connection.textContent = text;
  connection.title = why;
}

enhance(document);

// The stream may be drawn anew, and begins with what the server said of it.
const stream = () => document.querySelector("[data-stream]");
const [epoch = "", id = "0", seen = "0"] = stream() ? stream().dataset.feed.split(" ") : [];
// Attempts that were told here, and those that the server had told when the page was opened.
let told = Number(seen), gaps = 0;
const opened = told;

function count() {
  const place = document.getElementById("counted");
  if (!place || told === null) return;
  const many = (told - opened).toLocaleString("en");
  const missed = gaps ? `${gaps} ${gaps === 1 ? "gap" : "gaps"}` : "none missed";
  place.textContent = `${many} since this page was opened, ${missed}`;
  place.dataset.told = told;
  place.dataset.gaps = gaps;
}

// Lines of a frame, unless the stream was drawn after it.
function prepend(frame, ...lines) {
  const place = stream();
  if (!place || frame <= Number(place.dataset.feed.split(" ")[1])) return;
  const most = Number(place.dataset.stream);
  place.prepend(...lines);
  while (place.childElementCount > most) place.lastElementChild.remove();
  const empty = place.parentElement.querySelector(".state");
  if (empty) empty.remove();
}

const nodesChanged = (detail) => document.dispatchEvent(new CustomEvent("nodes", { detail }));

// Everything is read anew: what was told meanwhile is not known.
function reset() {
  told = null;
  gaps += 1;
  nodesChanged({ serial: Infinity });
  refresh("reset", "status", "decisions", "nodes", "recovered");
}

follow(root, { epoch, id: Number(id) }, {
  live: () => say("live", "live"),
  lost: (seconds) => say("lost", `connection lost, next try in ${seconds} s`),
  trouble: (what) => (what ? say("lost", "scheduler away", what.text) : say("live", "live")),
  hello: (hello) => nodesChanged({ serial: hello.nodes }),
  reset,
  recovered: () => refresh("recovered", "status", "decisions"),
  status: () => refresh("status"),
  gap: (data, frame) => {
    gaps += 1;
    prepend(frame, gap(data));
    count();
    refresh("status", "decisions", "nodes", "recovered");
  },
  nodes: (data) => {
    nodesChanged(data);
    refresh("nodes");
  },
  decisions: (data, frame) => {
    // Counted here and there: they have to agree.
    if (told !== null && stream() && told + data.count !== data.seen) { reset(); return; }
    told = data.seen;
    prepend(frame, ...data.items.slice(-100).reverse().map((one) => line(root, one)));
    count();
    const here = document.querySelector("[data-pod]");
    if (!here || data.items.some((one) => one.pod === here.dataset.pod)) refresh("decisions");
  },
});
