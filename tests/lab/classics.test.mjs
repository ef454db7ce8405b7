// Each classical algorithm ends in the page as in the native run: its leaders, whether two led at
// once, and its messages.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { inside, lab, open, press, seek, text } from "./browser.mjs";

// Lines of `lab-table --exhibits`: name, leaders, milliseconds with two leaders, messages of
// elections, and whether a resource took a late write: one that checks nothing, and one that
// checks tokens.
const native = readFileSync(process.env.EXHIBITS, "utf8")
  .trim()
  .split("\n")
  .map((line) => {
    const [, name, leaders, overlap, messages, late, byToken] =
      /^(\S+) \[(.*)\] (\d+) (\d+) (\d) (.*)$/.exec(line);
    return { name, leaders, overlap: Number(overlap), messages: Number(messages), late, byToken };
  });
const algorithms = [...new Set(native.map(({ name }) => name.split(".")[0]))];
assert.equal(algorithms.length, 12);

for (const algorithm of algorithms) {
  lab(`${algorithm} ends as the native run`, `scenario=${algorithm}.calm.5`, async (page) => {
    for (const run of native.filter(({ name }) => name.startsWith(`${algorithm}.`))) {
      await open(page, `scenario=${run.name}&seed=1`);
      assert.equal(await text(page, "#verdict"), "", "the verdict waits for the run");
      await page.evaluate(() => window.lab.seek(window.lab.experiment.end));
      const shown = await inside(page, () => {
        const { experiment, timeline } = window.lab;
        return {
          leaders: experiment.view.nodes
            .flatMap((node, candidate) => (node.until > experiment.now ? [candidate] : []))
            .join(", "),
          overlap:
            timeline.cached.overlaps.reduce((sum, [from, until]) => sum + until - from, 0) / 1e6,
          messages: experiment.records.filter((record) => record[1] === "sent").length,
          late: experiment.view.writes.some((write) => write.stale) ? "1" : "0",
        };
      });
      const is = `${run.name}: ${JSON.stringify(shown)}`;
      assert.equal(shown.leaders, run.leaders, is);
      assert.ok(Math.abs(shown.overlap - run.overlap) < 1, `${is}, ${run.overlap}`);
      assert.equal(shown.messages, run.messages, is);
      assert.equal(shown.late, run.late, is);
      const summary = await text(page, "#summary"),
        count = run.leaders.split(", ").filter(Boolean).length;
      assert.equal(/\blead\b/.test(summary), count > 1, summary);
      assert.equal(/\bleads\b/.test(summary), count === 1, summary);
      const isRed = await page.locator("#violation").isVisible();
      assert.equal(isRed, run.overlap > 0, is);
      const verdict =
        run.overlap === 0 ? "no" : count > 1 ? "until the end of the run" : "for a while";
      assert.ok(
        (await text(page, "#verdict")).startsWith(`It is: ${verdict}.`),
        `${is} ${await text(page, "#verdict")}`,
      );
      const resources = await text(page, "#resources");
      assert.equal(resources.includes("has no token"), run.byToken === "None", resources);
      assert.equal(resources.includes("data is lost"), run.late === "1", resources);
    }
  });
}

lab("faults and sizes are chosen by buttons", "scenario=raft.calm.5&seed=1", async (page) => {
  await press(page, "partition");
  await press(page, "9");
  assert.equal(await inside(page, () => window.lab.experiment.name), "raft.partition.9");
  assert.match(await text(page, "#lead"), /is partitioned from all others/);
  assert.equal(await page.locator("#scenarios [aria-current]").innerText(), "Raft");
});

lab("two leaders are red in the drawing", "scenario=raft.partition.5&seed=1", async (page) => {
  const red = () => page.locator("#stage .process.wrong").count();
  await seek(page, 4);
  assert.equal(await red(), 0);
  const [from] = await inside(page, () => {
    const { experiment } = window.lab;
    return [experiment.view.violation.at];
  });
  await seek(page, from / 1e9 + 0.01);
  assert.equal(await red(), 2);
});

lab(
  "a message is drawn between its two processes",
  "scenario=raft.crash.5&seed=1",
  async (page) => {
    const sent = await inside(page, () =>
      window.lab.experiment.records.find((record) => record[1] === "sent"),
    );
    await seek(page, (sent[0] + sent[4]) / 2 / 1e9);
    assert.ok((await page.locator("#stage .message:not(.beat)").count()) > 0);
    assert.match(await text(page, "#messages"), /RequestVote/);
  },
);
