/*
 * Draws when calls were in flight: each call is a bar in the first free lane, so that there are as
 * many lanes as calls were in flight at once. The pale part of a bar is the wait for a slot; a failed
 * call has red edges. Long gaps before a run was resumed are cut out of the line and marked.
 */

const AXIS = 22; // pixels of the scale at the top
const MAX_LANE = 24;
const LONG_GAP = 5; // seconds between two sessions; longer gaps are cut out
const SECONDS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400];

const valueOf = (call, by) => call[by] ?? (by === 'status' ? 'no answer' : 'no purpose');

/* Seconds since the start, without long gaps between sessions; sets the places of calls on it. */
function makeLine({ run, calls, sessions, end }) {
  const starts = sessions.map((session) => session.started_at).sort((a, b) => a - b);
  const order = calls.slice().sort((a, b) => a.asked - b.asked);
  const begin = Math.min(run.started_at, order[0]?.asked ?? Infinity);
  const breaks = [];
  let [busyUntil, cut] = [begin, 0];
  for (const call of order) {
    const seconds = call.asked - busyUntil;
    const resumed = starts.some((start) => start > busyUntil && start <= call.asked);
    if (seconds > LONG_GAP && resumed) {
      breaks.push({ from: busyUntil, to: call.asked, seconds, at: busyUntil - begin - cut + 0.5 });
      cut += seconds - 1;
    }
    busyUntil = Math.max(busyUntil, call.answered ?? call.asked);
  }
  const toLine = (t) => breaks.reduce((at, { from, to, seconds }) =>
    at - (t >= to ? seconds - 1 : t > from ? (t - from) * (1 - 1 / seconds) : 0), t - begin);
  const free = []; // when each lane is free again
  for (const call of order) {
    call.start = toLine(call.asked);
    call.stop = Math.max(call.start, toLine(call.until));
    const sent = call.sent === undefined ? call.start : toLine(call.sent);
    call.inFlightFrom = Math.min(call.stop, Math.max(call.start, sent));
    const lane = free.findIndex((until) => until <= call.start);
    call.lane = lane < 0 ? free.length : lane;
    free[call.lane] = Math.max(call.stop, call.start + 1e-6);
  }
  return { breaks, toLine, lanes: free.length, order,
    length: Math.max(0.001, toLine(Math.max(end, begin))) };
}

class Timeline extends Drawing {
  touched = true; // keeps its window when the size changes
  keys = []; // { name, count, colour }, in the order of first calls: a growing run keeps its colours

  /* Sets the run to show, new or updated; keeps showing all of it if all was visible. */
  show(run) {
    const whole = !this.line || this.to - this.from >= this.line.length;
    this.run = run;
    this.line = makeLine(run);
    this.retried = run.calls.filter((call) => call.failed?.length > 0);
    this.failed = run.calls.filter((call) => call.status === 'error');
    this.waited = run.calls.filter((call) => waitTime(call) > 0.001);
    this.values = Object.fromEntries(['status', 'model', 'purpose'].map((by) =>
      [by, [...new Set(run.calls.map((call) => valueOf(call, by)))].sort()]));
    if (whole) this.fit();
  }

  /* Colours calls by purpose, or by model; keyOf has the index in `keys` of each call. */
  colour() {
    const by = this.values.purpose.length > 1 ? 'purpose' : 'model';
    const counts = new Map();
    for (const call of this.run.calls) {
      const name = valueOf(call, by);
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    this.keys = [...counts].map(([name, n], i) =>
      ({ name, count: n, colour: colours.hue[Math.min(i, 7)] }));
    const places = new Map(this.keys.map(({ name }, i) => [name, i]));
    this.keyOf = Uint32Array.from(this.run.calls, (call) => places.get(valueOf(call, by)));
    this.redraw();
  }

  /* ---- the camera ---- */

  window(from, span) {
    const { length } = this.line;
    const wide = Math.min(length, Math.max(span, length / 5000, 0.0005));
    this.from = Math.min(Math.max(from, 0), length - wide);
    this.to = this.from + wide;
    this.redraw();
  }

  pan(dx) {
    const span = this.to - this.from;
    this.window(this.from - (dx / (this.canvas.clientWidth - 20)) * span, span);
  }

  zoom(factor, x = this.canvas.clientWidth / 2) {
    const span = this.to - this.from;
    const part = (x - 10) / (this.canvas.clientWidth - 20);
    const wanted = Math.min(this.line.length, span / factor);
    this.window(this.from + part * (span - wanted), wanted);
  }

  fit() {
    this.window(0, this.line.length);
  }

  reveal({ start, stop }) {
    const span = this.to - this.from;
    if (stop < this.from || start > this.to) this.window((start + stop) / 2 - span / 2, span);
  }

  project(width, height) {
    const lane = Math.max(1, Math.min(MAX_LANE, (height - AXIS - 6) / Math.max(1, this.line.lanes)));
    const scale = (width - 20) / (this.to - this.from);
    return { width, height, lane, scale, high: Math.max(1, lane - (lane > 4 ? 2 : 0.5)),
      x: (t) => 10 + (t - this.from) * scale, top: (call) => AXIS + 4 + call.lane * lane };
  }

  at(x, y) {
    const p = this.project(this.canvas.clientWidth, this.canvas.clientHeight);
    let [found, nearest] = [null, 4];
    for (const call of this.run.calls) {
      const above = y - p.top(call);
      if (above < 0 || above > p.lane) continue;
      const away = Math.max(0, p.x(call.start) - x, x - p.x(call.stop));
      if (away < nearest) [found, nearest] = [call, away];
    }
    return found && { thing: found };
  }

  tip(call) {
    return [`${callName(call)} · ${call.model}`, callFigures(call), callWords(call, this.run.texts)]
      .join('\n');
  }

  /* ---- what is drawn ---- */

  paint(context, width, height) {
    if (this.run.calls.length === 0) return;
    const p = this.project(width, height);
    this.drawScale(context, p);
    this.drawSpans(context, p);
    this.drawMarks(context, p);
  }

  drawScale(context, p) {
    const min = 84 / p.scale; // leaves room for labels
    const power = 10 ** Math.floor(Math.log10(min));
    const step = min > 1 ? SECONDS.find((n) => n >= min) ?? Math.ceil(min / 86400) * 86400
      : [1, 2, 5, 10].map((n) => n * power).find((n) => n >= min * 0.999);
    const words = (t) => {
      if (t === 0) return '0';
      if (step >= 1) return showSeconds(t).replace(/\.0+ s$/, ' s').replace(/ 0 s$/, '');
      if (step < 0.01) return `${(t * 1000).toFixed(step < 0.001 ? 1 : 0)} ms`;
      return `${t.toFixed(Math.max(0, -Math.floor(Math.log10(step))))} s`;
    };
    Object.assign(context, { font: `11px ${colours.sans}`, textBaseline: 'middle', textAlign: 'left',
      fillStyle: colours.muted, strokeStyle: colours.line, lineWidth: 1 });
    context.beginPath();
    for (let t = Math.ceil(this.from / step - 1e-9) * step; t <= this.to; t += step) {
      const x = Math.round(p.x(t)) + 0.5;
      context.moveTo(x, 4);
      context.lineTo(x, p.height);
      if (x + 40 < p.width) context.fillText(words(t), x + 4, 11);
    }
    context.stroke();
    context.setLineDash([3, 3]);
    context.textAlign = 'center';
    context.strokeStyle = colours.line_strong;
    context.beginPath();
    for (const { at, seconds } of this.line.breaks) {
      context.moveTo(p.x(at), AXIS);
      context.lineTo(p.x(at), p.height);
      context.fillText(`${showSeconds(seconds)} later`, p.x(at), p.height - 9);
    }
    context.stroke();
    context.setLineDash([]);
  }

  /* One bar for each call, the wait for a slot and the flight; none within a pixel of its lane. */
  drawSpans(context, p) {
    const { lit } = this.see();
    const reached = new Float64Array(this.line.lanes).fill(-Infinity);
    for (const call of this.line.order) {
      const from = Math.max(p.x(call.start), reached[call.lane]);
      const to = Math.max(p.x(call.stop), p.x(call.start) + 1.5);
      if (to < from + 0.5 || to < 0 || from > p.width) continue;
      const sent = Math.max(from, p.x(call.inFlightFrom));
      const faded = !lit.has(call);
      context.fillStyle = this.keys[this.keyOf[call.index]].colour;
      context.globalAlpha = faded ? 0.18 : 0.3;
      context.fillRect(from, p.top(call), sent - from, p.high);
      context.globalAlpha = faded ? 0.18 : 0.85;
      context.fillRect(sent, p.top(call), to - sent, p.high);
      reached[call.lane] = to;
    }
    context.globalAlpha = 1;
  }

  /* Failed calls, failed attempts (a cut across the bar), and what is selected or hovered. */
  drawMarks(context, p) {
    const { lit, selected } = this.see();
    const thick = Math.min(2, p.high / 3);
    context.fillStyle = colours.bad;
    for (const call of this.failed) {
      if (call.stop < this.from || call.start > this.to || !lit.has(call)) continue;
      const wide = Math.max(p.x(call.stop) - p.x(call.start), 3);
      context.fillRect(p.x(call.start), p.top(call), wide, thick);
      context.fillRect(p.x(call.start), p.top(call) + p.high - thick, wide, thick);
    }
    for (const call of this.retried) {
      for (const { at } of call.failed) {
        if (at === undefined) continue;
        const x = p.x(this.line.toLine(at));
        context.fillStyle = colours.surface;
        context.fillRect(x - 2, p.top(call) - 1, 4, p.high + 2);
        context.fillStyle = colours.bad;
        context.fillRect(x - 1, p.top(call) - 1, 2, p.high + 2);
      }
    }
    const calls = selected?.kind === 'call' ? [selected] : (selected?.calls ?? []);
    context.lineWidth = 2;
    for (const call of this.hovered ? [...calls, this.hovered] : calls) {
      context.strokeStyle = call === this.hovered ? colours.text : colours.choose;
      const wide = Math.max(p.x(call.stop) - p.x(call.start), 2) + 2;
      context.strokeRect(p.x(call.start) - 1, p.top(call) - 1, wide, Math.max(4, p.lane));
    }
  }
}
