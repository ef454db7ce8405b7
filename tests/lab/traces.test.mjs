// Trace files of `make prove`: the page opens each at its violation, and shows two leaders in red.
// The violations come from mutants, deliberate bugs in copies of the machines.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { lab, open, seek, text } from "./browser.mjs";

const folder = process.env.MUTANT_TRACES;

for (const file of readdirSync(folder)) {
  const trace = path.join(folder, file),
    { violation } = JSON.parse(readFileSync(trace, "utf8"));
  lab(`${path.parse(file).name} is visible`, "scenario=join", async (page) => {
    await page.locator("#file").setInputFiles(trace);
    await page.waitForFunction(() => window.lab.experiment.name === "trace");
    const at = (violation.at / 1e9).toFixed(2);
    assert.equal(await text(page, "#clock"), `${at} s`, "it starts at the violation");
    const shown = await text(page, "#violation");
    assert.ok(shown.startsWith(`Violated at ${at} s: ${violation.property}.`), shown);
    assert.match(await page.locator("#log").innerText(), /claims token/);
    const overlaps = await page.evaluate(() => window.lab.timeline.cached.overlaps);
    const isNear = ([from, until]) => from - 1e9 < violation.at && violation.at <= until;
    assert.ok(overlaps.some(isNear), `${JSON.stringify(overlaps)} at ${violation.at}`);
  });
}

lab("a trace that is built in opens at once", "scenario=join", async (page) => {
  await open(page, "", pathToFileURL(process.env.TRACED_LAB).href);
  assert.equal(await text(page, "#title"), "A counterexample");
  assert.ok(await page.locator("#violation").isVisible());
});

lab("a file that is no trace is refused", "scenario=join", async (page) => {
  await page
    .locator("#file")
    .setInputFiles({ name: "notes.json", mimeType: "application/json", buffer: Buffer.from("{}") });
  await page.getByText("notes.json is not a trace of make prove.").waitFor();
  assert.equal(await text(page, "#title"), "Join and elect");
});

for (const [fault, change] of [
  ["an unknown process", (file) => file.records.push([9e9, "start", 5, null, null, ""])],
  ["no process", (file) => file.records.push([9e9, "start", null, null, null, ""])],
  ["a record without text", (file) => file.records.push([9e9, "start", 0, null, null])],
  ["no records", (file) => (file.records = [])],
]) {
  lab(`a trace with ${fault} leaves the page as it was`, "scenario=join&t=12", async (page) => {
    const file = {
      ...{ seed: 1, store: "record", candidates: [{}], faults: [], violation: null },
      records: [[0, "note", null, null, null, "text"]],
    };
    change(file);
    const buffer = Buffer.from(JSON.stringify(file));
    await page
      .locator("#file")
      .setInputFiles({ name: "t.json", mimeType: "application/json", buffer });
    await page.getByText("t.json is not a trace of make prove.").waitFor();
    await seek(page, 13);
    assert.equal(await text(page, "#title"), "Join and elect");
    assert.match(await text(page, "#summary"), /^a leads/);
  });
}

lab("a trace has no link and no other seed", "scenario=join", async (page) => {
  assert.ok(await page.locator("#copy").isVisible());
  const before = page.url();
  await page.locator("#file").setInputFiles(path.join(folder, "own-lease.json"));
  await page.waitForFunction(() => window.lab.experiment.name === "trace");
  assert.equal(await page.locator("#copy").isVisible(), false);
  assert.equal(await page.locator("#seed").isEditable(), false);
  assert.equal(page.url(), before);
});
