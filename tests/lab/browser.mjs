// A real Chromium with the lab open from disk. Each test gets its own page, and fails if the page
// says anything on the console.
//
// Touches only the browser. Start with `lab`.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

export const address = pathToFileURL(`${process.env.LAB}`).href;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM,
  // Chromium refuses its sandbox to root.
  args: process.getuid() === 0 ? ["--no-sandbox"] : [],
});
after(() => browser.close());

// Runs `check` with a page that shows `hash`. It may say what matches `expected`.
export function lab(title, hash, check, { expected, ...options } = {}) {
  test(title, { timeout: 120_000 }, async () => {
    const context = await browser.newContext({
      viewport: { width: 1280, height: 900 },
      ...options,
    });
    const page = await context.newPage();
    const said = [];
    page.on("console", (message) => said.push(message.text()));
    page.on("pageerror", (error) => said.push(error.stack));
    page.on("request", (request) => {
      if (!/^(file|data|blob):/.test(request.url())) said.push(`asked for ${request.url()}`);
    });
    try {
      await open(page, hash);
      await check(page, context);
      assert.deepEqual(
        said.filter((line) => !expected?.test(line)),
        [],
      );
    } finally {
      await context.close();
    }
  });
}

export async function open(page, hash, file = address) {
  await page.goto("about:blank");
  await page.goto(`${file}#${hash}`);
  await page.waitForFunction(() => window.lab);
}

export const text = (page, selector) => page.locator(selector).innerText();
export const press = (page, name) => page.getByRole("button", { name, exact: true }).click();

// Goes to this second of the run.
export const seek = (page, seconds) => page.evaluate((at) => window.lab.seek(at * 1e9), seconds);

// What the page's experiment knows, for figures that the text does not show.
export const inside = (page, probe, argument) => page.evaluate(probe, argument);
