// The timeline: true time from left to right, one lane for each process.

const LANE = 38,
  GUTTER = 44,
  AXIS = 20,
  LEADERS = 16,
  STORE = 18;

class TimeLine {
  constructor(canvas, cause) {
    Object.assign(this, { canvas, cause, hover: null, cursor: null });
    canvas.addEventListener("pointermove", (event) => {
      this.hover = event;
      this.explain();
    });
    canvas.addEventListener("pointerleave", () => {
      this.hover = null;
      this.explain();
    });
    canvas.addEventListener("focus", () => this.moveTo({ candidate: 0, time: this.last.now }));
    canvas.addEventListener("blur", () => this.moveTo(null));
    canvas.addEventListener("keydown", (event) => this.press(event));
    this.explain();
  }

  // Up and down choose a lane. Left and right go to its last and next event that was seen.
  press(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[
      event.key
    ];
    if (!step || !this.cursor) return;
    event.preventDefault();
    const lanes = this.last.size + 1,
      candidate = (this.cursor.candidate + step[0] + lanes) % lanes;
    const time =
      step[1] === 0 ? this.cursor.time : nextCause(this.last, candidate, this.cursor.time, step[1]);
    this.moveTo({ candidate, time });
  }

  moveTo(cursor) {
    this.cursor = cursor;
    this.draw(this.last);
    this.explain();
  }

  // The times at the left and right edges.
  window(experiment) {
    const width =
      experiment.info.store === "network" ? experiment.end : Math.min(experiment.end, 60 * SECOND);
    const from = Math.min(Math.max(0, experiment.now - width * 0.7), experiment.end - width);
    return [from, from + width];
  }

  time(experiment, x) {
    const [from, until] = this.window(experiment);
    return from + ((until - from) * (x - GUTTER)) / (this.canvas.clientWidth - GUTTER - 8);
  }

  draw(experiment) {
    const model = this.model(experiment),
      isNetwork = experiment.info.store === "network";
    const { canvas } = this,
      scale = devicePixelRatio || 1;
    const width = canvas.clientWidth,
      height = LEADERS + LANE * model.lanes.length + STORE + AXIS + 8;
    if (
      canvas.width !== Math.round(width * scale) ||
      canvas.height !== Math.round(height * scale)
    ) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
      this.colors = null;
    }
    const pen = canvas.getContext("2d"),
      color = this.palette();
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px system-ui, sans-serif";
    const [from, until] = this.window(experiment);
    const x = (time) =>
      GUTTER +
      ((width - GUTTER - 8) * (Math.min(Math.max(time, from), until) - from)) / (until - from);
    const limit = experiment.horizon;
    const bar = (list, top, tall, fill) => {
      pen.fillStyle = fill;
      for (const [start, stop] of list) {
        if (stop < from || start > until) continue;
        const left = x(start),
          right = x(Math.min(stop, limit));
        if (right > left) pen.fillRect(left, top, right - left, tall);
      }
    };
    model.lanes.forEach((lane, candidate) => {
      const top = LEADERS + candidate * LANE;
      pen.fillStyle = color.ink;
      pen.fillText(experiment.nameOf(candidate), 8, top + 26);
      bar(lane.up, top + 12, LANE - 14, color.idle);
      bar(lane.claim, top + 12, LANE - 14, isNetwork ? color.lead : color.soft);
      bar(lane.promise, top + 18, LANE - 26, color.lead);
      this.hatch(pen, lane.pause, x, limit, top, color);
      this.dash(pen, lane.cut, x, limit, top + LANE - 3, color);
      pen.fillStyle = color.ink;
      for (const [start, , off] of lane.clock) {
        if (start <= limit)
          pen.fillText(
            `clock ${off > 0 ? "+" : "−"}${Math.abs(Math.round(off / 1000) / 10)}%`,
            x(start),
            top + 10,
          );
      }
    });
    bar(model.overlaps, 2, LEADERS - 4, color.wrong);
    for (const [start, stop] of model.overlaps) {
      if (x(Math.min(stop, limit)) > x(start))
        bar([[start, stop]], LEADERS + 2, LANE * model.lanes.length - 4, color.veil);
    }
    if (!isNetwork) this.store(pen, model, x, limit, color);
    this.axis(pen, from, until, x, width, height, color);
    const violation = experiment.view ? experiment.view.violation : experiment.violation;
    if (violation && violation.at <= limit) {
      pen.fillStyle = color.wrong;
      pen.fillRect(x(violation.at) - 1, 0, 2, height - AXIS);
    }
    pen.fillStyle = color.ink;
    pen.fillRect(x(experiment.now) - 1, 0, 2, height - AXIS);
    if (this.cursor) {
      pen.strokeStyle = color.ink;
      pen.lineWidth = 2;
      pen.strokeRect(
        x(this.cursor.time) - 5,
        LEADERS + this.cursor.candidate * LANE + 8,
        10,
        LANE - 6,
      );
      pen.lineWidth = 1;
    }
    if (this.last !== experiment && this.cursor)
      this.cursor = { candidate: 0, time: experiment.now };
    this.last = experiment;
    if (this.hover || this.cursor) this.explain();
  }

  store(pen, model, x, limit, color) {
    const top = LEADERS + LANE * model.lanes.length;
    for (const [at, until, kind] of model.store) {
      if (at > limit) continue;
      pen.fillStyle = kind === "version" ? color.muted : kind === "fault" ? color.wrong : color.ink;
      if (kind === "fault")
        pen.fillRect(x(at), top + 6, Math.max(2, x(Math.min(until, limit)) - x(at)), 6);
      else
        pen.fillRect(
          x(at),
          top + (kind === "version" ? 6 : 2),
          kind === "version" ? 1 : 2,
          kind === "version" ? 6 : 14,
        );
    }
    pen.fillStyle = color.ink;
    pen.fillText("store", 8, top + 13);
  }

  axis(pen, from, until, x, width, height, color) {
    pen.fillStyle = color.muted;
    const room = Math.max(1, (width - GUTTER) / 70),
      steps = [1, 2, 5, 10, 20, 60, 120, 300];
    const step = steps.find((step) => (until - from) / SECOND / step <= room) ?? 600;
    for (let tick = Math.ceil(from / SECOND / step) * step; tick * SECOND <= until; tick += step) {
      const left = x(tick * SECOND);
      pen.fillRect(left, height - AXIS, 1, 4);
      if (left < width - 24) pen.fillText(`${tick} s`, left + 3, height - 4);
    }
  }

  hatch(pen, list, x, limit, top, color) {
    pen.strokeStyle = color.muted;
    for (const [start, stop] of list) {
      const left = x(start),
        right = x(Math.min(stop, limit));
      if (right <= left) continue;
      pen.save();
      pen.beginPath();
      pen.rect(left, top + 12, right - left, LANE - 14);
      pen.clip();
      pen.beginPath();
      for (let at = left - LANE; at < right; at += 6) {
        pen.moveTo(at, top + LANE);
        pen.lineTo(at + LANE, top);
      }
      pen.stroke();
      pen.restore();
    }
  }

  dash(pen, list, x, limit, y, color) {
    pen.fillStyle = color.wrong;
    for (const [start, stop] of list) {
      for (let at = x(start); at < x(Math.min(stop, limit)); at += 8) pen.fillRect(at, y - 2, 5, 2);
    }
  }

  // The intervals, computed again only when there is more to see.
  model(experiment) {
    const seen = experiment.position(experiment.horizon);
    const key = `${experiment.records.length} ${seen} ${experiment.actions}`;
    if (this.key !== key || this.of !== experiment) {
      Object.assign(this, { key, of: experiment, cached: intervalsOf(experiment) });
    }
    return this.cached;
  }

  palette() {
    if (!this.colors) {
      const style = getComputedStyle(document.documentElement);
      const of = (name) => style.getPropertyValue(`--${name}`).trim();
      this.colors = {
        ink: of("ink"),
        muted: of("muted"),
        idle: of("idle"),
        soft: of("lead-soft"),
        lead: of("lead"),
        wrong: of("wrong"),
        veil: `${of("wrong")}44`,
      };
    }
    return this.colors;
  }

  // Tells the cause of what is under the pointer or the cursor: the last event that changed this
  // lane.
  explain() {
    const experiment = this.last;
    if (this.cursor && !this.hover) {
      const { candidate, time } = this.cursor,
        lane = candidate < experiment.size ? experiment.nameOf(candidate) : "store";
      const cause = causeAt(experiment, candidate, Math.min(time, experiment.horizon));
      this.say(`${lane}: ${cause || "nothing yet"}`);
    } else if (!experiment || !this.hover) {
      this.say("Point at the timeline, or focus it and use the arrow keys, to see the cause.");
    } else this.explainPointer(experiment);
  }

  explainPointer(experiment) {
    const box = this.canvas.getBoundingClientRect();
    const time = this.time(experiment, this.hover.clientX - box.left);
    const candidate = Math.floor((this.hover.clientY - box.top - LEADERS) / LANE);
    this.say(causeAt(experiment, candidate, Math.min(time, experiment.horizon)));
  }

  say(text) {
    if (this.cause.textContent !== text) this.cause.textContent = text;
  }
}

// Whether a record explains the state of this candidate, or of the store after the last one.
function explains([, kind, of, , , text], candidate, experiment) {
  const isStore = candidate < 0 || candidate >= experiment.size;
  return (
    text &&
    (isStore
      ? kind === "performed" || (/^fault/.test(kind) && of === null)
      : of === candidate &&
        ["claim", "claim-end", "role", "fault", "fault-end", "exit", "start", "watch"].includes(
          kind,
        ))
  );
}

// The time of the last or next event that was seen and explains a state; `time` without one.
function nextCause(experiment, candidate, time, direction) {
  const { records } = experiment,
    seen = experiment.position(experiment.horizon);
  let index = direction > 0 ? experiment.position(time) : experiment.position(time - 1) - 1;
  for (; index >= 0 && index < seen; index += direction) {
    if (explains(records[index], candidate, experiment)) return records[index][0];
  }
  return time;
}

// The last event before `time` that explains the state of this candidate, or of the store.
function causeAt(experiment, candidate, time) {
  for (let index = experiment.position(time) - 1; index >= 0; index--) {
    if (explains(experiment.records[index], candidate, experiment))
      return tidy(experiment.records[index][5]);
  }
  return "";
}

// A line of a trace without its frame.
const tidy = (text) =>
  text
    .replace(/^----\n/, "")
    .replace(/^at (\d+\.\d\d)\d*s/, "$1 s:")
    .replace(/ \(its clock: [^)]*\)/, "");
