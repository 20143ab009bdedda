// The page is whole without this. Here it becomes live: parts are drawn anew when what they show
// has changed, pictures and long tables are drawn in the browser, texts can be copied.

import { follow } from "./live.js";
import { heatMaps } from "./heat.js";
import { grids } from "./grid.js";
import { line } from "./stream.js";

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
  for (const later of scope.querySelectorAll("[data-later]")) fetchLater(later);
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
    request.onload = () => resolve(request.response);
    request.onerror = () => reject(new Error("not reached"));
    request.send();
  });
}

function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const key = focused && (focused.id || focused.getAttribute("href"));
  const scrolled = [...old.querySelectorAll(".scroll")].map((one) => one.scrollTop);
  const taken = document.importNode(fresh, true);
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
  const places = [...document.querySelectorAll("[data-live]")].filter((place) =>
    place.id && place.dataset.live.split(" ").some((kind) => kinds.has(kind)) &&
    !(place.contains(document.activeElement) && document.activeElement.matches("input, select, textarea")));
  if (places.length) {
    const fresh = await load(location.href).catch(() => null);
    for (const place of places) {
      const now = fresh && fresh.getElementById(place.id);
      if (now && !place.isEqualNode(now)) replace(place, now);
      // A view that could not be shown at all is whole again.
      else if (fresh && !now && place.id === "trouble") replace(place.closest("main"), fresh.querySelector("main"));
    }
  }
  last = performance.now();
  busy = false;
  if (wanted.size) refresh();
}

const connection = document.getElementById("connection");
function say(state, text, why = "") {
  connection.className = `connection ${state}`;
  if (connection.textContent !== text) connection.textContent = text;
  connection.title = why;
}

enhance(document);

const stream = document.querySelector("[data-stream]");
const [epoch, id, seen] = stream ? stream.dataset.feed.split(" ") : ["", "0", "0"];

follow(root, { epoch, id: Number(id), seen: Number(seen) }, {
  live: () => say("live", "live"),
  lost: (seconds) => say("lost", `connection lost, next try in ${seconds} s`),
  trouble: (what) => (what ? say("lost", "scheduler away", what.text) : say("live", "live")),
  reset: () => refresh("status", "decisions", "nodes", "recovered"),
  recovered: () => refresh("recovered", "status", "decisions"),
  status: () => refresh("status"),
  nodes: (data) => {
    document.dispatchEvent(new CustomEvent("nodes", { detail: data }));
    refresh("nodes");
  },
  decisions: (data) => {
    if (stream) {
      const most = Number(stream.dataset.stream);
      stream.prepend(...data.items.slice(-most).reverse().map((one) => line(root, one)));
      while (stream.childElementCount > most) stream.lastElementChild.remove();
      stream.dataset.seen = data.seen;
      const empty = stream.parentElement.querySelector(".state");
      if (empty) empty.remove();
    }
    const here = document.querySelector("[data-pod]");
    if (!here || data.items.some((one) => one.pod === here.dataset.pod)) refresh("decisions");
  },
});
