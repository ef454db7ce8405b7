// Measures the lab in a real Chromium and prints the figures; it judges none:
//
//     tests/lab/run.sh; LAB=target/lab/lab.html CHROMIUM=$(command -v chromium) \
//       node target/lab/tests/measure.mjs
//
// Touches only the browser. The figures of three runs on two cores, with software rendering:
//
// | figure | aim | measured |
// |---|---|---|
// | frames a second, nine processes at speed 1 | 60 | 59.5 to 60 |
// | a jump over 1,390,643 events, median and longest of 40 | 100 ms | 13 to 18 and 25 to 44 ms |
// | simulation, as a multiple of real time, five times | 200,000 | 206,000 to 338,000 |
//
// The simulation is slowest in the first round. Beside other work, at a load of 8 to 12, it was 45
// to 56 frames a second, 231 ms for the longest jump, and 74,000 to 244,000 times real time.

import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });

async function open(hash) {
  await page.goto("about:blank");
  await page.goto(`${pathToFileURL(process.env.LAB).href}#${hash}`);
  await page.waitForFunction(() => window.lab);
}

// Frames a second for four seconds of play, and the longest time between two of them.
async function frames(hash) {
  await open(hash);
  const [rate, longest] = await page.evaluate(async () => {
    window.lab.play();
    const times = [];
    await new Promise((resolve) => {
      const next = (time) => {
        times.push(time);
        if (time - times[0] < 4_000) requestAnimationFrame(next);
        else resolve();
      };
      requestAnimationFrame(next);
    });
    const gaps = times.slice(1).map((time, index) => time - times[index]);
    return [(gaps.length / (times.at(-1) - times[0])) * 1000, Math.max(...gaps)];
  });
  console.log(
    `${hash}: ${rate.toFixed(1)} frames a second, the longest took ${longest.toFixed(0)} ms`,
  );
}

for (const hash of [
  "scenario=free-play-9&seed=1&t=20",
  "scenario=raft.partition.9&seed=1&t=6",
  "scenario=sentinel.partition.9&seed=1&t=12",
])
  await frames(hash);

await open("scenario=join");
const [events, first, jumps] = await page.evaluate(() => {
  const { lab } = window,
    time = (run) => {
      const start = performance.now();
      run();
      return performance.now() - start;
    };
  lab.open("long-play", 1);
  const { end } = lab.experiment;
  const first = time(() => {
    for (let part = 1; part <= 20; part++) lab.seek((end * part) / 20);
  });
  let state = 7;
  const jumps = Array.from({ length: 40 }, () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    const at = (end * state) / 2147483648;
    return time(() => lab.seek(at));
  });
  return [lab.experiment.records.length, first, jumps.sort((one, other) => one - other)];
});
console.log(`${events} events: simulated and drawn 20 times in ${(first / 1000).toFixed(1)} s`);
const [median, longest] = [jumps[20], jumps.at(-1)].map((jump) => `${jump.toFixed(0)} ms`);
console.log(`a jump of the scrub bar over them: median ${median}, the longest of 40 ${longest}`);

const speeds = await page.evaluate(() => {
  const { machine } = window.lab;
  let simulated = 0;
  for (let seed = 0; seed < 300; seed++) simulated += machine(`open prove ${seed}`).end / 1e9;
  return Array.from({ length: 5 }, () => {
    const start = performance.now();
    machine("hashes 0 300");
    return (simulated / (performance.now() - start)) * 1000;
  });
});
const thousands = speeds.map((speed) => Math.round(speed / 1000)).join(", ");
console.log(`simulation: ${thousands} thousand times real time`);
await browser.close();
