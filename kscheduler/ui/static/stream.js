// One decision as a line: the same elements as the server makes.

const SIGNS = { Scheduled: ["●", "placed"], Unschedulable: ["○", "waits"] };

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

export function address(root, kind, name) {
  return `${root}${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

export function line(root, one) {
  const [sign, kind] = SIGNS[one.outcome] || ["▲", "failed"];
  return element("li", { class: "new" },
    element("time", { datetime: one.time, title: one.time }, one.time.slice(11, 19)),
    element("a", { href: address(root, "pods", one.pod) }, one.pod),
    element("span", { class: `badge ${kind}` },
      element("span", { "aria-hidden": "true" }, sign), ` ${one.outcome}`),
    element("span", { class: "said" }, one.summary));
}

// A time of which decisions may be missing.
export function gap({ since, until }) {
  return element("li", { class: "gap" },
    element("time", { datetime: since, title: since }, since.slice(11, 19)),
    element("span", { class: "said" },
      `▲ Until ${until.slice(11, 19)} decisions may be missing: the scheduler could not be asked, or another instance leads since.`));
}
