// What a death costs: counted from the run, and by the rules of two naive recipes for the same
// death.

// The watch events and writes between two moments of a run; the reads of each process from its
// watch event until it watches again; and, apart from these, the other reads.
function countCosts(experiment, from, until) {
  const costs = { woken: 0, reads: 0, writes: 0, others: 0 },
    awake = new Set();
  for (let index = experiment.position(from - 1); index < experiment.position(until); index++) {
    const [, kind, candidate, verb, , text] = experiment.records[index];
    if (kind === "watch" && text.includes("watch fired")) {
      costs.woken++;
      awake.add(candidate);
    }
    if (kind !== "sent") continue;
    if (verb === "create" || verb === "replace") costs.writes++;
    if (verb !== "list" && verb !== "read") continue;
    if (awake.has(candidate) && !text.includes("read the leader")) costs.reads++;
    else costs.others++;
    if (text.includes("> watch")) awake.delete(candidate);
  }
  return costs;
}

// All watch the znode of the leader. When it goes, each lists the queue, and all but the
// new leader watch that leader's znode.
function herdCosts(alive, leaderDied) {
  const costs = { woken: 0, reads: 0, writes: 0 };
  if (!leaderDied) return costs;
  for (let survivor = 0; survivor < alive; survivor++) {
    costs.woken++;
    costs.reads++;
    if (survivor > 0) costs.reads++;
  }
  return costs;
}

// All watch one lock znode. When it goes, each tries to create it, one succeeds, and the
// others watch it again.
function raceCosts(alive, leaderDied) {
  const costs = { woken: 0, reads: 0, writes: 0 };
  if (!leaderDied) return costs;
  for (let survivor = 0; survivor < alive; survivor++) {
    costs.woken++;
    costs.writes++;
    if (survivor > 0) costs.reads++;
  }
  return costs;
}

// Whether a process ends, or its session.
const isDeath = (record) =>
  record[1] === "exit" || (record[1] === "fault" && record[3] === "external");

// The last death before the present moment: when, candidate, whether the leader died, and how many
// survived it.
function lastDeath(experiment) {
  let last = experiment.position() - 1;
  while (last >= 0 && !isDeath(experiment.records[last])) last--;
  const leaders = new Set(),
    alive = new Set();
  let death = null;
  for (let index = 0; index <= last; index++) {
    const [at, kind, candidate, detail, , text] = experiment.records[index];
    if (kind === "start") alive.add(candidate);
    if (kind === "claim") leaders.add(candidate);
    if (kind === "claim-end" || (kind === "role" && detail !== "leads")) leaders.delete(candidate);
    const expired =
      kind === "fault" && detail === "external" && /closes the session of (\w)/.exec(text);
    if (kind === "exit" || expired) {
      const dead = expired ? expired[1].charCodeAt(0) - 97 : candidate;
      const joins = death && at - death.at < 1e6;
      const leaderDied = leaders.has(dead) || (joins && death.leaderDied);
      if (kind === "exit") alive.delete(dead);
      leaders.delete(dead);
      const dying = joins ? [...death.dying, dead] : [dead];
      death = {
        at: joins ? death.at : at,
        dying,
        leaderDied,
        alive: alive.size - (expired ? 1 : 0),
      };
    }
  }
  return death;
}
