// What a person can do: choose processes, then act on all of them at the same moment.

const ACTIONS = [
  ["kill", "Kill"],
  ["restart", "Restart"],
  ["stop", "Stop cleanly"],
  ["pause", "Pause"],
  ["resume", "Resume"],
  ["cut", "Cut the link"],
  ["heal", "Heal the link"],
  ["expire", "Expire the session"],
];

// The owners of the znodes, in the order of the queue; of a record, the running processes with the
// leader first.
function orderOf(experiment) {
  const { store, nodes } = experiment.view;
  if (store.kind === "queue")
    return store.znodes.map((znode) => znode.owner).filter((owner) => owner !== null);
  const running = nodes
    .map((node, candidate) => candidate)
    .filter((candidate) => nodes[candidate].identity !== null);
  const leads = (candidate) => (nodes[candidate].until > experiment.now ? 0 : 1);
  return running.sort((one, other) => leads(one) - leads(other) || one - other);
}

const CHOICES = [
  ["the leader", (order) => order.slice(0, 1)],
  ["the second smallest", (order) => order.slice(1, 2)],
  ["the largest", (order) => order.slice(-1)],
  [
    "two that are not neighbors",
    (order) => [order[1], order[3]].filter((candidate) => candidate !== undefined),
  ],
  ["none", () => []],
];

// Fills the panel. `choose` gets a list of processes, and `act` the verb of an action on all of
// them.
function drawActions(panel, experiment, selected, { choose, toggle, act, open }) {
  if (!experiment.view) return panel.replaceChildren();
  const button = (label, onclick, attributes = {}) => {
    const element = document.createElement("button");
    Object.assign(element, { type: "button", textContent: label, onclick });
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };
  const row = (title, ...buttons) => {
    const element = document.createElement("div"),
      name = document.createElement("span");
    name.textContent = title;
    Object.assign(element, { className: "row", role: "group", ariaLabel: title });
    element.append(name, ...buttons);
    return element;
  };
  if (experiment.info.store === "network") {
    const [algorithm, fault, size] = experiment.name.split(".");
    const option = (label, name) =>
      button(label, () => open(name), { "aria-pressed": name === experiment.name });
    return panel.replaceChildren(
      row("Fault", ...FAULTS.map(([name, label]) => option(label, `${algorithm}.${name}.${size}`))),
      row(
        "Processes",
        ...SIZES.map((count) => option(String(count), `${algorithm}.${fault}.${count}`)),
      ),
    );
  }
  const isQueue = experiment.info.store === "queue";
  const processes = experiment.view.nodes.map((_, candidate) =>
    button(letter(candidate), () => toggle(candidate), {
      class: "process",
      "aria-pressed": selected.has(candidate),
      "data-candidate": candidate,
    }),
  );
  const buttons = ACTIONS.filter(([verb]) => verb !== "expire" || isQueue).map(([verb, label]) =>
    button(label, () => act(verb), { "data-verb": verb }),
  );
  for (const button of buttons) button.disabled = selected.size === 0;
  panel.replaceChildren(
    row(
      "Choose",
      ...processes,
      ...CHOICES.filter(([label]) => isQueue || !/smallest|neighbors|largest/.test(label)).map(
        ([label, pick]) => button(label, () => choose(pick(orderOf(experiment)))),
      ),
    ),
    row("Then", ...buttons),
    row(
      "The store",
      button("Outage", () => act("outage"), { "data-verb": "outage" }),
      button("End the outage", () => act("recover"), { "data-verb": "recover" }),
      ...(isQueue
        ? []
        : [button("Restore a backup", () => act("restore:8"), { "data-verb": "restore" })]),
    ),
  );
}
