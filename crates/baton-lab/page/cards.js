// The cards: the last two messages, the cost of the last death, the writes, the verdict, the log.

function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

// The last two events of the run that are more than heartbeats, newest first.
function drawMessages(list, experiment) {
  const shown = [];
  for (let index = experiment.position() - 1; index >= 0 && shown.length < 2; index--) {
    const record = experiment.records[index];
    if (!["sent", "watch", "performed"].includes(record[1]) || !record[5]) continue;
    const text = tidy(record[5]).replace(/^\d+\.\d+ s: /, "");
    if (
      isHeartbeat(
        text.replace(/^the store performs for \w: ([^:]*):.*/, "$1").replace(/^\w (> )?/, ""),
      )
    )
      continue;
    shown.push(
      element(
        "li",
        "",
        element("b", "", heading(record, experiment.info.store === "network" && experiment)),
        element("span", "", `${(record[0] / SECOND).toFixed(2)} s: ${text}`),
      ),
    );
  }
  list.replaceChildren(
    ...(shown.length ? shown : [element("li", "", element("span", "", "None yet."))]),
  );
}

function heading([, kind, candidate, to], network) {
  if (network) return `${network.nameOf(candidate)} to ${network.nameOf(to)}`;
  if (kind === "watch") return `The store wakes ${letter(candidate)}`;
  return kind === "sent"
    ? `${letter(candidate)} asks the store`
    : `The store answers ${letter(candidate)}`;
}

function drawCosts(card, experiment) {
  const { store } = experiment.info,
    isQueue = store === "queue";
  card.parentElement.hidden = !(isQueue || store === "network") || !experiment.view;
  card.previousElementSibling.textContent = isQueue ? "What this death cost" : "Messages so far";
  if (card.parentElement.hidden) return;
  if (!isQueue) return drawCounts(card, experiment);
  const death = lastDeath(experiment);
  if (!death) return card.replaceChildren(element("p", "note", "No process has died yet."));
  const { others, ...baton } = countCosts(experiment, death.at, experiment.now);
  const table = element("table", "");
  table.append(element("thead", "", tableRow("th", "", "woken", "reads", "writes")));
  const body = element("tbody", "");
  for (const [label, costs] of [
    ["This queue", baton],
    ["All watch the leader (the herd)", herdCosts(death.alive, death.leaderDied)],
    ["All race for one znode", raceCosts(death.alive, death.leaderDied)],
  ])
    body.append(tableRow("td", label, costs.woken, costs.reads, costs.writes));
  table.append(body);
  const candidate = death.dying.map(letter).join(" and ");
  card.replaceChildren(
    element(
      "p",
      "note",
      prose`${candidate} at ${(death.at / SECOND).toFixed(1)} s, counted until now. The other two
        rows follow their recipes for the same death.`,
    ),
    table,
    element(
      "p",
      "note",
      prose`The processes also read ${others} times, to learn the leader’s name and to check their
        watches. No election needs these reads.`,
    ),
  );
}

// The messages of a classical algorithm, before and after its fault.
function drawCounts(card, experiment) {
  const fault = experiment.info.faults[0] ?? Infinity,
    shown = experiment.position();
  const count = (kind, isLater) => {
    let sum = 0;
    for (let index = 0; index < shown; index++) {
      const record = experiment.records[index];
      if (record[1] === kind && record[0] >= fault === isLater) sum++;
    }
    return sum;
  };
  const table = element("table", ""),
    body = element("tbody", "");
  table.append(element("thead", "", tableRow("th", "", "before the fault", "since")), body);
  body.append(tableRow("td", "Of elections", count("sent", false), count("sent", true)));
  body.append(tableRow("td", "Signs of life", count("beat", false), count("beat", true)));
  card.replaceChildren(table);
}

function tableRow(cell, label, ...values) {
  const row = element("tr", "", element("th", "", label));
  row.append(...values.map((value) => element(cell, "", String(value))));
  return row;
}

function drawResources(panel, experiment) {
  const writes = experiment.view?.writes;
  panel.hidden = !writes;
  if (!writes) return;
  const cards = [
    ["A resource that checks the token", true],
    ["A resource that does not", false],
  ].map(([title, checks]) => {
    const list = element("ol", "writes");
    const late = writes.filter((write) => write.stale).slice(-4);
    for (const write of writes.filter(
      (write, index) => late.includes(write) || index > writes.length - 4,
    )) {
      const token = write.token === null ? "" : `, token ${write.token}`;
      const verdict = !write.stale
        ? "accepted"
        : checks
          ? "refused"
          : "accepted: the new leader’s data is lost";
      list.append(
        element(
          "li",
          "",
          `${seconds(write.at)}: ${experiment.nameOf(write.candidate)}${token}: `,
          element("span", write.stale ? (checks ? "good" : "bad") : "", verdict),
        ),
      );
    }
    if (checks && writes.some((write) => write.token === null))
      return element(
        "section",
        "card",
        element("h2", "", title),
        element("p", "note", "This algorithm has no token that a resource could check."),
      );
    return element(
      "section",
      "card",
      element("h2", "", title),
      writes.length ? list : element("p", "note", "No write yet."),
    );
  });
  panel.replaceChildren(...cards);
}

// The question first, and the verdict when the run has shown it.
function drawPrediction(form, experiment, scenario, chosen) {
  const verdict = form.querySelector("#verdict");
  if (!scenario?.question) return;
  if (!experiment.view || experiment.actions.length > 0 || !scenario.settled(experiment)) {
    verdict.replaceChildren();
    return;
  }
  const [right, text] = scenario.answer(experiment);
  const judged =
    chosen === null
      ? `It is: ${scenario.choices[right]}. `
      : chosen === right
        ? "You were right. "
        : `It is: ${scenario.choices[right]}. `;
  if (verdict.textContent !== judged + text)
    verdict.replaceChildren(element("strong", "", judged), text);
}

function drawLog(log, experiment) {
  if (!log.parentElement.open) return;
  const until = experiment.position(),
    lines = [];
  for (let index = Math.max(0, until - 400); index < until; index++) {
    if (experiment.records[index][5]) lines.push(experiment.records[index][5]);
  }
  const text = lines.join("\n");
  if (log.textContent !== text) {
    log.textContent = text;
    log.scrollTop = log.scrollHeight;
  }
}
