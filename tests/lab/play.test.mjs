// Free play with random actions, time that runs and goes back, and equal traces.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { inside, lab, press, seek, text } from "./browser.mjs";

const VERBS = ["kill", "restart", "stop", "pause", "resume", "cut", "heal", "outage", "recover"];

for (const [name, own] of [
  ["free-play", "expire"],
  ["free-play-9", "expire"],
  ["free-play-record", "restore"],
]) {
  lab(
    `500 random actions in ${name} never give two leaders`,
    `scenario=${name}&seed=5`,
    async (page) => {
      const refused = await inside(
        page,
        (verbs) => {
          let state = 42,
            refused = 0;
          // Mulberry32, whose every bit is random.
          const draw = (below) => {
            state = (state + 0x6d2b79f5) | 0;
            let mixed = Math.imul(state ^ (state >>> 15), state | 1);
            mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
            return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
          };
          for (let done = 0; done < 500; done++) {
            window.lab.seek(window.lab.experiment.now + draw(1200) * 1e6);
            const candidate = draw(window.lab.experiment.size),
              verb = verbs[draw(verbs.length)];
            const action =
              verb === "restore"
                ? "restore:8"
                : /out|rec/.test(verb)
                  ? verb
                  : `${verb}:${candidate}`;
            if (window.lab.experiment.act(action)) refused++;
            window.lab.refresh();
          }
          return refused;
        },
        [...VERBS, own],
      );
      assert.ok(refused < 300, `${refused} of 500 actions made no sense`);
      assert.equal(await page.locator("#violation").isVisible(), false);
      assert.equal(await inside(page, () => window.lab.timeline.cached.overlaps.length), 0);
    },
  );
}

lab("the traces of 1,000 seeds equal the native ones", "scenario=join", async (page) => {
  const native = (await readFile(process.env.TRACES, "utf8"))
    .trim()
    .split("\n")
    .map((line) => line.split(" ")[1]);
  assert.equal(native.length, 1000);
  assert.deepEqual(await inside(page, () => window.lab.machine("hashes 0 1000")), native);
});

lab("a past moment looks as it did", "scenario=leader-dies&seed=4", async (page) => {
  const picture = () => page.locator("#stage").innerHTML();
  await seek(page, 16.3);
  const before = await picture();
  await seek(page, 28);
  assert.notEqual(await picture(), before);
  await seek(page, 16.3);
  assert.equal(await picture(), before);
});

lab("an action in the past forgets the future", "scenario=free-play&seed=1&t=10", async (page) => {
  await press(page, "the leader");
  await press(page, "Kill");
  await seek(page, 20);
  assert.match(await text(page, "#summary"), /b leads/);
  await seek(page, 9);
  await press(page, "Cut the link");
  await seek(page, 20);
  assert.match(await text(page, "#summary"), /a waits, cut off|a follows .*cut off/);
});

lab("time runs, slows for messages, and stops at the end", "scenario=join&seed=1", async (page) => {
  await page.locator("#speed").selectOption("16");
  await page.locator("#slow").uncheck();
  await press(page, "Play");
  await page.waitForFunction(() => window.lab.experiment.now === window.lab.experiment.end, null, {
    timeout: 20_000,
  });
  assert.equal(await text(page, "#play"), "Play");
});

lab(
  "steps skip heartbeats and go from message to message",
  "scenario=leader-dies&seed=1&t=12",
  async (page) => {
    await press(page, "Step");
    const passed = await inside(
      page,
      () => window.lab.experiment.position() - window.lab.experiment.position(12e9),
    );
    assert.ok(passed > 1, `${passed} records passed, and heartbeats are among them`);
    await seek(page, 16.25);
    await press(page, "Step");
    await press(page, "Step");
    assert.match(await text(page, "#messages"), /wakes b/);
  },
);

// Other work on the machine may take the processors for a while, so the best of ten seconds counts.
lab("the page keeps drawing while time runs", "scenario=free-play&seed=1&t=8", async (page) => {
  await press(page, "Play");
  let best = 0;
  for (let second = 0; second < 10 && best <= 20; second++) {
    const frames = await inside(page, async () => {
      const before = window.lab.frames,
        start = performance.now();
      await new Promise((resolve) => setTimeout(resolve, 1_000));
      return (window.lab.frames - before) / ((performance.now() - start) / 1000);
    });
    best = Math.max(best, frames);
  }
  console.log(`# ${best.toFixed(1)} frames a second`);
  assert.ok(best > 20, `${best} frames a second`);
});
