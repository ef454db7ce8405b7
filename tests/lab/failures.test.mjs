// What the page says when it cannot continue, and when it refuses an action or a seed.

import assert from "node:assert/strict";
import { address, lab, press, text } from "./browser.mjs";

for (const name of ["WebAssembly", "DecompressionStream"]) {
  lab(`a browser without ${name} is named`, "scenario=join", async (page) => {
    await page.addInitScript((name) => delete window[name], name);
    await page.goto("about:blank");
    await page.goto(address);
    assert.equal(
      await text(page, "#failure"),
      `The lab cannot start: this browser has no ${name}. Use a newer one.`,
    );
  });
}

lab(
  "a page whose machines trap says so",
  "scenario=join",
  async (page) => {
    assert.equal(await page.locator("#failure").isVisible(), false);
    await page.evaluate(() => {
      window.lab.experiment.machine = () => {
        throw new WebAssembly.RuntimeError("unreachable");
      };
    });
    await press(page, "Step");
    assert.match(await text(page, "#failure"), /^The lab has stopped: .*unreachable\. Reload/);
  },
  { expected: /RuntimeError: unreachable/ },
);

for (const seed of ["1e30", "-3", "0", "1.5", "seven", ""]) {
  lab(`the seed "${seed}" is refused`, "scenario=crash&seed=4&t=12", async (page) => {
    await page.locator("#seed").fill(seed);
    await page.locator("#seed").press("Enter");
    await page.locator("#seed").blur();
    await page.getByText("A seed is a whole number from 1 to 9007199254740991.").waitFor();
    assert.equal(await page.locator("#seed").inputValue(), "4");
    assert.match(page.url(), /seed=4&t=12$/);
  });
}

lab("an action that makes no sense is refused", "scenario=free-play&seed=1&t=10", async (page) => {
  await press(page, "the second smallest");
  await press(page, "Kill");
  await press(page, "the leader");
  await press(page, "b");
  await press(page, "Kill");
  assert.equal(await text(page, "#cause"), "b: the process is down.");
  assert.match(await text(page, "#summary"), /a, b are down/);
  await press(page, "End the outage");
  assert.equal(await text(page, "#cause"), "there is no such fault to end.");
});
