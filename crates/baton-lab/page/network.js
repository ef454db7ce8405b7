// The drawing of a network: processes on a circle, a server in its middle, and messages between
// them.

function drawNetwork(stage, add, parts, experiment, selected, width) {
  const { view, size, info } = experiment;
  const radius = Math.min(150, width / 2 - 70),
    middle = { x: width / 2, y: radius + 58 };
  const place = (candidate) => {
    if (candidate >= size) return middle;
    const angle = (2 * Math.PI * candidate) / size - Math.PI / 2;
    return { x: middle.x + radius * Math.cos(angle), y: middle.y + radius * Math.sin(angle) };
  };
  for (let one = 0; one < size; one++) {
    const peers =
      info.servers > 0
        ? [size]
        : Array.from({ length: size - one - 1 }, (_, index) => one + 1 + index);
    for (const other of peers) {
      const [from, to] = [place(one), place(other)];
      const isCut = view.nodes[one].cut || view.nodes[other]?.cut;
      add("line", {
        class: `link${isCut ? " cut" : ""}`,
        x1: from.x,
        y1: from.y,
        x2: to.x,
        y2: to.y,
      });
    }
  }
  const talk = view.messages.filter((message) => !message.beat);
  for (const message of view.messages)
    drawPassage(add, message, experiment.now, place, talk.length <= 6);
  if (info.servers > 0) {
    add("rect", {
      class: "server",
      x: middle.x - 56,
      y: middle.y - 18,
      width: 112,
      height: 36,
      rx: 8,
    });
    add(
      "text",
      { class: "small", x: middle.x, y: middle.y + 4, "text-anchor": "middle" },
      experiment.nameOf(size),
    );
  }
  const leaders = view.nodes.filter((node) => node.until > experiment.now).length;
  view.nodes.forEach((node, candidate) => {
    const { x, y } = place(candidate);
    stage.process(
      parts,
      add,
      experiment,
      node,
      candidate,
      x,
      y,
      selected.has(candidate),
      leaders > 1,
    );
  });
  return middle.y + radius + 86;
}

// A message between two nodes. A lost one ends half-way.
function drawPassage(add, message, now, place, isNamed) {
  const [from, to] = [place(message.from), place(message.to)];
  const part =
    ((now - message.sent) / Math.max(1, message.arrives - message.sent)) * (message.lost ? 0.5 : 1);
  const x = from.x + (to.x - from.x) * part,
    y = from.y + (to.y - from.y) * part;
  add("circle", {
    class: `message${message.beat ? " beat" : ""}${message.lost ? " lost" : ""}`,
    cx: x,
    cy: y,
    r: message.beat ? 3.5 : 5,
  });
  if (isNamed && !message.beat)
    add(
      "text",
      { class: message.lost ? "wrong-text small" : "small", x: x + 9, y: y + 4 },
      nameOfMessage(message.text),
    );
}

// The name of a message: the innermost one in its text, such as `Halt` in `Call { request: Halt }`.
const nameOfMessage = (text) => {
  const [, body] = /^[\d.]+ s: \d+ to \d+: (.*)$/.exec(text);
  return /\b(?:request|body): (\w+)/.exec(body)?.[1] ?? /^\w+/.exec(body)[0];
};
