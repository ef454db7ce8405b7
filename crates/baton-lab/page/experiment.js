// One experiment: a scenario, its seed, what a person did, and the present moment. A live run asks
// the machine; a trace file has only its records.

const SECOND = 1e9;
const letter = (index) => String.fromCharCode(97 + index);

class Experiment {
  constructor(machine, name, seed) {
    Object.assign(this, { machine, name, seed, actions: [], records: [], horizon: 0, now: 0 });
    this.info = machine(`open ${name} ${seed}`);
    if (this.info.error) throw new Error(this.info.error);
    this.seek(0);
  }

  get end() {
    return this.info.end;
  }
  get size() {
    return this.info.candidates.length;
  }

  // Classical algorithms know their processes by number, and may have a server after them.
  nameOf(candidate) {
    if (this.info.store !== "network") return letter(candidate);
    return candidate < this.size ? String(candidate) : serverOf(this.name);
  }

  seek(now) {
    this.now = Math.round(Math.min(Math.max(now, 0), this.end));
    this.view = this.machine(`seek ${this.now}`);
    this.fetch();
    this.horizon = Math.max(this.horizon, this.now);
  }

  fetch() {
    if (this.view.records > this.records.length) {
      // A million arguments would be too many for one push.
      for (const record of this.machine(`records ${this.records.length}`))
        this.records.push(record);
    }
  }

  // Acts at the present moment. What was seen of the future is forgotten, and so are later actions.
  act(what) {
    const action = `${what}@${Math.round(this.now / 1000)}`;
    const later = (text) => Number(text.split("@")[1]) > this.now / 1000;
    if (this.actions.some(later)) this.reopen(this.actions.filter((text) => !later(text)));
    const answer = this.machine(`act ${action}`);
    if (answer.error) return answer.error;
    this.records.length = Math.min(this.records.length, answer.kept);
    this.deaths = undefined;
    this.actions.push(action);
    this.horizon = this.now;
    this.seek(this.now);
    return null;
  }

  // Repeats the run with these actions, up to the present moment.
  reopen(actions) {
    this.machine(`open ${this.name} ${this.seed}`);
    for (const action of actions) this.machine(`act ${action}`);
    Object.assign(this, { actions, records: [], deaths: undefined });
    this.seek(this.now);
  }

  // The index of the first record after the present moment.
  position(now = this.now) {
    let low = 0,
      high = this.records.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.records[middle][0] <= now) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The time of the next event that matters, or the end.
  next() {
    const from = this.now;
    for (let until = from; ; until = Math.min(until + SECOND, this.end)) {
      this.view = this.machine(`seek ${until}`);
      this.fetch();
      for (let index = this.position(from); index < this.records.length; index++) {
        if (matters(this.records, index)) return this.records[index][0];
      }
      if (until >= this.end) return this.end;
    }
  }
}

// A trace file of `make prove`.
class Trace {
  constructor(file) {
    if (!isTrace(file)) throw new Error("not a trace");
    const last = file.records.at(-1)?.[0] ?? 0;
    const info = { end: last, store: file.store, candidates: file.candidates, faults: [] };
    Object.assign(this, {
      name: "trace",
      seed: file.seed,
      actions: [],
      records: file.records,
      info,
      end: last,
      horizon: last,
      now: 0,
      violation: file.violation,
      size: file.candidates.length,
    });
    this.position = Experiment.prototype.position;
    this.nameOf = letter;
    this.seek(this.violation?.at ?? 0);
  }

  seek(now) {
    this.now = Math.round(Math.min(Math.max(now, 0), this.end));
  }
  act() {
    return "a recorded trace cannot be changed";
  }

  next() {
    for (let index = this.position(); index < this.records.length; index++) {
      if (matters(this.records, index)) return this.records[index][0];
    }
    return this.end;
  }
}

// Whether a file has the form of a trace.
function isTrace(file) {
  const isTime = (value) => Number.isFinite(value) && value >= 0;
  const isRecord = (record) =>
    Array.isArray(record) &&
    isTime(record[0]) &&
    typeof record[1] === "string" &&
    (record[2] === null || file.candidates[record[2]] !== undefined) &&
    typeof record[5] === "string";
  const isViolation = (value) =>
    value === null || (isTime(value?.at) && typeof value.property === "string");
  return (
    Array.isArray(file?.candidates) &&
    file.candidates.length > 0 &&
    ["queue", "record"].includes(file.store) &&
    Array.isArray(file.records) &&
    file.records.length > 0 &&
    file.records.every(isRecord) &&
    isViolation(file.violation)
  );
}

// Whether a record is more than a heartbeat or a repetition.
function matters(records, index) {
  const [, kind, , detail, , text] = records[index];
  switch (kind) {
    case "fault":
    case "fault-end":
    case "start":
    case "exit":
    case "role":
    case "claim-end":
      return true;
    case "watch":
      return !/ watch event: (?!none)/.test(text);
    case "sent":
      return detail !== "check" && !/to renew|> read( the leader)?$/.test(text);
    case "holder":
      return true;
    default:
      return false;
  }
}
