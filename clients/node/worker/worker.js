// Works by the protocol of clients/testing/README.md, for the tests of the library.

import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Baton } from "../src/index.js";

const [mode, path, ...settings] = process.argv.slice(2);
const options = Object.fromEntries(settings.map((setting) => setting.split("=")));
const number = (name, otherwise) => Number(options[name] ?? otherwise);
const given = (name) => (options[name] === undefined ? undefined : Number(options[name]));

const log = openSync(path, "a");
const offset = BigInt(process.env.BATON_WORKER_CLOCK_OFFSET_NS);
const now = () => process.hrtime.bigint() + offset;
const nanos = (ms) => BigInt(Math.floor(ms * 1e6));
const append = (...words) => writeSync(log, `${words.join(" ")}\n`);

const stop = new AbortController();
process.on("SIGTERM", () => stop.abort());

const baton = new Baton({
  step: given("step_ms"),
  timeout: given("timeout_ms"),
  poll: given("poll_ms"),
});

async function work(term, signal) {
  const obeys = number("signal", 1) === 1;
  const checks = number("check", 0) === 1;
  const until = now() + nanos(number("work_ms", 1e12));
  let busy = number("busy_ms", 0);
  act(term, "start", now());
  while (now() < until) {
    const at = now();
    if ((obeys && signal.aborted) || (checks && !passes(term))) {
      append(term.token, "cancel", now());
      break;
    }
    act(term, "beat", at);
    spin(busy);
    busy = 0;
    await sleep(10, undefined, obeys ? { signal } : {}).catch(() => {});
  }
  await sleep(number("linger_ms", 0));
  append(term.token, "stop", now());
}

/** Writes a start or a beat, and until when the library allows it. */
function act(term, event, at) {
  const time = now();
  const left = term.remaining();
  append(term.token, event, at, left > 0 ? time + nanos(left) : 0);
}

function passes(term) {
  try {
    term.check();
    return true;
  } catch {
    return false;
  }
}

function spin(ms) {
  for (const until = now() + nanos(ms); now() < until; );
}

const modes = {
  async run() {
    for (let terms = number("terms", Infinity); terms > 0; terms--) {
      await baton.runWhileLeading(work, stop);
    }
  },

  async ask() {
    for (let asks = number("asks", 1); asks > 0; asks--) {
      const term = await baton.ask();
      const at = now();
      // The library counts less one step.
      const until = at + nanos((term?.remaining() ?? 0) + number("step_ms", 0));
      append(term?.token ?? "-", "ask", at, term ? until : 0);
      await sleep(number("poll_ms", 0));
    }
  },

  async changes() {
    for await (const { isGranted, term } of baton.changes(stop)) {
      append(term.token, isGranted ? "granted" : "revoked", now());
    }
  },
};

await modes[mode]().catch((error) => {
  if (!stop.signal.aborted) throw error;
});
