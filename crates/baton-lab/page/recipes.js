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

// The deaths that the records show, oldest first: when, which candidates, whether the leader died,
// and how many survived. The end of a session counts as a death. Each call goes on where the last
// one has stopped.
function deathsOf(experiment) {
  const { records } = experiment;
  experiment.deaths ??= { seen: 0, alive: new Set(), leaders: new Set(), list: [] };
  const { alive, leaders, list } = experiment.deaths;
  for (let index = experiment.deaths.seen; index < records.length; index++) {
    const [at, kind, candidate, detail, , text] = records[index];
    if (kind === "start") alive.add(candidate);
    else if (kind === "claim") leaders.add(candidate);
    else if (kind === "claim-end" || (kind === "role" && detail !== "leads"))
      leaders.delete(candidate);
    else if (kind === "exit") {
      alive.delete(candidate);
      addDeath(list, at, candidate, leaders.delete(candidate), alive.size);
    } else if (kind === "fault" && detail === "external") {
      const expired = /closes the session of (\w)/.exec(text)?.[1].charCodeAt(0) - 97;
      if (expired >= 0) addDeath(list, at, expired, leaders.delete(expired), alive.size - 1);
    }
  }
  experiment.deaths.seen = records.length;
  return list;
}

// Deaths within a millisecond count as one.
function addDeath(list, at, candidate, leaderDied, alive) {
  const last = list.at(-1);
  if (!last || at - last.at >= 1e6) list.push({ at, dying: [candidate], leaderDied, alive });
  else {
    last.dying.push(candidate);
    Object.assign(last, { leaderDied: last.leaderDied || leaderDied, alive });
  }
}

// The last death before the present moment.
const lastDeath = (experiment) =>
  deathsOf(experiment).findLast((death) => death.at <= experiment.now);
