// Free play with random actions, time that runs and goes back, and equal traces.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { inside, lab, press, seek, text } from "./browser.mjs";

lab("500 random actions never give two leaders", "scenario=free-play&seed=5", async (page) => {
  const refused = await inside(page, () => {
    let state = 42, refused = 0;
    const draw = (below) => { state = (state * 1103515245 + 12345) % 2147483648; return state % below; };
    const verbs = ["kill", "restart", "stop", "pause", "resume", "cut", "heal", "outage", "recover"];
    for (let done = 0; done < 500; done++) {
      window.lab.seek(window.lab.experiment.now + draw(1200) * 1e6);
      const who = draw(5), verb = verbs[draw(verbs.length)];
      if (window.lab.experiment.act(/out|rec/.test(verb) ? verb : `${verb}:${who}`)) refused++;
      window.lab.refresh();
    }
    return refused;
  });
  assert.ok(refused < 350, `${refused} of 500 actions made no sense`);
  assert.equal(await page.locator("#violation").isVisible(), false);
  assert.equal(await inside(page, () => window.lab.timeline.cached.overlaps.length), 0);
});

lab("the traces of 1,000 seeds equal the native ones", "scenario=join", async (page) => {
  const native = (await readFile(process.env.TRACES, "utf8")).trim().split("\n").map((line) => line.split(" ")[1]);
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
  await page.waitForFunction(() => window.lab.experiment.now === window.lab.experiment.end, null, { timeout: 20_000 });
  assert.equal(await text(page, "#play"), "Play");
});

lab("steps go from message to message", "scenario=leader-dies&seed=1&t=16.25", async (page) => {
  await press(page, "Step");
  await press(page, "Step");
  assert.match(await text(page, "#messages"), /wakes b/);
});

lab("the page keeps drawing while time runs", "scenario=free-play&seed=1&t=8", async (page) => {
  await press(page, "Play");
  const frames = await inside(page, async () => {
    const before = window.lab.frames, start = performance.now();
    await new Promise((resolve) => setTimeout(resolve, 2_000));
    return (window.lab.frames - before) / ((performance.now() - start) / 1000);
  });
  console.log(`# ${frames.toFixed(1)} frames a second`);
  assert.ok(frames > 20, `${frames} frames a second`);
});

lab("the simulation is fast", "scenario=join", async (page) => {
  const [took, simulated] = await inside(page, () => {
    const start = performance.now();
    const simulated = window.lab.machine("simulate 0 300");
    return [(performance.now() - start) / 1000, simulated];
  });
  console.log(`# ${Math.round(simulated / took)} simulated seconds a second`);
  assert.ok(simulated / took > 20_000);
});
