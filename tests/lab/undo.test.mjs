// Each fault can be ended, also a scripted one, and the timeline shows it as long as it lasts.

import assert from "node:assert/strict";
import { inside, lab, press, seek, text } from "./browser.mjs";

for (const [name, at, verb, before] of [
  ["leader-dies", 12, "Restart", /a is down/],
  ["crash", 12, "Restart", /a is down/],
  ["handoff", 14, "Restart", /a is down/],
  ["long-partition", 12, "Heal the link", /a [^;]*cut off/],
  ["short-partition", 10.5, "Heal the link", /a [^;]*cut off/],
  ["paused-leader", 12, "Resume", /a is paused/],
]) {
  lab(`${verb} ends the fault of ${name}`, `scenario=${name}&seed=1&t=${at}`, async (page) => {
    assert.match(await text(page, "#summary"), before);
    await press(page, "a");
    await press(page, verb);
    await seek(page, at + 0.5);
    assert.doesNotMatch(await text(page, "#summary"), before);
    assert.doesNotMatch(await text(page, "#summary"), /down|paused|cut/);
  });
}

lab("End the outage ends that of a scenario", "scenario=outage&seed=1&t=12", async (page) => {
  await press(page, "End the outage");
  await seek(page, 20);
  const answered = await inside(page, () =>
    window.lab.experiment.records.some((it) => it[1] === "performed" && it[0] > 12e9),
  );
  assert.ok(answered);
});

// The intervals of the first process, and the cause of its state at a second.
const lane = (page) => inside(page, () => window.lab.timeline.cached.lanes[0]);
const hash = (actions, until) => `scenario=free-play&seed=1&do=${actions}&t=${until}`;

lab(
  "a resumed process stays cut off",
  hash("cut:0@3000000,pause:0@4000000,resume:0@5000000", 8),
  async (page) => {
    const { cut, pause } = await lane(page);
    assert.ok(cut[0][1] > 8e9, `cut off until ${cut[0][1]}`);
    assert.deepEqual(
      pause.map(([from, until]) => [from, until]),
      [[4e9, 5e9]],
    );
  },
);

lab(
  "a fault of servers is no fault of a process",
  hash("outage@3000000,cut:0@4000000,recover@6000000", 8),
  async (page) => {
    const { cut } = await lane(page);
    assert.ok(cut[0][1] > 8e9, `cut off until ${cut[0][1]}`);
    const box = await page.locator("#timeline").boundingBox();
    await page.locator("#timeline").focus();
    const causes = [];
    for (let presses = 0; presses < 40; presses++) {
      causes.push(await text(page, "#cause"));
      await page.keyboard.press("ArrowLeft");
    }
    assert.ok(
      causes.some((cause) => /^a: /.test(cause)),
      `${box.width} ${causes[0]}`,
    );
    assert.deepEqual(
      causes.filter((cause) => /server/.test(cause)),
      [],
    );
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("End");
    assert.match(await text(page, "#cause"), /^store: /);
  },
);

lab(
  "a process that starts again is not shown as paused",
  hash("pause:0@4000000,kill:0@5000000,restart:0@7000000", 9),
  async (page) => {
    const { pause } = await lane(page);
    assert.deepEqual(
      pause.map(([from, until]) => [from, until]),
      [[4e9, 5e9]],
    );
  },
);
