import { openSync, readSync } from "node:fs";

/** Linux counts the uptime in steps of 10 ms, so that a reading lags by up to 10 ms. */
const UPTIME_STEP = 10;

/**
 * Stays open, because a process without free file descriptors must still see its deadlines pass.
 * `os.uptime()` reads the same file, but falls back to whole seconds without saying so.
 */
const uptimeFile = (() => {
  try {
    return openSync("/proc/uptime", "r");
  } catch {
    return undefined; // not Linux
  }
})();

/** Milliseconds since boot, suspend included. Without such a clock, this one stands still. */
function uptime() {
  if (uptimeFile === undefined) return 0;
  const buffer = Buffer.alloc(64);
  const length = readSync(uptimeFile, buffer, 0, buffer.length, 0);
  const [seconds] = buffer.toString("latin1", 0, length).split(" ", 1);
  if (!/^\d+\.\d+$/.test(seconds)) throw new Error(`/proc/uptime holds no uptime: ${seconds}`);
  return Number(seconds) * 1000;
}

/**
 * A moment on two clocks, in milliseconds: the monotonic one, which is precise but stops while a
 * machine sleeps, and the uptime, which does not. A deadline has passed when either clock says so.
 */
export class Deadline {
  /**
   * @param {number} monotonic
   * @param {number} uptime
   */
  constructor(monotonic, uptime) {
    this.monotonic = monotonic;
    this.uptime = uptime;
  }

  /** Reads both clocks, and throws if the system has an uptime that cannot be read. */
  static now() {
    return new Deadline(performance.now(), uptime());
  }

  /** @param {number} ms */
  plus(ms) {
    return new Deadline(this.monotonic + ms, this.uptime + ms);
  }

  /** The milliseconds until this deadline; 0 if it has passed or a clock cannot be read. */
  remaining() {
    try {
      const now = Deadline.now();
      const uptime = this.uptime - now.uptime - UPTIME_STEP;
      return Math.max(0, Math.min(this.monotonic - now.monotonic, uptime));
    } catch {
      return 0;
    }
  }
}
