// The page in a real Firefox: the traces of 1,000 seeds and the runs of the classical algorithms
// equal the native ones, each scenario gives its verdict, and the page says nothing on the console.
// run.sh runs it where Firefox is installed, or for FIREFOX=FILE.
//
// Touches a browser that it starts and stops. Playwright speaks to Firefox only by a protocol that
// Debian's lacks, so this speaks WebDriver BiDi (https://w3c.github.io/webdriver-bidi/). Start with
// `connect`.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

const PATIENCE = 60_000;
const profile = mkdtempSync(path.join(tmpdir(), "baton-lab-"));
const firefox = spawn(
  process.env.FIREFOX,
  ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0"],
  { env: { ...process.env, HOME: profile }, stdio: ["ignore", "ignore", "pipe"] },
);
const timer = setTimeout(() => {
  firefox.kill();
  assert.fail("Firefox did not answer in time");
}, 4 * PATIENCE);

// Returns a function that sends a command and waits for its result.
async function connect(said) {
  const address = await new Promise((resolve, reject) => {
    firefox.stderr.on("data", (text) => {
      const found = /ws:\/\/\S+/.exec(text);
      if (found) resolve(found[0]);
    });
    firefox.on("exit", () => reject(new Error("Firefox ended")));
  });
  const socket = new WebSocket(`${address}/session`),
    waiting = new Map();
  await new Promise((resolve, reject) =>
    Object.assign(socket, { onopen: resolve, onerror: reject }),
  );
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data),
      pending = waiting.get(message.id);
    if (!pending) said.push(message.params.text);
    else if (message.type === "error") pending.reject(new Error(message.message));
    else pending.resolve(message.result);
  };
  return (method, params = {}) =>
    new Promise((resolve, reject) => {
      const id = waiting.size + 1;
      waiting.set(id, { resolve, reject });
      socket.send(JSON.stringify({ id, method, params }));
    });
}

const said = [],
  send = await connect(said);
await send("session.new", { capabilities: {} });
await send("session.subscribe", { events: ["log.entryAdded"] });
const {
  contexts: [{ context }],
} = await send("browsingContext.getTree");
await send("browsingContext.navigate", {
  context,
  url: `${pathToFileURL(process.env.LAB).href}#scenario=join`,
  wait: "complete",
});

// The result of `body`, which is the text of a function, in the page.
async function inside(body, ...values) {
  const ready = "while (!window.lab) await new Promise((resolve) => setTimeout(resolve, 20))";
  const result = `JSON.stringify((${body})(...${JSON.stringify(values)}))`;
  const expression = `(async () => { ${ready}; return ${result}; })()`;
  const answer = await send("script.evaluate", {
    expression,
    target: { context },
    awaitPromise: true,
  });
  assert.equal(answer.type, "success", answer.exceptionDetails?.text);
  return JSON.parse(answer.result.value);
}

const endOf = (name) =>
  inside((name) => {
    const { lab } = window;
    lab.open(name, 1);
    lab.seek(lab.experiment.end);
    const { view, now, records } = lab.experiment;
    return {
      leaders: view.nodes
        .flatMap((node, candidate) => (node.until > now ? [candidate] : []))
        .join(", "),
      messages: records.filter((record) => record[1] === "sent").length,
      isRed: lab.timeline.cached.overlaps.length > 0,
      verdict: document.querySelector("#verdict").textContent,
    };
  }, name);

try {
  const lines = (file) => readFileSync(file, "utf8").trim().split("\n");
  for (const line of lines(process.env.EXHIBITS)) {
    const [, name, leaders, overlap, messages] = /^(\S+) \[(.*)\] (\d+) (\d+) /.exec(line);
    const { verdict, ...shown } = await endOf(name);
    assert.deepEqual(shown, { leaders, messages: Number(messages), isRed: overlap !== "0" }, name);
    assert.match(verdict, /^It is: /, name);
  }
  for (const name of [
    "join",
    "leader-dies",
    "mid-chain",
    "crash",
    "handoff",
    "short-partition",
    "long-partition",
    "paused-leader",
    "drift-within",
    "drift-beyond",
    "restored-store",
    "outage",
    "fencing",
  ]) {
    const { isRed, verdict } = await endOf(name);
    assert.equal(isRed, name === "drift-beyond", name);
    assert.match(verdict, /^It is: /, name);
  }
  const native = lines(process.env.TRACES).map((line) => line.split(" ")[1]);
  assert.deepEqual(await inside(() => window.lab.machine("hashes 0 1000")), native);
  assert.deepEqual(said, []);
  console.log("firefox: all runs equal the native ones");
} finally {
  clearTimeout(timer);
  firefox.removeAllListeners("exit");
  const ended = new Promise((resolve) => firefox.on("exit", resolve));
  firefox.kill();
  await ended;
  rmSync(profile, { recursive: true, force: true });
}
process.exit();
