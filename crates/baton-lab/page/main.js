// The page: holds the experiment, lets time pass, and draws.

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
// Slow motion while a message that matters is on its way.
const SLOW = 0.06;

class Page {
  constructor(machine) {
    Object.assign(this, { machine, selected: new Set(), playing: false, chosen: null, frames: 0 });
    this.stage = new Stage($("stage"), (candidate) => this.toggle(candidate));
    this.timeline = new TimeLine($("timeline"), $("cause"));
    this.listen();
    this.drawTabs();
    const trace = $("trace").textContent.trim();
    if (trace !== "null") this.openTrace(JSON.parse(trace));
    else this.follow();
  }

  // Opens the scenario in the address.
  follow() {
    const { name, seed, actions, now } = readLink();
    this.open(scenarioOf(name) || name === "prove" ? name : "join", seed, actions, now);
  }

  open(name, seed, actions = [], now = 0) {
    this.experiment = new Experiment(this.machine, name, seed);
    if (actions.length > 0) this.experiment.reopen(actions);
    this.experiment.seek(now);
    this.show();
  }

  // An invalid file throws before the page has changed.
  openTrace(file) {
    const trace = new Trace(file);
    intervalsOf(trace);
    this.experiment = trace;
    this.show();
  }

  // Shows another experiment.
  show() {
    const { experiment } = this;
    Object.assign(this, { playing: false, chosen: null, scenario: scenarioOf(experiment.name) });
    this.selected.clear();
    const { scenario } = this;
    document.querySelector(".log").open = experiment.name === "trace";
    $("title").textContent =
      scenario?.title ??
      (experiment.name === "trace" ? "A counterexample" : `Seed ${experiment.seed} of make prove`);
    const lead = typeof scenario?.lead === "function" ? scenario.lead(experiment) : scenario?.lead;
    $("lead").textContent =
      lead ??
      (experiment.name === "trace"
        ? `Seed ${experiment.seed}, as make prove recorded it.`
        : "A scenario of the simulator, with the machines that ship.");
    $("prediction").hidden = !scenario?.question && !scenario?.exercises;
    $("question").textContent = scenario?.question ?? "Exercises";
    const choices = scenario?.choices?.map((label, index) => {
      const radio = Object.assign(document.createElement("input"), {
        type: "radio",
        name: "choice",
        value: index,
        onchange: () => {
          this.chosen = index;
          this.draw();
        },
      });
      return element("label", "", radio, label);
    });
    $("choices").replaceChildren(
      ...(choices ?? scenario?.exercises?.map((text) => element("span", "", text)) ?? []),
    );
    $("verdict").replaceChildren();
    $("seed").value = experiment.seed;
    $("copied").textContent = "";
    // A recorded trace has one seed, and does not fit into a link.
    $("seed").readOnly = $("copy").hidden = !experiment.view;
    $("resources").hidden = true;
    // The fault of a classical algorithm is chosen before the prediction.
    (experiment.info.store === "network"
      ? $("prediction")
      : document.querySelector(".cards")
    ).before($("actions"));
    this.drawNavigation();
    this.drawLegend();
    this.refresh();
  }

  // Draws everything, the controls included.
  refresh() {
    this.drawActions();
    this.draw();
    if (this.experiment.view) writeLink(this.experiment);
  }

  // Draws the moment; the cards only if they are due, since a person reads them more slowly.
  draw(withCards = true) {
    const { experiment } = this;
    this.frames++;
    $("clock").textContent = `${(experiment.now / SECOND).toFixed(2)} s`;
    $("play").textContent = this.playing ? "Pause" : "Play";
    const scrub = $("scrub");
    scrub.value = Math.round((1000 * experiment.now) / experiment.end);
    scrub.setAttribute("aria-valuetext", `${(experiment.now / SECOND).toFixed(1)} seconds`);
    this.stage.draw(experiment, this.selected);
    const summary = summarize(experiment);
    if ($("summary").textContent !== summary) $("summary").textContent = summary;
    this.timeline.draw(experiment);
    if (withCards) this.drawCards();
  }

  drawCards() {
    const { experiment } = this;
    drawMessages($("messages"), experiment);
    drawCosts($("costs"), experiment);
    drawResources($("resources"), experiment);
    drawPrediction($("prediction"), experiment, this.scenario, this.chosen);
    drawLog($("log"), experiment);
    this.drawViolation();
  }

  drawViolation() {
    const violation = this.experiment.view
      ? this.experiment.view.violation
      : this.experiment.violation;
    const isSeen = violation && violation.at <= this.experiment.horizon;
    $("violation").hidden = !isSeen;
    const at = isSeen && `${(violation.at / SECOND).toFixed(2)} s`;
    const isClassic = this.experiment.info.store === "network";
    const text = !isSeen
      ? ""
      : isClassic
        ? `Two processes lead at once from ${at} on: ${violation.detail}.`
        : `Violated at ${at}: ${violation.property}. Here, ${violation.detail}.`;
    if ($("violation").textContent !== text) $("violation").textContent = text;
  }

  drawActions() {
    const choose = (list) => {
      this.selected = new Set(list);
      this.refresh();
    };
    const focused =
      document.activeElement?.closest("#actions") && document.activeElement.textContent;
    drawActions($("actions"), this.experiment, this.selected, {
      choose,
      toggle: (candidate) => this.toggle(candidate),
      act: (verb) => this.act(verb),
      open: (name) => this.open(name, this.experiment.seed),
    });
    if (focused)
      [...$("actions").querySelectorAll("button")]
        .find((it) => it.textContent === focused && !it.disabled)
        ?.focus();
  }

  drawTabs() {
    const tabs = TABS.map(({ name, title }) => {
      const tab = Object.assign(document.createElement("button"), {
        type: "button",
        textContent: title,
        onclick: () => this.open(scenariosIn(name)[0].name, 1),
      });
      tab.dataset.tab = name;
      return tab;
    });
    $("tabs").replaceChildren(...tabs);
  }

  drawNavigation() {
    const tab = this.scenario?.tab ?? this.experiment.info.store;
    for (const button of $("tabs").children) {
      if (button.dataset.tab === tab) button.setAttribute("aria-current", "page");
      else button.removeAttribute("aria-current");
    }
    const shown = scenariosIn(tab),
      isCurrent = (it) => it.title === this.scenario?.title;
    const hasFocus = $("scenarios").contains(document.activeElement);
    $("scenarios").replaceChildren(
      ...shown.map((it) => {
        const link = Object.assign(document.createElement("a"), {
          href: `#scenario=${it.name}`,
          textContent: it.title,
        });
        if (isCurrent(it)) link.setAttribute("aria-current", "page");
        return element("li", "", link);
      }),
    );
    if (hasFocus) $("scenarios").querySelector("[aria-current]")?.focus();
    $("choose").replaceChildren(
      ...shown.map((it) => new Option(it.title, it.name, false, isCurrent(it))),
    );
  }

  drawLegend() {
    const roles =
      this.experiment.info.store === "network"
        ? [["promise", "leads"]]
        : [
            ["claim", "holds a claim"],
            ["promise", "promises leadership"],
          ];
    const entries = [...roles, ["pause", "paused"], ["cut", "cut off"], ["overlap", "two leaders"]];
    $("legend").replaceChildren(
      ...entries.map(([name, text]) => element("li", "", element("i", name), text)),
    );
  }

  toggle(candidate) {
    if (!this.selected.delete(candidate)) this.selected.add(candidate);
    this.refresh();
  }

  // Acts on the store, or on each chosen process at this moment.
  act(verb) {
    const isOfStore = /^(outage|recover|restore)/.test(verb);
    const actions = isOfStore
      ? [verb]
      : [...this.selected].sort().map((candidate) => `${verb}:${candidate}`);
    const refusals = actions.flatMap((action) => {
      const error = this.experiment.act(action);
      if (!error) return [];
      return isOfStore ? [error] : [`${letter(Number(action.split(":")[1]))}: ${error}`];
    });
    this.refresh();
    if (refusals.length > 0) this.timeline.say(`${refusals.join("; ")}.`);
  }

  seek(now) {
    this.experiment.seek(now);
    this.draw();
    if (this.experiment.view) writeLink(this.experiment);
  }

  play() {
    this.playing = !this.playing;
    if (this.playing && this.experiment.now >= this.experiment.end) this.experiment.seek(0);
    this.lastFrame = undefined;
    this.refresh();
    if (this.playing) requestAnimationFrame((time) => this.frame(time));
  }

  step() {
    this.playing = false;
    this.experiment.seek(this.experiment.next());
    this.refresh();
  }

  frame(time) {
    if (!this.playing) return;
    const passed = Math.min(time - (this.lastFrame ?? time), 100) / 1000;
    this.lastFrame = time;
    this.experiment.seek(this.experiment.now + passed * this.pace() * SECOND);
    if (this.experiment.now >= this.experiment.end) this.playing = false;
    const isDue = !(time - this.lastCards < 120);
    if (isDue) this.lastCards = time;
    if (this.playing) this.draw(isDue);
    else this.refresh();
    requestAnimationFrame((next) => this.frame(next));
  }

  // Simulated seconds per second.
  pace() {
    const speed = Number($("speed").value),
      { view, now } = this.experiment;
    const matters = view?.messages.some(
      (it) => it.sent <= now && it.arrives - it.sent < SECOND && !it.beat && !isHeartbeat(it.text),
    );
    const slow = view.store.kind === "network" ? SLOW / 5 : SLOW;
    return $("slow").checked && !calm.matches && matters ? speed * slow : speed;
  }

  listen() {
    document.querySelector(".skip").onclick = (event) => {
      event.preventDefault();
      $("experiment").focus();
    };
    $("play").onclick = () => this.play();
    $("step").onclick = () => this.step();
    $("restart").onclick = () => {
      this.playing = false;
      this.seek(0);
      this.refresh();
    };
    $("scrub").oninput = (event) => {
      this.playing = false;
      this.seek((this.experiment.end * event.target.value) / 1000);
    };
    $("scrub").onchange = () => this.refresh();
    $("timeline").onclick = (event) => {
      this.playing = false;
      this.seek(this.timeline.time(this.experiment, event.offsetX));
      this.refresh();
    };
    $("choose").onchange = (event) => this.open(event.target.value, 1);
    $("seed").onchange = (event) => {
      const seed = seedIn(event.target.value);
      if (seed) this.open(this.experiment.name, seed);
      else {
        event.target.value = this.experiment.seed;
        $("copied").textContent = `A seed is a whole number from 1 to ${Number.MAX_SAFE_INTEGER}.`;
      }
    };
    $("copy").onclick = () => this.copy();
    $("file").onchange = (event) => this.read(event.target.files[0]);
    document.querySelector(".log").ontoggle = () => drawLog($("log"), this.experiment);
    $("prediction").onsubmit = (event) => event.preventDefault();
    addEventListener("hashchange", () => this.follow());
    addEventListener("resize", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").onchange = () => {
      this.timeline.colors = null;
      this.draw();
    };
    addEventListener("dragover", (event) => {
      event.preventDefault();
      document.body.classList.add("drop");
    });
    addEventListener("dragleave", () => document.body.classList.remove("drop"));
    addEventListener("drop", (event) => {
      event.preventDefault();
      document.body.classList.remove("drop");
      this.read(event.dataTransfer.files[0]);
    });
  }

  async copy() {
    writeLink(this.experiment);
    try {
      await navigator.clipboard.writeText(location.href);
      $("copied").textContent = "Copied.";
    } catch {
      $("copied").textContent = "The link is in the address bar.";
    }
  }

  async read(file) {
    if (!file) return;
    try {
      this.openTrace(JSON.parse(await file.text()));
    } catch {
      $("copied").textContent = `${file.name} is not a trace of make prove.`;
    }
  }
}

const TABS = [
  { name: "queue", title: "Queue: ZooKeeper" },
  { name: "record", title: "Record: Lease, file, etcd" },
  { name: "classics", title: "Classics" },
];

startMachine().then((machine) => {
  window.lab = new Page(machine);
});
