// The address: scenario, seed, actions, and moment, so that a link shows what you saw.

// The number of a seed, or undefined if `text` is none.
function seedIn(text) {
  const seed = Number(text);
  return Number.isSafeInteger(seed) && seed > 0 ? seed : undefined;
}

function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return {
    name: fields.get("scenario") ?? "join",
    seed: seedIn(fields.get("seed")) ?? 1,
    actions: (fields.get("do") ?? "").split(",").filter(Boolean),
    now: Number(fields.get("t")) * SECOND || 0,
  };
}

function writeLink(experiment) {
  const fields = [`scenario=${experiment.name}`, `seed=${experiment.seed}`];
  if (experiment.actions.length > 0) fields.push(`do=${experiment.actions.join(",")}`);
  fields.push(`t=${experiment.now / SECOND}`);
  history.replaceState(null, "", `#${fields.join("&")}`);
}
