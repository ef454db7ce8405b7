// The address: scenario, seed, actions, and moment, so that a link shows what you saw.

function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1));
  const seed = Number(fields.get("seed"));
  return {
    name: fields.get("scenario") ?? "join",
    seed: Number.isSafeInteger(seed) && seed > 0 ? seed : 1,
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
