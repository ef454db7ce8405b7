import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { Deadline } from "../src/deadline.js";
import { Term } from "../src/term.js";

const DAY = 86_400_000;

test("a deadline passes when the monotonic clock says so", () => {
  const { monotonic, uptime } = Deadline.now();
  assert.equal(new Deadline(monotonic, uptime + DAY).remaining(), 0);
});

const skip = Deadline.now().uptime === 0; // not Linux

// As after a suspend, during which the monotonic clock stood still.
test("a deadline passes when the uptime says so", { skip }, () => {
  const { monotonic, uptime } = Deadline.now();
  assert.equal(new Deadline(monotonic + DAY, uptime).remaining(), 0);
});

// As with a promise that was good for a day when the machine went to sleep.
test("a term ends when the uptime says so", { skip }, async () => {
  const { monotonic, uptime } = Deadline.now();
  const term = new Term(1n, new Deadline(monotonic + DAY, uptime + 500));
  term._watch();
  await once(term._signal, "abort");
});

test("a deadline holds until either clock says so", () => {
  const remaining = Deadline.now().plus(DAY).remaining();
  assert.ok(remaining > 0 && remaining <= DAY);
});
