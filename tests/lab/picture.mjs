// Takes the picture of the lab in the book: LAB=… CHROMIUM=… node picture.mjs docs/lab.png
//
// Touches the browser and that file.

import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
const page = await browser.newPage({ viewport: { width: 1120, height: 1000 } });
await page.goto(`${pathToFileURL(process.env.LAB).href}#scenario=leader-dies&seed=1&t=18`);
await page.waitForFunction(() => window.lab);
await page.getByLabel("exactly one").check();
await page.screenshot({ path: process.argv[2] });
await browser.close();
