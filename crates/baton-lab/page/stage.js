// The drawing: processes below, the store above, and messages on their way between them. A network
// without a store is drawn in network.js.

const SVG = "http://www.w3.org/2000/svg";
const PROCESS = 24;

function shape(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  return element;
}

class Stage {
  constructor(svg, select) {
    Object.assign(this, { svg, select });
  }

  draw(experiment, selected) {
    const { view } = experiment;
    this.svg.parentElement.hidden = !view;
    if (!view) return;
    const width = Math.max(300, this.svg.clientWidth),
      parts = [];
    const add = (name, attributes, text) => parts.push(shape(name, attributes, text));
    const height =
      view.store.kind === "network"
        ? drawNetwork(this, add, parts, experiment, selected, width)
        : this.world(add, parts, experiment, selected, width);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.style.height = `${height}px`;
    this.svg.replaceChildren(...parts);
  }

  // Draws processes and their store, and returns the height of the drawing.
  world(add, parts, experiment, selected, width) {
    const { view } = experiment,
      isQueue = view.store.kind === "queue";
    const box = { left: 12, right: width - 12, top: 14, bottom: isQueue ? 168 : 112 };
    const row = box.bottom + 122;
    const place = (candidate) =>
      box.left + ((box.right - box.left) * (candidate + 0.5)) / view.nodes.length;
    add("rect", {
      class: "store",
      x: box.left,
      y: box.top,
      width: box.right - box.left,
      height: box.bottom - box.top,
      rx: 10,
    });
    const anchors = isQueue
      ? this.queue(add, view, box, place)
      : this.record(add, view, box, place);
    view.nodes.forEach((node, candidate) => {
      const x = place(candidate);
      add("line", {
        class: `link${node.cut ? " cut" : ""}`,
        x1: x,
        x2: x,
        y1: box.bottom,
        y2: row - PROCESS,
      });
    });
    // A process that is down receives nothing.
    const arrives = (message) =>
      message.kind === "request" || view.nodes[message.candidate].identity !== null;
    for (const message of view.messages.filter(arrives))
      this.message(add, message, experiment, place, box, row, anchors);
    view.nodes.forEach((node, candidate) =>
      this.process(
        parts,
        add,
        experiment,
        node,
        candidate,
        place(candidate),
        row,
        selected.has(candidate),
      ),
    );
    return row + 78;
  }

  queue(add, view, box, place) {
    const { znodes, watches, serving } = view.store,
      anchors = new Map();
    const up = serving.filter(Boolean).length;
    add(
      "text",
      { class: "quiet small", x: box.left + 12, y: box.top + 20 },
      "ZooKeeper: the queue",
    );
    add(
      "text",
      {
        class: up * 2 > serving.length ? "quiet small" : "wrong-text small",
        x: box.right - 12,
        y: box.top + 20,
        "text-anchor": "end",
      },
      `${up} of ${serving.length} servers serve`,
    );
    const room = (box.right - box.left - 16) / Math.max(view.nodes.length, znodes.length);
    const wide = Math.min(104, room - 8),
      top = box.bottom - 66,
      tall = 40;
    znodes.forEach((znode, position) => {
      const x = box.left + 8 + room * (position + 0.5);
      anchors.set(znode.name, x);
      const sequence = String(znode.sequence);
      const label = wide > 80 ? `…${sequence.padStart(4, "0")}` : sequence;
      const owner = znode.identity[0];
      add("rect", {
        class: `znode${position === 0 ? " head" : ""}${znode.owner === null ? " orphan" : ""}`,
        x: x - wide / 2,
        y: top,
        width: wide,
        height: tall,
        rx: 6,
      });
      add("text", { x, y: top + 25, "text-anchor": "middle" }, `${label} ${owner}`);
      if (znode.owner !== null) {
        const from = place(znode.owner),
          low = box.bottom;
        const curve = `C${from} ${low - 14} ${x} ${low - 10} ${x} ${top + tall}`;
        add("path", { class: "session", d: `M${from} ${low} ${curve}` });
      }
    });
    for (const [candidate, name] of watches) {
      const own = znodes.find((znode) => znode.owner === candidate),
        to = anchors.get(name);
      if (to === undefined || !own) continue;
      const from = anchors.get(own.name);
      if (from === to) continue;
      const lift = Math.min(46, 18 + Math.abs(from - to) / 8);
      const high = top - lift;
      const curve = `C${from - 10} ${high} ${to + 10} ${high} ${to + 8} ${top - 3}`;
      add("path", { class: "watch", d: `M${from - 6} ${top} ${curve}` });
      add("path", {
        class: "watch",
        d: `M${to + 5} ${top - 10} L${to + 8} ${top - 2} L${to + 14} ${top - 8}`,
      });
    }
    if (znodes.length === 0)
      add(
        "text",
        { class: "quiet", x: (box.left + box.right) / 2, y: top + 25, "text-anchor": "middle" },
        "no znodes yet",
      );
    return anchors;
  }

  record(add, view, box) {
    const { version, holder, lease } = view.store,
      x = (box.left + box.right) / 2;
    add("text", { class: "quiet small", x: box.left + 12, y: box.top + 20 }, "The record");
    add(
      "text",
      { x, y: box.top + 50, class: "holder", "text-anchor": "middle" },
      version === undefined ? "no record" : holder ? `held by ${holder[0]}` : "released",
    );
    if (version !== undefined)
      add(
        "text",
        { class: "quiet", x, y: box.top + 74, "text-anchor": "middle" },
        `version ${version}, lease ${lease} s`,
      );
    return new Map();
  }

  process(parts, add, experiment, node, candidate, x, y, isSelected, isWrong = false) {
    const { now } = experiment,
      leads = node.until > now,
      renew = experiment.info.candidates[candidate].renew;
    const state = node.identity === null ? "down" : node.paused ? "paused" : leads ? "leads" : "";
    if (wokenAt(experiment, candidate))
      add("circle", { class: "woken", cx: x, cy: y, r: PROCESS + 9 });
    add("circle", {
      class: `process ${state}${leads && isWrong ? " wrong" : ""}`,
      cx: x,
      cy: y,
      r: PROCESS,
    });
    if (leads && renew) {
      const part = Math.min(0.999, (node.until - now) / SECOND / renew);
      const angle = part * 2 * Math.PI,
        r = PROCESS + 5;
      const end = `${x + r * Math.sin(angle)} ${y - r * Math.cos(angle)}`;
      const arc = `A${r} ${r} 0 ${part > 0.5 ? 1 : 0} 1 ${end}`;
      add("path", { class: "claim", d: `M${x} ${y - r} ${arc}` });
    }
    if (isSelected) add("circle", { class: "selected", cx: x, cy: y, r: PROCESS + 11 });
    add(
      "text",
      {
        class: state === "leads" ? "letter on-lead" : "letter",
        x,
        y: y + 6,
        "text-anchor": "middle",
      },
      experiment.nameOf(candidate),
    );
    add(
      "text",
      { class: "quiet small", x, y: y + PROCESS + 26, "text-anchor": "middle" },
      describe({ ...node, cut: false }, now),
    );
    if (node.cut)
      add(
        "text",
        { class: "wrong-text small", x, y: y + PROCESS + 42, "text-anchor": "middle" },
        "cut off",
      );
    if (experiment.info.store === "network") return;
    const hit = shape("circle", { class: "hit", cx: x, cy: y, r: PROCESS + 12 });
    hit.addEventListener("click", () => this.select(candidate));
    parts.push(hit);
  }

  message(add, message, experiment, place, box, row, anchors) {
    const part = (experiment.now - message.sent) / Math.max(1, message.arrives - message.sent);
    const x = place(message.candidate),
      low = row - PROCESS,
      high = box.bottom;
    const y = message.kind === "request" ? low + (high - low) * part : high + (low - high) * part;
    const isBeat = isHeartbeat(message.text);
    add("circle", {
      class: `message ${isBeat ? "beat" : message.kind}`,
      cx: x,
      cy: y,
      r: isBeat ? 3.5 : message.kind === "watch" ? 7 : 5,
    });
    if (!isBeat) {
      const right = message.candidate === experiment.size - 1 && experiment.size > 1;
      add(
        "text",
        {
          class: message.kind === "watch" ? "wake-text small" : "small",
          x: x + (right ? -10 : 10),
          y: y + 4,
          "text-anchor": right ? "end" : "start",
        },
        brief(message.text),
      );
    }
  }
}

// Messages that only keep a session or a lease alive.
const HEARTBEATS = [
  /check \S+/,
  /checked/,
  /read/,
  /read the leader/,
  /leader: .*/,
  /replace v\d+ to renew.*/,
  /applied: .*/,
  /read: .*/,
  /watch event: (?!none).*/,
];
const HEARTBEAT = new RegExp(`^(${HEARTBEATS.map(({ source }) => source).join("|")})$`);
const isHeartbeat = (text) => HEARTBEAT.test(text);

// A message in a few words.
const brief = (text) =>
  text
    .replace(/^join as \S+ .*/, "join")
    .replace(/^check \S+ and announce.*/, "announce")
    .replace(/ z\d+$/, "")
    .replace(/^(begin a session) of.*/, "$1")
    .replace(/^connected: (s\d+).*/, "session $1")
    .replace(/^(replace|create).* to (\w+).*/, "$2")
    .replace(/^create to.*/, "acquire");

function describe(node, now) {
  if (node.identity === null) return "down";
  if (node.paused) return "paused";
  const cut = node.cut ? ", cut off" : "";
  if (node.until > now) return `leads${cut}`;
  return (node.leader ? `follows ${node.leader[0]}` : "waits") + cut;
}

// Whether a watch event has reached the candidate within the last second and a half.
function wokenAt(experiment, candidate) {
  for (let index = experiment.position() - 1; index >= 0; index--) {
    const record = experiment.records[index];
    if (record[0] < experiment.now - 1.5 * SECOND) return false;
    if (record[1] === "watch" && record[2] === candidate && record[5].includes("watch fired"))
      return true;
  }
  return false;
}

// The whole picture as a sentence, for readers without the picture.
function summarize(experiment) {
  const { view, now } = experiment;
  if (!view) return "";
  const groups = new Map();
  view.nodes.forEach((node, candidate) => {
    const state = describe(node, now);
    groups.set(state, [...(groups.get(state) ?? []), experiment.nameOf(candidate)]);
  });
  const verb = (state, many) =>
    many
      ? state
          .replace(/^leads/, "lead")
          .replace(/^follows/, "follow")
          .replace(/^waits/, "wait")
          .replace(/^(down|paused)/, "are $1")
      : state.replace(/^(down|paused)/, "is $1");
  return (
    [...groups]
      .map(([state, names]) => `${names.join(", ")} ${verb(state, names.length > 1)}`)
      .join("; ") + "."
  );
}
