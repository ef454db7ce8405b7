// What a timeline shows, computed from records: intervals of each process, and their overlaps.

// Returns, for each candidate, its intervals by kind: `[from, until, detail, record]`.
function intervalsOf(experiment) {
  const lanes = Array.from({ length: experiment.size }, () => ({
    up: [],
    claim: [],
    promise: [],
    pause: [],
    cut: [],
    clock: [],
  }));
  const store = [];
  const close = (list, at) => {
    const last = list.at(-1);
    if (last && last[1] > at) last[1] = at;
  };
  const shown = experiment.position(experiment.horizon);
  for (let index = 0; index < shown; index++) {
    const [at, kind, candidate, detail, until] = experiment.records[index];
    if (candidate >= experiment.size) continue;
    const lane = lanes[candidate];
    switch (kind) {
      case "start":
        lane.up.push([at, Infinity, "runs", index]);
        break;
      case "exit":
        close(lane.up, at);
        close(lane.claim, at);
        close(lane.promise, at);
        // A process that starts again is not paused any more.
        for (const pause of lane.pause) close([pause], at);
        break;
      case "claim": {
        const last = lane.claim.at(-1);
        if (last && last[1] >= at && last[2] === detail) last[1] = until;
        else lane.claim.push([at, until, detail, index]);
        break;
      }
      case "claim-end":
        close(lane.claim, at);
        break;
      case "promise": {
        const last = lane.promise.at(-1);
        if (last && last[1] >= at) last[1] = Math.max(last[1], until);
        else lane.promise.push([at, until, detail, index]);
        break;
      }
      case "role":
        if (experiment.info.store !== "network" || !lane) break;
        close(lane.claim, at);
        if (detail === "leads") lane.claim.push([at, experiment.end, detail, index]);
        break;
      case "clock":
        close(lane.clock, at);
        if (detail) lane.clock.push([at, Infinity, detail, index]);
        break;
      case "fault":
        if (detail === "pause" || detail === "freeze" || detail === "stall")
          lane.pause.push([at, until, detail, index]);
        if (detail === "link" || detail === "watch") lane.cut.push([at, until, detail, index]);
        if (detail === "store" || detail === "server") store.push([at, until, "fault", index]);
        if (detail === "external") store.push([at, at, "external", index]);
        break;
      // In a classical algorithm, the record of a fault's start does not contain its end.
      case "fault-end":
        if (experiment.info.store === "network" && lane)
          close(detail === "pause" ? lane.pause : lane.cut, at);
        break;
      case "holder":
        store.push([at, at, "holder", index]);
        break;
      case "performed":
        if (until) store.push([at, at, "version", index]);
        break;
    }
  }
  return { lanes, store, overlaps: overlapsOf(lanes) };
}

// When two candidates claim or promise leadership at once.
function overlapsOf(lanes) {
  const held = lanes.flatMap((lane, candidate) =>
    [...lane.claim, ...lane.promise].map(([from, until]) => [from, until, candidate]),
  );
  held.sort((one, other) => one[0] - other[0]);
  const overlaps = [];
  for (let index = 0; index < held.length; index++) {
    for (let other = index + 1; other < held.length && held[other][0] < held[index][1]; other++) {
      if (held[other][2] === held[index][2]) continue;
      const [from, until] = [held[other][0], Math.min(held[index][1], held[other][1])];
      const last = overlaps.at(-1);
      if (last && from <= last[1]) last[1] = Math.max(last[1], until);
      else overlaps.push([from, until]);
    }
  }
  return overlaps;
}
