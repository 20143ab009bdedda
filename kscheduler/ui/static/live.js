// Server-sent events with numbers: no frame is missed without notice. A connection that is lost is
// tried again with longer and longer pauses, from the last frame on; a page that nobody looks at
// lets go of its connection, because a browser has few of them.

const FIRST_MS = 500;
const LONGEST_MS = 30000;
const KINDS = ["status", "decisions", "gap", "nodes", "trouble", "recovered"];

export function follow(root, start, on) {
  let { epoch, id } = start;
  let pause = FIRST_MS;
  let source = null;
  let timer = 0;

  function take(event) {
    const number = Number(event.lastEventId);
    if (number <= id) return null;
    if (number !== id + 1) {
      // A gap: what was missed is not known, so everything is read anew.
      reopen();
      on.reset();
      return null;
    }
    id = number;
    return JSON.parse(event.data);
  }

  function open() {
    timer = 0;
    source = new EventSource(`${root}events?epoch=${epoch}&since=${id}`);
    const greet = (event) => {
      const hello = JSON.parse(event.data);
      epoch = hello.epoch;
      id = hello.id;
      pause = FIRST_MS;
      if (hello.trouble) on.trouble(hello.trouble); else on.live();
      return hello;
    };
    source.addEventListener("hello", (event) => on.hello(greet(event)));
    source.addEventListener("reset", (event) => { greet(event); on.reset(); });
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        const data = take(event);
        if (data === null) return;
        if (kind === "recovered") on.trouble(null);
        on[kind](data, id);
      });
    }
    source.onerror = () => {
      close();
      on.lost(Math.round(pause / 1000) || 1);
      timer = setTimeout(open, pause * (0.75 + Math.random() / 2));
      pause = Math.min(pause * 2, LONGEST_MS);
    };
  }

  function close() {
    if (source) source.close();
    source = null;
    clearTimeout(timer);
    timer = 0;
  }

  function reopen() {
    close();
    epoch = "";
    timer = setTimeout(open, FIRST_MS);
  }

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else if (!source && !timer) open();
  });
  addEventListener("pagehide", close);
  if (!document.hidden) open();
}
