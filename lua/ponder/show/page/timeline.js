/*
 * Draws when calls were in flight: each call is a bar in the first free lane, so that there are as
 * many lanes as calls were in flight at once. The pale part of a bar is the wait for a slot; a failed
 * call has red edges. Long gaps before a run was resumed are cut out of the line and marked.
 */

const AXIS = 22; // pixels of the scale at the top
const MAX_LANE = 24;
const LONG_GAP = 5; // seconds between two sessions; longer gaps are cut out
const STEPS = [-4, -3, -2, -1].flatMap((power) => [1, 2, 5].map((n) => n * 10 ** power))
  .concat(1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400);

const valueOf = (call, by) => call[by] ?? (by === 'status' ? 'no answer' : 'no purpose');

/* Seconds since the start, without long gaps between sessions; sets the places of calls on it. */
function makeLine({ run, calls, sessions, end }) {
  const starts = sessions.map((session) => session.started_at).sort((a, b) => a - b);
  const order = calls.slice().sort((a, b) => a.asked_at - b.asked_at);
  const begin = Math.min(run.started_at, order[0]?.asked_at ?? Infinity);
  const breaks = [];
  let [busyUntil, cut] = [begin, 0];
  for (const call of order) {
    const seconds = call.asked_at - busyUntil;
    const resumed = starts.some((start) => start > busyUntil && start <= call.asked_at);
    if (seconds > LONG_GAP && resumed) {
      const at = busyUntil - begin - cut + 0.5;
      breaks.push({ from: busyUntil, to: call.asked_at, seconds, at });
      cut += seconds - 1;
    }
    busyUntil = Math.max(busyUntil, call.answered_at ?? call.asked_at);
  }
  const toLine = (t) => breaks.reduce((at, { from, to, seconds }) =>
    at - (t >= to ? seconds - 1 : t > from ? (t - from) * (1 - 1 / seconds) : 0), t - begin);
  const free = []; // when each lane is free again
  for (const call of order) {
    call.start = toLine(call.asked_at);
    call.stop = Math.max(call.start, toLine(call.until));
    const sent = call.sent_at === undefined ? call.start : toLine(call.sent_at);
    call.inFlightFrom = Math.min(call.stop, Math.max(call.start, sent));
    const lane = free.findIndex((until) => until <= call.start);
    call.lane = lane < 0 ? free.length : lane;
    free[call.lane] = Math.max(call.stop, call.start + 1e-6);
  }
  return { breaks, toLine, lanes: free.length, order,
    length: Math.max(0.001, toLine(Math.max(end, begin))) };
}

class Timeline extends View {
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
    this.by = this.values.purpose.length > 1 ? 'purpose' : 'model'; // what the colours mean
    this.keyOf = new Map();
    for (const call of run.calls) {
      const name = valueOf(call, this.by);
      const key = this.keyOf.get(name) ?? { name, count: 0, colour: hue(this.keyOf.size) };
      key.count += 1;
      this.keyOf.set(name, key);
    }
    this.keys = [...this.keyOf.values()];
    if (whole) this.fit();
  }

  colourOf(call) {
    return this.keyOf.get(valueOf(call, this.by)).colour;
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
    this.window(this.from - (dx / (this.width - 20)) * span, span);
  }

  zoom(factor, x = this.width / 2) {
    const span = this.to - this.from;
    const wanted = Math.min(this.line.length, span / factor);
    this.window(this.from + ((x - 10) / (this.width - 20)) * (span - wanted), wanted);
  }

  fit() {
    this.window(0, this.line.length);
  }

  reveal({ start, stop }) {
    const span = this.to - this.from;
    if (stop < this.from || start > this.to) this.window((start + stop) / 2 - span / 2, span);
  }

  project() {
    const lanes = Math.max(1, this.line.lanes);
    const lane = Math.max(1, Math.min(MAX_LANE, (this.height - AXIS - 6) / lanes));
    const scale = (this.width - 20) / (this.to - this.from);
    return { lane, scale, high: Math.max(1, lane - (lane > 4 ? 2 : 0.5)),
      x: (t) => 10 + (t - this.from) * scale, top: (call) => AXIS + 4 + call.lane * lane };
  }

  at(x, y) {
    const p = this.project();
    let [found, nearest] = [null, 4];
    for (const call of this.run.calls) {
      const above = y - p.top(call);
      if (above < 0 || above > p.lane) continue;
      const away = Math.max(0, p.x(call.start) - x, x - p.x(call.stop));
      if (away < nearest) [found, nearest] = [call, away];
    }
    return found;
  }

  tip(call) {
    return [`${callName(call)} · ${call.model}`, callFigures(call), callWords(call, this.run.texts)]
      .join('\n');
  }

  /* ---- what is drawn ---- */

  paint() {
    const p = this.project();
    return html`<svg>${this.scale(p)}${this.bars(p)}${this.marks(p)}</svg>`;
  }

  scale(p) {
    const min = 84 / p.scale; // leaves room for labels
    const step = STEPS.find((n) => n >= min) ?? Math.ceil(min / 86400) * 86400;
    const words = (t) => showSeconds(t).replace(/^0 ms/, '0').replace(/\.0+ s$| 0 s$/, (end) =>
      (end[0] === '.' ? ' s' : ''));
    const ticks = [];
    for (let t = Math.ceil(this.from / step - 1e-9) * step; t <= this.to; t += step) ticks.push(t);
    return [html`<path class="tick" d=${ticks.map((t) =>
      `M${Math.round(p.x(t)) + 0.5} 4V${this.height}`).join('')} />`,
    ticks.filter((t) => p.x(t) + 40 < this.width).map((t) =>
      html`<text x=${Math.round(p.x(t)) + 4.5} y="15">${words(t)}</text>`),
    this.line.breaks.map(({ at, seconds }) => html`<path class="gap"
      d="M${p.x(at)} ${AXIS}V${this.height}" /><text x=${p.x(at)} y=${this.height - 6}
      text-anchor="middle">${showSeconds(seconds)} later</text>`)];
  }

  /* One bar for each call, the wait for a slot and the flight; none within a pixel of its lane. */
  bars(p) {
    const { lit } = this.see();
    const reached = new Float64Array(this.line.lanes).fill(-Infinity);
    const shapes = new Map(); // by colour and opacity
    const add = (fill, opacity, from, to, call) => {
      const key = `${fill} ${opacity}`;
      const shape = shapes.get(key) ?? { fill, opacity, d: '' };
      shape.d += box(from, p.top(call), to - from, p.high);
      shapes.set(key, shape);
    };
    for (const call of this.line.order) {
      const from = Math.max(p.x(call.start), reached[call.lane]);
      const to = Math.max(p.x(call.stop), p.x(call.start) + 1.5);
      if (to < from + 0.5 || to < 0 || from > this.width) continue;
      const sent = Math.max(from, p.x(call.inFlightFrom));
      const [fill, isLit] = [this.colourOf(call), lit.has(call)];
      if (sent > from) add(fill, isLit ? 0.3 : 0.18, from, sent, call);
      add(fill, isLit ? 0.85 : 0.18, sent, to, call);
      reached[call.lane] = to;
    }
    return [...shapes.values()].map(({ d, fill, opacity }) =>
      html`<path d=${d} style=${{ fill, opacity }} />`);
  }

  /* Failed calls, failed attempts (a cut across the bar), and what is selected or hovered. */
  marks(p) {
    const { lit, selected } = this.see();
    const thick = Math.min(2, p.high / 3);
    const around = (call, more) => [p.x(call.start) - more, p.top(call) - more,
      Math.max(p.x(call.stop) - p.x(call.start), 2) + 2 * more];
    const failed = this.failed.filter((call) => lit.has(call)).map((call) => {
      const [x, y, wide] = around(call, 0);
      return box(x, y, wide, thick) + box(x, y + p.high - thick, wide, thick);
    });
    const retried = this.retried.flatMap((call) => call.failed.filter(({ at }) => at !== undefined)
      .map(({ at }) => `M${short(p.x(this.line.toLine(at)))} ${p.top(call)}v${p.high}`)).join('');
    const chosen = selected?.kind === 'call' ? [selected] : (selected?.calls ?? []);
    const outlines = (kind, calls) => html`<path class="edge near ${kind}" d=${calls.map((call) =>
      box(...around(call, 1), Math.max(4, p.lane))).join('')} />`;
    return html`<path class="failed" d=${failed.join('')} /><path class="cut" d=${retried} /><path
      class="retried" d=${retried} />${outlines('choose', chosen)}${
      outlines('', this.hovered ? [this.hovered] : [])}`;
  }
}
