import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { NO_ANSWER, Sidecar } from "./sidecar.js";
import { NotLeadingError, Term } from "./term.js";

export { NotLeadingError, Term };

/** Separates two requests at least, whatever the sidecar answers. */
const MIN_PAUSE = 20;
/** Node's timers take no longer delays. */
const MAX_DELAY = 86_400_000;
/** Separates two requests at most while the work runs. */
const MAX_RENEWAL = 1000;
/** How long the sidecar may hold back an answer while nothing changes. */
const LONG_POLL = 30_000;

/**
 * The settings of a client. Durations are in milliseconds.
 *
 * @typedef {object} Options
 * @property {string} [url] Where the sidecar listens, as `http://HOST:PORT`. Default: `BATON_URL`,
 *   else `http://localhost:4040`.
 * @property {number} [step] How long a step takes at most. Work is canceled this long before a
 *   promise ends, so it must be shorter than the sidecar's `--answer-validity`. Default: a quarter
 *   of each promise.
 * @property {number} [timeout] How long to wait for an answer. Default: 500.
 * @property {number} [poll] How long to pause between two requests while another process leads.
 *   Default: 500.
 */

/**
 * Asks a Baton sidecar whether this process leads, and runs work only while it does.
 *
 * A promise counts from before the request. Only an answer of the sidecar extends it: a refused
 * connection, a timeout, and anything unexpected mean that this process does not lead. A token that
 * is smaller than one seen before by the same object means so too.
 *
 * @example
 * ```js
 * const baton = new Baton();
 * for (;;) {
 *   await baton.runWhileLeading(async (term, signal) => {
 *     for (;;) {
 *       term.check(); // throws if no step may begin
 *       await ledger.append(term.token, nextLine(), { signal }); // one step
 *     }
 *   });
 * }
 * ```
 */
export class Baton {
  #sidecar;
  #step;
  #timeout;
  #poll;
  #hasWarned = false;

  /**
   * @param {Options} [options]
   * @throws TypeError or RangeError if an option is unusable
   */
  constructor({ url, step, timeout = 500, poll = 500 } = {}) {
    this.#sidecar = new Sidecar(url ?? process.env.BATON_URL ?? "http://localhost:4040");
    for (const [name, value] of Object.entries({ step: step ?? MIN_PAUSE, timeout, poll })) {
      if (!(value >= MIN_PAUSE && value <= MAX_DELAY)) {
        throw new RangeError(`${name} is not between ${MIN_PAUSE} and ${MAX_DELAY} ms: ${value}`);
      }
    }
    this.#step = step;
    this.#timeout = timeout;
    this.#poll = poll;
  }

  /**
   * Asks once. The promise is never renewed.
   *
   * @returns {Promise<Term | null>} the term, or null if this process does not lead
   */
  async ask() {
    return this.#term(await this.#sidecar.ask({}, this.#timeout));
  }

  /**
   * Waits until this process leads, runs `work` once, and settles after it.
   *
   * The promise is renewed meanwhile. One step before it ends, the signal is aborted. Work that
   * ignores this and does not call {@link Term.check} goes on without a promise. A blocked event
   * loop delays the signal, but not the check.
   *
   * @param {(term: Term, signal: AbortSignal) => unknown} work begins each step with
   *   {@link Term.check}, and passes the signal to whatever it awaits
   * @param {{ signal?: AbortSignal }} [options] `signal` stops the waiting, and cancels the work
   * @returns {Promise<boolean>} true if the work returned within the term, false if it was canceled
   * @throws what the work threw, or the reason of the signal in the options
   */
  async runWhileLeading(work, { signal: stop } = {}) {
    const asker = randomUUID();
    const term = await this.#awaitTerm(asker, stop);
    const keeping = this.#keep(term, asker, stop);
    let wasInTime = false;
    try {
      await work(term, term._signal);
      wasInTime = term.remaining() > 0;
    } catch (error) {
      if (!isCancellation(error) || term.remaining() > 0) throw error;
    } finally {
      term._end();
      await keeping;
      await this.#sidecar.done(term.token, asker, this.#timeout);
    }
    if (!wasInTime) stop?.throwIfAborted();
    return wasInTime;
  }

  /**
   * Tells when this process begins and ends to lead, until the signal is aborted.
   *
   * A change is news, not a license to act: call {@link Term.check} before each step. The promises
   * are not voided at the end of a term, because the work elsewhere may go on for one step.
   *
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {AsyncGenerator<{ isGranted: boolean, term: Term }, never>}
   * @throws the reason of the signal
   */
  async *changes({ signal: stop } = {}) {
    for (;;) {
      const asker = randomUUID();
      const term = await this.#awaitTerm(asker, stop);
      const keeping = this.#keep(term, asker, stop);
      try {
        yield { isGranted: true, term };
        if (term.remaining() > 0) await once(term._signal, "abort");
        yield { isGranted: false, term };
      } finally {
        term._end();
        await keeping;
      }
    }
  }

  /**
   * Asks until this process leads. Where the sidecar can, it answers when something changes.
   *
   * @param {string} asker
   * @param {AbortSignal} [stop]
   */
  async #awaitTerm(asker, stop) {
    let longPolls = true;
    let last = NO_ANSWER;
    for (;;) {
      stop?.throwIfAborted();
      const from = performance.now();
      const waits = longPolls && last.revision >= 0 && !last.promise;
      const answer = waits
        ? await this.#sidecar.ask(
            { asker, wait: "30s", after: String(last.revision) },
            LONG_POLL + this.#timeout,
            stop,
          )
        : await this.#sidecar.ask({ asker }, this.#timeout, stop);
      const term = this.#term(answer);
      if (term && !stop?.aborted) return term;
      const isNews = answer.revision >= 0 && answer.revision !== last.revision;
      const wasHeld = performance.now() - from >= this.#poll;
      if (waits && !isNews && !wasHeld && answer.status !== 0 && answer.status !== 429) {
        longPolls = false; // this sidecar answers at once, or refuses the parameters
      }
      const pause = longPolls && isNews ? MIN_PAUSE : this.#poll;
      await sleep(pause, undefined, { signal: stop }).catch(() => {});
      last = answer;
    }
  }

  /** @param {import("./sidecar.js").Answer} answer */
  #term({ promise }) {
    const term = promise && new Term(promise.token, this.#end(promise));
    return term?.remaining() ? term : null;
  }

  /**
   * Returns when the last step may begin.
   *
   * @param {import("./sidecar.js").Promised} promise
   */
  #end({ asked, validFor }) {
    const step = this.#step ?? validFor / 4;
    if (step >= validFor && !this.#hasWarned) {
      this.#hasWarned = true;
      process.emitWarning(`a step of ${step} ms does not fit a promise of ${validFor} ms`);
    }
    return asked.plus(validFor - step);
  }

  /**
   * Renews the term, and ends it in time. Resolves when it is over.
   *
   * @param {Term} term
   * @param {string} asker
   * @param {AbortSignal} [stop]
   */
  async #keep(term, asker, stop) {
    const cancel = () => term._end();
    stop?.addEventListener("abort", cancel);
    if (stop?.aborted) cancel();
    term._watch();
    while (term.remaining() > 0) {
      const pause = Math.min(Math.max(term.remaining() / 3, MIN_PAUSE), MAX_RENEWAL);
      await sleep(pause, undefined, { signal: term._signal }).catch(() => {});
      const timeout = Math.min(term.remaining(), this.#timeout);
      if (timeout === 0) break;
      const answer = await this.#sidecar.ask({ asker }, timeout, term._signal);
      if (answer.promise?.token === term.token) term._renew(this.#end(answer.promise));
      // Any other failure neither extends nor ends a promise.
      else if (answer.promise || answer.status === 503) term._end();
    }
    stop?.removeEventListener("abort", cancel);
  }
}

/** @param {unknown} error */
function isCancellation(error) {
  const isAbort = error instanceof Error && error.name === "AbortError";
  return isAbort || error instanceof NotLeadingError;
}
