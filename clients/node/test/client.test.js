import assert from "node:assert/strict";
import { createServer } from "node:http";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Baton, NotLeadingError } from "../src/index.js";

/** Answers each request with what `script` returns for its method and target. */
async function sidecar(script) {
  const requests = [];
  const server = createServer(async (request, response) => {
    requests.push(`${request.method} ${request.url}`);
    const { status, body } = await script(request);
    response.writeHead(status).end(JSON.stringify(body));
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  after(() => server.close().closeAllConnections());
  const url = `http://127.0.0.1:${server.address().port}`;
  return { requests, baton: new Baton({ url, step: 2000, timeout: 5000, poll: 200 }) };
}

const leading = (token, valid_for_ms) => ({
  status: 200,
  body: { standing: "leading", is_leader: true, token, valid_for_ms, revision: 2 },
});
const following = {
  status: 503,
  body: { standing: "following", is_leader: false, token: null, valid_for_ms: 0, revision: 1 },
};

/** Lasts until the signal, or much too long. */
const untilCanceled = (_term, signal) => sleep(20_000, undefined, { signal });

test("a promise counts from before the request", async () => {
  const { baton } = await sidecar(() => sleep(500, leading("7", 5000)));
  const term = await baton.ask();
  assert.equal(term.token, 7n);
  assert.ok(term.remaining() <= 2500);
});

test("a term of ask is over after its promise", async () => {
  const { baton } = await sidecar(() => leading("7", 5000));
  const term = await baton.ask();
  term.check();
  await sleep(3000);
  assert.throws(() => term.check(), NotLeadingError);
});

test("refuses an answer that is no promise", async () => {
  const answers = ["", "x", "-1", "1.0", "0x7", " 1", 7, null, String(2n ** 128n)].map((token) =>
    leading(token, 5000),
  );
  answers.push(leading("7", -1), leading("7", "1000"), leading("7", 1e300), leading("7", null));
  answers.push({ ...leading("7", 5000), status: 201 }, { status: 200, body: null });
  answers.push({ status: 200, body: { ...leading("7", 5000).body, is_leader: "true" } });
  const { baton, requests } = await sidecar(() => answers[requests.length - 1]);
  for (const answer of answers) assert.equal(await baton.ask(), null, JSON.stringify(answer));
});

test("never goes back to a smaller token", async () => {
  const tokens = ["9", String(2n ** 128n - 1n), "9"];
  const { baton, requests } = await sidecar(() => leading(tokens[requests.length - 1], 5000));
  assert.equal((await baton.ask()).token, 9n);
  assert.equal((await baton.ask()).token, 2n ** 128n - 1n);
  assert.equal(await baton.ask(), null);
});

test("work is canceled one step before the promise ends", async () => {
  let asked = 0;
  const { baton } = await sidecar(() => (asked++ ? { status: 500 } : leading("7", 6000)));
  const from = performance.now();
  assert.equal(await baton.runWhileLeading(untilCanceled), false);
  assert.ok(performance.now() - from < 6000);
});

test("a check throws after the event loop was blocked", async () => {
  const { baton } = await sidecar(() => leading("7", 5000));
  const inTime = await baton.runWhileLeading((term) => {
    const until = performance.now() + 3000;
    while (performance.now() < until);
    assert.throws(() => term.check(), NotLeadingError);
  });
  assert.equal(inTime, false);
});

test("renews while the work runs, and then says that it is done", async () => {
  const { baton, requests } = await sidecar(({ method }) =>
    method === "POST" ? { status: 404 } : leading("7", 6000),
  );
  const inTime = await baton.runWhileLeading(async (term) => {
    for (let step = 0; step < 90; step++) {
      term.check();
      await sleep(50);
    }
  });
  assert.equal(inTime, true);
  const done = requests.pop();
  const [asking, ...others] = new Set(requests);
  const [, asker] = /^GET \/leader\?asker=([\w-]{36})$/.exec(asking);
  assert.deepEqual(others, []);
  assert.ok(requests.length >= 3);
  assert.equal(done, `POST /done?token=7&asker=${asker}`);
});

test("work ends at once when the sidecar follows", async () => {
  let asked = 0;
  const { baton } = await sidecar(() => (asked++ ? following : leading("7", 60_000)));
  assert.equal(await baton.runWhileLeading(untilCanceled), false);
});

test("changes tell of each term", async () => {
  let asked = 0;
  const answers = [leading("7", 60_000), following, leading("8", 60_000)];
  const { baton, requests } = await sidecar(() => answers[Math.min(asked++, 2)]);
  const stop = new AbortController();
  const heard = [];
  const follow = async () => {
    for await (const { isGranted, term } of baton.changes(stop)) {
      heard.push(`${isGranted} ${term.token}`);
      if (heard.length === 3) stop.abort(new Error("enough"));
    }
  };
  await assert.rejects(follow(), /enough/);
  assert.deepEqual(heard, ["true 7", "false 7", "true 8", "false 8"]);
  assert.ok(requests.every((request) => request.startsWith("GET")));
});

test("errors of the work are thrown", async () => {
  const { baton } = await sidecar(() => leading("7", 5000));
  const failure = new Error("the disk is full");
  await assert.rejects(baton.runWhileLeading(() => Promise.reject(failure)), failure);
});

test("a signal of the caller cancels the work and the waiting", async () => {
  const { baton } = await sidecar(() => leading("7", 60_000));
  const stop = new AbortController();
  const running = baton.runWhileLeading((term, signal) => {
    stop.abort(new Error("enough"));
    return untilCanceled(term, signal);
  }, stop);
  await assert.rejects(running, /enough/);
  await assert.rejects(baton.runWhileLeading(untilCanceled, stop), /enough/);
});

test("asks no more often than allowed", async () => {
  const { baton, requests } = await sidecar(() => following);
  const signal = AbortSignal.timeout(1000);
  await assert.rejects(baton.runWhileLeading(() => {}, { signal }), { name: "TimeoutError" });
  assert.ok(requests.length <= 7, String(requests));
  assert.match(requests[1], /&wait=30s&after=1$/);
});

test("refuses unusable options", () => {
  for (const url of ["https://a", "localhost:4040", "http://a/b", "http://a?b", "http://u@a", ""]) {
    assert.throws(() => new Baton({ url }), TypeError, url);
  }
  for (const step of [0, -1, NaN, 2 ** 31]) assert.throws(() => new Baton({ step }), RangeError);
});
