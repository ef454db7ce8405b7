// All can use the page: by keyboard, without motion, in light and dark, on any screen.

import assert from "node:assert/strict";
import { lab, open, press, seek, text } from "./browser.mjs";

for (const width of [360, 600, 901, 1280, 1920]) {
  lab(
    `nothing is cut off at ${width} pixels`,
    "scenario=fencing&seed=1&t=30",
    async (page) => {
      for (const hash of [
        "scenario=fencing&seed=1&t=30",
        "scenario=leader-dies&seed=1&t=16.33",
        "scenario=free-play-9&seed=1&t=12",
        "scenario=sentinel.partition.9&seed=1&t=30",
      ]) {
        await open(page, hash);
        const [inner, scroll] = await page.evaluate(() => [
          innerWidth,
          document.documentElement.scrollWidth,
        ]);
        assert.ok(scroll <= inner, `${hash}: ${scroll} of ${inner} pixels`);
      }
    },
    { viewport: { width, height: 800 } },
  );
}

lab("the keyboard alone kills the leader", "scenario=free-play&seed=1&t=10", async (page) => {
  const reach = async (name) => {
    for (let tries = 0; tries < 80; tries++) {
      await page.keyboard.press("Tab");
      if ((await page.evaluate(() => document.activeElement.textContent.trim())) === name) return;
    }
    assert.fail(`no way to ${name}`);
  };
  await reach("the leader");
  await page.keyboard.press("Enter");
  await reach("Kill");
  await page.keyboard.press("Space");
  await page.locator("#scrub").focus();
  for (let presses = 0; presses < 25; presses++) await page.keyboard.press("ArrowRight");
  assert.match(await text(page, "#summary"), /a is down; b leads/);
  await page.keyboard.press("Home");
  assert.equal(await text(page, "#clock"), "0.00 s");
});

lab("the skip link keeps the experiment", "scenario=fencing&seed=3&t=25", async (page) => {
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "experiment");
  assert.match(page.url(), /#scenario=fencing&seed=3&t=25$/);
  assert.equal(await text(page, "#clock"), "25.00 s");
});

lab("a chosen scenario keeps the focus", "scenario=join", async (page) => {
  await page.getByRole("link", { name: "Mid-chain death" }).focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => window.lab.experiment.name === "mid-chain");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Mid-chain death");
});

lab("the keyboard alone shows a cause", "scenario=leader-dies&seed=1&t=20", async (page) => {
  const cause = page.locator("#cause");
  await page.locator("#timeline").focus();
  assert.match(await cause.innerText(), /^a: .*s: a is killed|^a: 10\.0/);
  await page.keyboard.press("ArrowDown");
  assert.match(await cause.innerText(), /^b: /);
  const last = await cause.innerText();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await cause.innerText(), last, "an earlier event of b");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  assert.equal(await cause.innerText(), last);
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  assert.match(await cause.innerText(), /^store: /);
  await page.keyboard.press("Tab");
  assert.match(await cause.innerText(), /^Point at the timeline/);
});

lab(
  "reduced motion runs without slow motion",
  "scenario=leader-dies&seed=1&t=16.33",
  async (page) => {
    assert.equal(await page.evaluate(() => window.lab.pace()), 1);
  },
  { reducedMotion: "reduce" },
);

lab(
  "messages are in slow motion otherwise",
  "scenario=leader-dies&seed=1&t=16.32",
  async (page) => {
    assert.ok((await page.evaluate(() => window.lab.pace())) < 0.2);
  },
);

// The contrast of two colors, by WCAG 2.
function contrast(one, other) {
  const light = (color) => {
    const [red, green, blue] = color
      .match(/[\d.]+/g)
      .map((part) => part / 255)
      .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

for (const colorScheme of ["light", "dark"]) {
  lab(
    `text is readable in ${colorScheme}`,
    "scenario=fencing&seed=1&t=30",
    async (page) => {
      for (const hash of [
        "scenario=fencing&seed=1&t=30",
        "scenario=drift-beyond&seed=1&t=28",
        "scenario=leader-dies&seed=1&t=21",
        "scenario=bully.partition.5&seed=1&t=24",
      ]) {
        await open(page, hash);
        const pairs = await page.evaluate(() => {
          const background = (element) => {
            for (let at = element; at; at = at.parentElement) {
              const color = getComputedStyle(at).backgroundColor;
              if (color !== "rgba(0, 0, 0, 0)") return color;
            }
            return "rgb(255, 255, 255)";
          };
          const texts = [...document.querySelectorAll("body *")].filter(
            (it) =>
              !it.closest("svg") &&
              !it.disabled &&
              it.offsetParent &&
              [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
          );
          return texts.map((it) => [
            getComputedStyle(it).color,
            background(it),
            it.textContent.trim().slice(0, 40),
          ]);
        });
        assert.ok(pairs.length > 20);
        for (const [color, behind, what] of pairs) {
          assert.ok(contrast(color, behind) >= 4.5, `${what}: ${color} on ${behind}`);
        }
      }
    },
    { colorScheme },
  );
}

lab("controls have names", "scenario=free-play&seed=1&t=10", async (page) => {
  const nameless = await page.evaluate(() =>
    [...document.querySelectorAll("button, input, select")]
      .filter((it) => !it.textContent.trim() && !it.labels?.length && !it.ariaLabel)
      .map((it) => it.outerHTML),
  );
  assert.deepEqual(nameless, []);
  await press(page, "the leader");
  assert.equal(await page.locator('[data-candidate="0"]').getAttribute("aria-pressed"), "true");
  await seek(page, 11);
});
