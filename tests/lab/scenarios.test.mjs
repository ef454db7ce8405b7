// Each scenario ends as its verdict and its picture say, and the exercises of a course succeed.

import assert from "node:assert/strict";
import { lab, open, press, seek, text } from "./browser.mjs";

// The scenario, its last second, candidate leads there, and a part of the verdict.
const ENDS = [
  ["join", 12, "a leads; b, c, d, e follow a.", "the first to join"],
  ["leader-dies", 21, "a is down; b leads; c, d, e follow b.", "exactly one"],
  ["mid-chain", 21, "a leads; b, d, e follow a; c is down.", "watch the next znode ahead"],
  ["crash", 24, "a is down;", "about 6 s later"],
  ["handoff", 17, "a is down;", "when the last promise has expired"],
  ["short-partition", 18, "a leads; b, c follow a.", "It is: no"],
  ["long-partition", 30, "", "before the new leader starts"],
  ["paused-leader", 30, "", "“not leading”, at once"],
  ["drift-within", 28, "", "It is: no"],
  ["drift-beyond", 28, "", "It is: yes"],
  ["restored-store", 26, "", "It is: end its term."],
  ["outage", 36, "", "none, after the claim has ended"],
  ["fencing", 30, "", "only the one that checks the token refuses it"],
];

for (const [name, end, summary, verdict] of ENDS) {
  lab(`${name} ends as predicted`, `scenario=${name}&seed=1`, async (page) => {
    assert.equal(await text(page, "#verdict"), "", "the verdict waits for the run");
    await seek(page, end);
    const shown = await text(page, "#summary");
    assert.ok(shown.startsWith(summary), shown);
    assert.match(shown, /\bleads\b/);
    const judged = await text(page, "#verdict");
    assert.ok(judged.includes(verdict), judged);
    const isRed = await page.locator("#violation").isVisible();
    assert.equal(isRed, name === "drift-beyond", "only clocks beyond the bound break exclusion");
  });
}

// The terms that began, as the time and the candidate.
const terms = (page) =>
  page.evaluate(() =>
    window.lab.experiment.records
      .filter((record) => record[1] === "role" && record[3] === "leads")
      .map((record) => [record[0] / 1e9, record[2]]),
  );

lab(
  "a restored store ends the term at once",
  "scenario=restored-store&seed=1&t=12",
  async (page) => {
    assert.match(await text(page, "#summary"), /wait/);
    assert.doesNotMatch(await text(page, "#summary"), /leads/);
    await seek(page, 26);
    const [first, second] = await terms(page);
    const verdict = await text(page, "#verdict");
    assert.ok(second[0] > 15 && second[0] < 19, `a lease after the restore: ${second[0]}`);
    assert.ok(verdict.includes(`${"abc"[second[1]]} led from ${second[0].toFixed(1)} s`), verdict);
    assert.ok(first[0] < 2);
  },
);

lab("a prediction is judged", "scenario=leader-dies&seed=2", async (page) => {
  await page.getByLabel("all four").check();
  await seek(page, 21);
  assert.match(await text(page, "#verdict"), /^It is: exactly one\./);
  await page.getByLabel("exactly one").check();
  assert.match(await text(page, "#verdict"), /^You were right\./);
});

lab("the red band is where the violation is", "scenario=drift-beyond&seed=1&t=28", async (page) => {
  const [violated, overlaps] = await page.evaluate(() => [
    window.lab.experiment.view.violation.at,
    window.lab.timeline.cached.overlaps,
  ]);
  assert.equal(overlaps.length, 1);
  assert.ok(Math.abs(overlaps[0][0] - violated) < 1e9, `${overlaps[0][0]} ${violated}`);
  const red = await page.evaluate(
    (at) => {
      const { timeline, experiment } = window.lab,
        [from, until] = timeline.window(experiment);
      const scale = devicePixelRatio,
        width = timeline.canvas.clientWidth;
      const x = 44 + ((width - 52) * (at - from)) / (until - from);
      return [...timeline.canvas.getContext("2d").getImageData(x * scale, 8 * scale, 1, 1).data];
    },
    (overlaps[0][0] + overlaps[0][1]) / 2,
  );
  assert.deepEqual(red, [179, 38, 30, 255]);
});

lab("fencing shows a refusal and a loss", "scenario=fencing&seed=1&t=30", async (page) => {
  const shown = await text(page, "#resources");
  assert.match(shown, /a, token \d+: refused/);
  assert.match(shown, /a, token \d+: accepted: the new leader’s data is lost/);
});

// The rows of the table of costs: woken, reads, writes.
const costs = async (page) =>
  (await page.locator("#costs tbody tr").allInnerTexts()).map((row) =>
    row.split("\t").slice(1).map(Number),
  );

lab(
  "a dead leader wakes one, and a herd wakes all",
  "scenario=leader-dies&seed=1&t=21",
  async (page) => {
    assert.deepEqual(await costs(page), [
      [1, 2, 1],
      [4, 7, 0],
      [4, 3, 4],
    ]);
  },
);

lab("the costs are those of the last death", "scenario=free-play&seed=1&t=10", async (page) => {
  await press(page, "the leader");
  await press(page, "Kill");
  await seek(page, 20);
  assert.match(await text(page, "#costs"), /^a at 10\.0 s/);
  await seek(page, 9);
  assert.match(await text(page, "#costs"), /^No process has died/);
  await press(page, "none");
  await press(page, "c");
  await press(page, "Kill");
  await seek(page, 20);
  assert.match(await text(page, "#costs"), /^c at 9\.0 s/);
});

lab("exercise: crash the second smallest", "scenario=free-play&seed=1&t=10", async (page) => {
  await press(page, "the second smallest");
  await press(page, "Kill");
  await seek(page, 20);
  assert.equal(await text(page, "#summary"), "a leads; b is down; c, d, e follow a.");
  assert.equal((await costs(page))[0][0], 1, "only its successor is woken");
  assert.deepEqual((await costs(page))[1], [0, 0, 0], "the herd watches only the leader");
});

lab(
  "exercise: two followers that are not neighbors",
  "scenario=free-play&seed=1&t=10",
  async (page) => {
    await press(page, "two that are not neighbors");
    await press(page, "Kill");
    await seek(page, 20);
    assert.equal(await text(page, "#summary"), "a leads; b, d are down; c, e follow a.");
    assert.equal((await costs(page))[0][0], 2, "each successor is woken");
  },
);

lab("exercise: no process watches the largest", "scenario=free-play&seed=1&t=10", async (page) => {
  await press(page, "the largest");
  await press(page, "Kill");
  await seek(page, 20);
  assert.equal(await text(page, "#summary"), "a leads; b, c, d follow a; e is down.");
  assert.equal((await costs(page))[0][0], 0, "no process is woken");
});

lab("exercise: kill the leader of nine", "scenario=free-play-9&seed=1&t=14", async (page) => {
  await press(page, "the leader");
  await press(page, "Kill");
  await seek(page, 24);
  assert.match(await text(page, "#summary"), /^a is down; b leads;/);
  assert.equal((await costs(page))[0][0], 1, "one is woken, as with five");
  assert.equal((await costs(page))[1][0], 8, "a herd wakes all");
});

lab(
  "exercise: kill the leader and its successor",
  "scenario=free-play-9&seed=1&t=14",
  async (page) => {
    await press(page, "the leader");
    await press(page, "b");
    await press(page, "Kill");
    await seek(page, 24);
    assert.match(await text(page, "#summary"), /^a, b are down; c leads;/);
  },
);

const RECORD = "scenario=free-play-record&seed=1&t=10";

lab("exercise: pause the leader for less than 4 s", RECORD, async (page) => {
  await press(page, "the leader");
  await press(page, "Pause");
  await seek(page, 12.5);
  assert.match(await text(page, "#summary"), /a is paused/);
  await press(page, "Resume");
  await seek(page, 30);
  assert.equal(await text(page, "#summary"), "a leads; b, c follow a.");
  assert.equal((await terms(page)).length, 1);
});

lab("exercise: cut two followers, and kill the leader", RECORD, async (page) => {
  await press(page, "b");
  await press(page, "c");
  await press(page, "Cut the link");
  await press(page, "the leader");
  await press(page, "Kill");
  await seek(page, 30);
  assert.doesNotMatch(await text(page, "#summary"), /lead/, "no process reaches the store");
  await press(page, "none");
  await press(page, "b");
  await press(page, "Heal the link");
  await seek(page, 45);
  assert.match(await text(page, "#summary"), /b leads/);
});

for (const [lasts, count] of [
  [2, 1],
  [10, 2],
]) {
  lab(`exercise: end an outage after ${lasts} s`, RECORD, async (page) => {
    await press(page, "Outage");
    await seek(page, 10 + lasts);
    await press(page, "End the outage");
    await seek(page, 40);
    assert.match(await text(page, "#summary"), /\bleads\b/);
    assert.equal((await terms(page)).length, count, "a claim lasts 4 s");
  });
}

lab(
  "a killed process rejoins at the end of the queue",
  "scenario=free-play&seed=1&t=10",
  async (page) => {
    await press(page, "the leader");
    await press(page, "Kill");
    await seek(page, 20);
    await press(page, "Restart");
    await seek(page, 25);
    assert.equal(await text(page, "#summary"), "a, c, d, e follow b; b leads.");
    const order = await page.evaluate(() =>
      window.lab.experiment.view.store.znodes.map((it) => it.identity[0]).join(""),
    );
    assert.equal(order, "bcdea");
  },
);

lab(
  "an expired session moves its process to the end",
  "scenario=free-play&seed=1&t=10",
  async (page) => {
    await press(page, "the second smallest");
    await press(page, "Expire the session");
    await seek(page, 16);
    const order = await page.evaluate(() =>
      window.lab.experiment.view.store.znodes.map((it) => it.identity[0]).join(""),
    );
    assert.equal(order, "acdeb");
  },
);

lab("a link shows what one saw", "scenario=free-play&seed=3&t=10", async (page) => {
  await press(page, "the leader");
  await press(page, "Pause");
  await seek(page, 22.5);
  const [link, summary] = [page.url(), await text(page, "#summary")];
  assert.match(summary, /a is paused; b leads/);
  await open(page, link.split("#")[1]);
  assert.equal(await text(page, "#summary"), summary);
  assert.equal(await text(page, "#clock"), "22.50 s");
});
