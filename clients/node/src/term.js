/** Timers look at the clocks this often, because their own clock stops while a machine sleeps. */
const LOOK = 100;

/** Thrown by {@link Term.check} when no further step may begin. */
export class NotLeadingError extends Error {
  name = "NotLeadingError";
}

/**
 * A promise of the sidecar that this process leads.
 *
 * While {@link Baton.runWhileLeading} runs, it renews its term. A term of {@link Baton.ask} is
 * never renewed. Once a term is over, it stays over.
 */
export class Term {
  #over = new AbortController();
  #token;
  #end;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;

  /**
   * @param {bigint} token
   * @param {import("./deadline.js").Deadline} end When the last step may begin.
   * @internal
   */
  constructor(token, end) {
    this.#token = token;
    this.#end = end;
  }

  /**
   * The fencing token: at most 128 bits, and larger in each later term. Pass it to every resource
   * that you write to, as a decimal string.
   */
  get token() {
    return this.#token;
  }

  /**
   * Returns for how many milliseconds a step may still begin: until the promise ends, less one
   * step. 0 means that the term is over.
   */
  remaining() {
    const left = this.#over.signal.aborted ? 0 : this.#end.remaining();
    if (left === 0) this._end();
    return left;
  }

  /**
   * Call this before each step. It reads the clock, so it is right even if a blocked event loop
   * delayed the signal.
   *
   * @throws NotLeadingError if the promise ends within one step, or the term is over
   */
  check() {
    if (this.remaining() === 0) throw this.#over.signal.reason;
  }

  /**
   * Aborted at the end of the term by {@link Term._watch}, or by an earlier look at the clock.
   *
   * @internal
   */
  get _signal() {
    return this.#over.signal;
  }

  /**
   * Extends the promise, unless the term is over.
   *
   * @param {import("./deadline.js").Deadline} later
   * @internal
   */
  _renew(later) {
    if (this.remaining() > 0 && later.monotonic > this.#end.monotonic) this.#end = later;
  }

  /**
   * Ends the term in time.
   *
   * @internal
   */
  _watch() {
    const left = this.remaining();
    if (left > 0) this.#timer = setTimeout(() => this._watch(), Math.min(left, LOOK));
  }

  /** @internal */
  _end() {
    clearTimeout(this.#timer);
    this.#over.abort(new NotLeadingError(`term ${this.#token} ends within one step`));
  }
}
