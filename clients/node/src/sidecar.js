import { Agent, request } from "node:http";
import { Deadline } from "./deadline.js";

const MAX_BODY_BYTES = 64 * 1024;
const MAX_TOKEN = 2n ** 128n - 1n;
/** How long no sidecar may answer before a warning, and before another one. */
const WARN_AFTER = 5000;
const WARN_AGAIN = 60_000;

/**
 * An answer of `/leader`. Without a promise, this process does not lead.
 *
 * @typedef {object} Answer
 * @property {number} status The HTTP status.
 * @property {number} revision The sidecar's count of changes, or -1.
 * @property {Promised} [promise]
 */

/**
 * A promise that this process leads.
 *
 * @typedef {object} Promised
 * @property {bigint} token The fencing token.
 * @property {Deadline} asked When the request was made.
 * @property {number} validFor For how many milliseconds the promise is good from then on.
 */

/**
 * No answer in time, or one that is not HTTP.
 *
 * @type {Answer}
 */
export const NO_ANSWER = { status: 0, revision: -1 };

/** The sidecar's endpoints, and the reading of its answers. */
export class Sidecar {
  /** Uses no connection twice, so that a late answer is never read as the next one. */
  #agent = new Agent({ keepAlive: false });
  #url;
  /** The largest token seen. A smaller one comes from a sidecar or a store that went back. */
  #newest = 0n;
  /** When the silence of the sidecar began. */
  #silentSince = Infinity;
  #warnNext = 0;

  /** @param {string} url `http://HOST:PORT` */
  constructor(url) {
    const { protocol, username, password, pathname, search, hash } = new URL(url);
    if (protocol !== "http:" || pathname !== "/" || username + password + search + hash !== "") {
      throw new TypeError(`not the URL of a sidecar: ${url}: write http://HOST:PORT (BATON_URL)`);
    }
    this.#url = url;
  }

  /**
   * Asks whether this process leads. Never rejects.
   *
   * @param {Record<string, string>} parameters
   * @param {number} timeout
   * @param {AbortSignal} [signal]
   * @returns {Promise<Answer>}
   */
  async ask(parameters, timeout, signal) {
    try {
      const asked = Deadline.now(); // The promise counts from here; the sidecar makes it later.
      const { status, body } = await this.#send("GET", "/leader", parameters, timeout, signal);
      const answer = this.#read(status, fields(body), asked);
      this.#warnIfSilent(answer, `status ${status}`);
      return answer;
    } catch (error) {
      const { code, message } = /** @type {NodeJS.ErrnoException} */ (error);
      this.#warnIfSilent(NO_ANSWER, code ?? message);
      return NO_ANSWER;
    }
  }

  /**
   * @param {Answer} answer
   * @param {string} cause
   */
  #warnIfSilent({ revision }, cause) {
    const now = performance.now();
    this.#silentSince = revision >= 0 ? Infinity : Math.min(this.#silentSince, now);
    if (now < Math.max(this.#silentSince + WARN_AFTER, this.#warnNext)) return;
    this.#warnNext = now + WARN_AGAIN;
    process.emitWarning(
      `no sidecar answers at ${this.#url} (${cause}): start baton, or set BATON_URL`,
    );
  }

  /**
   * Tells the sidecar that `asker` acts no more. Without success, its promises expire.
   *
   * @param {bigint} token
   * @param {string} asker
   * @param {number} timeout
   */
  async done(token, asker, timeout) {
    const parameters = { token: String(token), asker };
    await this.#send("POST", "/done", parameters, timeout).catch(() => {});
  }

  /**
   * @param {number} status
   * @param {Record<string, unknown>} body
   * @param {Deadline} asked
   * @returns {Answer}
   */
  #read(status, body, asked) {
    const { is_leader, standing, token } = body;
    const answer = { status, revision: count(body.revision) };
    const leads = status === 200 && is_leader === true && standing === "leading";
    const validFor = leads ? count(body.valid_for_ms) : 0;
    if (validFor <= 0 || typeof token !== "string" || !/^\d{1,39}$/.test(token)) return answer;
    const number = BigInt(token);
    if (number > MAX_TOKEN || number < this.#newest) return answer;
    this.#newest = number;
    return { ...answer, promise: { token: number, asked, validFor } };
  }

  /**
   * Sends a request without a body, and reads the whole response within `timeout`.
   *
   * @param {string} method
   * @param {string} path
   * @param {Record<string, string>} parameters
   * @param {number} timeout
   * @param {AbortSignal} [signal]
   * @returns {Promise<{ status: number, body: Buffer }>}
   */
  #send(method, path, parameters, timeout, signal) {
    const url = new URL(path, this.#url);
    url.search = new URLSearchParams(parameters).toString();
    const headers = method === "POST" ? { "Baton-Request": "1", "Content-Length": "0" } : {};
    return new Promise((resolve, reject) => {
      const sent = request(url, { method, headers, agent: this.#agent, signal });
      const timer = setTimeout(() => sent.destroy(new Error("no answer in time")), timeout);
      sent.on("error", reject);
      sent.on("close", () => {
        clearTimeout(timer);
        reject(new Error("the connection was closed"));
      });
      sent.on("response", (response) => {
        /** @type {Buffer[]} */
        const chunks = [];
        let length = 0;
        response.on("error", reject);
        response.on("data", (chunk) => {
          length += chunk.length;
          if (length > MAX_BODY_BYTES) sent.destroy(new Error("the answer is too long"));
          else chunks.push(chunk);
        });
        response.on("end", () => {
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks) });
        });
      });
      sent.end();
    });
  }
}

/**
 * Returns no fields for a body that is not Baton's.
 *
 * @param {Buffer} body
 * @returns {Record<string, unknown>}
 */
function fields(body) {
  try {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    return JSON.parse(decoder.decode(body)) ?? {};
  } catch {
    return {};
  }
}

/**
 * Returns a whole number, or -1.
 *
 * @param {unknown} field
 */
function count(field) {
  return Number.isSafeInteger(field) ? Math.max(Number(field), -1) : -1;
}
