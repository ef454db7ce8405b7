// Takes the pictures of the lab in the book: LAB=… CHROMIUM=… node picture.mjs docs
//
// Touches the browser and the files in that folder.

import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [folder] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});

async function open(hash, viewport) {
  const page = await browser.newPage({ viewport });
  await page.goto(`${pathToFileURL(process.env.LAB).href}#${hash}`);
  await page.waitForFunction(() => window.lab);
  return page;
}

const queue = await open("scenario=leader-dies&seed=1&t=18", { width: 1120, height: 1000 });
await queue.getByLabel("exactly one").check();
await queue.screenshot({ path: `${folder}/lab.png` });

// From the title to the drawing and its summary.
const classics = await open("scenario=raft.partition.5&seed=1&t=7.5", {
  width: 1000,
  height: 1300,
});
const [{ x, y, width }, summary] = [
  await classics.locator("#title").boundingBox(),
  await classics.locator("#summary").boundingBox(),
];
await classics.screenshot({
  path: `${folder}/lab-classics.png`,
  clip: { x: x - 16, y: y - 12, width: width + 32, height: summary.y + summary.height - y + 24 },
});
// The same, down to the timeline.
const drift = await open("scenario=drift-beyond&seed=1&t=24", { width: 1000, height: 1400 });
const [title, legend] = [
  await drift.locator("#violation").boundingBox(),
  await drift.locator("#legend").boundingBox(),
];
await drift.screenshot({
  path: `${folder}/lab-drift.png`,
  clip: {
    x: title.x - 16,
    y: title.y - 12,
    width: title.width + 32,
    height: legend.y + legend.height - title.y + 24,
  },
});
await browser.close();
