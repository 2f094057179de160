/*
 * Draws when calls were in flight: each call is a bar in the first free lane, so that there are as
 * many lanes as calls were in flight at once. The pale part of a bar is the wait for a slot; a
 * failed call has red edges. Long gaps before a run was resumed are cut out of the line and marked.
 */

const AXIS = 22; // pixels of the scale at the top
const MIN_LANE = 1,
  MAX_LANE = 24;
const LONG_GAP = 5; // seconds between two sessions; longer gaps are cut out

function makeTimeView(canvas, see, run) {
  const view = { canvas, see, hovered: null, colours: null, keys: [], keyOf: null };
  view.redraw = oncePerFrame(() => drawTime(view));
  showRun(view, run);
  fitTime(view);
  return view;
}

/* Sets the run to show, new or updated; keeps showing all of it if all was visible. */
function showRun(view, run) {
  const whole = !view.line || view.to - view.from >= view.line.length;
  view.run = run;
  view.line = makeLine(run);
  view.lanes = assignLanes(run.calls);
  view.withFailures = run.calls.filter((call) => call.failed?.length);
  view.retried = view.withFailures.filter((call) => call.failed.some(({ retry_in_ms: pause }) => pause != null));
  view.failed = run.calls.filter(hasFailed);
  if (whole) fitTime(view);
}

/* ---- the line: seconds since the start, without long gaps between sessions ---- */

function makeLine({ run, calls, sessions, end }) {
  const starts = sessions.map((session) => session.started_at).sort((a, b) => a - b);
  const order = calls.slice().sort((a, b) => a.asked - b.asked);
  const begin = Math.min(run.started_at, order[0]?.asked ?? Infinity);
  const breaks = [];
  let busyUntil = begin,
    cut = 0;
  for (const call of order) {
    const gap = call.asked - busyUntil;
    const resumed = starts.find((start) => start > busyUntil && start <= call.asked);
    if (gap > LONG_GAP && resumed !== undefined) {
      const kept = 1;
      breaks.push({
        from: busyUntil,
        to: call.asked,
        seconds: gap,
        at: busyUntil - begin - cut + kept / 2,
      });
      cut += gap - kept;
    }
    busyUntil = Math.max(busyUntil, call.answered ?? call.asked);
  }
  const toLine = (t) => {
    let off = 0;
    for (const gap of breaks) {
      if (t >= gap.to) off += gap.seconds - 1;
      else if (t > gap.from) off += (t - gap.from) * (1 - 1 / gap.seconds);
    }
    return t - begin - off;
  };
  const length = Math.max(0.001, toLine(Math.max(end, begin)));
  for (const call of calls) {
    call.start = toLine(call.asked);
    call.stop = Math.max(call.start, toLine(call.until));
    const sent = call.sent === undefined ? call.start : toLine(call.sent);
    call.inFlightFrom = Math.min(call.stop, Math.max(call.start, sent));
  }
  return { length, breaks, toLine };
}

function assignLanes(calls) {
  const free = []; // when each lane is free again
  for (const call of calls.slice().sort((a, b) => a.start - b.start || a.index - b.index)) {
    let lane = free.findIndex((until) => until <= call.start);
    if (lane < 0) lane = free.length;
    free[lane] = Math.max(call.stop, call.start + 1e-6);
    call.lane = lane;
  }
  return free.length;
}

/* ---- camera ---- */

function clampTime(view) {
  const { length } = view.line;
  const span = Math.min(length, Math.max(view.to - view.from, length / 5000, 0.0005));
  view.from = Math.min(Math.max(view.from, 0), length - span);
  view.to = view.from + span;
}

const plotWidth = (view) => Math.max(1, view.canvas.clientWidth - 20);

function panTime(view, dx) {
  const by = (-dx / plotWidth(view)) * (view.to - view.from);
  view.from += by;
  view.to += by;
  clampTime(view);
  view.redraw();
}

function zoomTime(view, factor, x = view.canvas.clientWidth / 2) {
  const span = view.to - view.from;
  const part = (x - 10) / plotWidth(view);
  const at = view.from + part * span;
  const wanted = Math.min(view.line.length, span / factor);
  view.from = at - part * wanted;
  view.to = view.from + wanted;
  clampTime(view);
  view.redraw();
}

function fitTime(view) {
  view.from = 0;
  view.to = view.line.length;
  view.redraw();
}

function revealCall(view, call) {
  const span = view.to - view.from;
  if (call.stop < view.from || call.start > view.to) {
    view.from = (call.start + call.stop) / 2 - span / 2;
    view.to = view.from + span;
    clampTime(view);
  }
  view.redraw();
}

/* ---- colours ---- */

const STATUS_COLOUR = { ok: 'good', error: 'bad', cancelled: 'muted' };

/* Colours calls by purpose, model or status: view.keys is [{ name, count, colour }], in the order of
 * their first calls, so that a growing run keeps its colours; view.keyOf has the index of each call
 * in it. */
function colourCalls(view, by) {
  const counts = new Map();
  for (const call of view.run.calls) {
    const name = valueOf(call, by);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const names = [...counts.keys()];
  const { colours } = view;
  view.keys = names.map((name, i) => ({
    name,
    count: counts.get(name),
    colour: by === 'status' ? colours[STATUS_COLOUR[name] ?? 'wait'] : colours.hue[Math.min(i, 7)],
  }));
  const places = new Map(names.map((name, i) => [name, i]));
  view.keyOf = Uint32Array.from(view.run.calls, (call) => places.get(valueOf(call, by)));
}

function valueOf(call, by) {
  return call[by] ?? (by === 'status' ? 'no answer' : 'no purpose');
}

/* ---- places ---- */

function timeProjection(view, width, height) {
  const lane = Math.max(
    MIN_LANE,
    Math.min(MAX_LANE, (height - AXIS - 6) / Math.max(1, view.lanes)),
  );
  const scale = (width - 20) / (view.to - view.from);
  return {
    width,
    height,
    lane,
    scale,
    x: (t) => 10 + (t - view.from) * scale,
    top: (call) => AXIS + 4 + call.lane * lane,
  };
}

function callAt(view, x, y) {
  const p = timeProjection(view, view.canvas.clientWidth, view.canvas.clientHeight);
  let found = null,
    nearest = 4;
  for (const call of view.run.calls) {
    const above = y - p.top(call);
    if (above < 0 || above > p.lane) continue;
    const from = p.x(call.start),
      to = p.x(call.stop);
    const away = x < from ? from - x : x > to ? x - to : 0;
    if (away < nearest) {
      nearest = away;
      found = call;
    }
  }
  return found;
}

/* ---- drawing ---- */

function drawTime(view) {
  if (view.canvas.clientWidth === 0) return;
  fitCanvas(view.canvas);
  const { context, width, height } = beginDrawing(view.canvas);
  if (view.run.calls.length === 0) return;
  const p = timeProjection(view, width, height);
  const state = view.see();
  drawScale(view, context, p);
  drawBreaks(view, context, p);
  drawSpans(view, context, p, state);
  drawFailed(view, context, p, state);
  drawAttempts(view, context, p);
  drawChosen(view, context, p, state);
}

/* A round step of the scale, at least `min` seconds, that leaves room for labels. */
function scaleStep(min) {
  const steps = [
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400,
  ];
  if (min > 1) return steps.find((step) => step >= min) ?? Math.ceil(min / 86400) * 86400;
  const power = 10 ** Math.floor(Math.log10(min));
  return [1, 2, 5, 10].map((n) => n * power).find((step) => step >= min * 0.999);
}

function drawScale(view, context, p) {
  const step = scaleStep(84 / p.scale);
  context.font = `11px ${view.colours.sans}`;
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.fillStyle = view.colours.muted;
  context.strokeStyle = view.colours.line;
  context.lineWidth = 1;
  context.beginPath();
  for (let t = Math.ceil(view.from / step - 1e-9) * step; t <= view.to; t += step) {
    const x = Math.round(p.x(t)) + 0.5;
    context.moveTo(x, 4);
    context.lineTo(x, p.height);
    const words =
      t === 0
        ? '0'
        : step < 1
          ? showFine(t, step)
          : showSeconds(t)
              .replace(/\.0+ s$/, ' s')
              .replace(/ 0 s$/, '');
    if (x + 40 < p.width) context.fillText(words, x + 4, 11);
  }
  context.stroke();
}

function showFine(t, step) {
  if (step < 0.01) return `${(t * 1000).toFixed(step < 0.001 ? 1 : 0)} ms`;
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  return `${t.toFixed(digits)} s`;
}

function drawBreaks(view, context, p) {
  context.font = `11px ${view.colours.sans}`;
  for (const { at, seconds } of view.line.breaks) {
    const x = p.x(at);
    if (x < 0 || x > p.width) continue;
    context.strokeStyle = view.colours.line_strong;
    context.setLineDash([3, 3]);
    context.beginPath();
    context.moveTo(x, AXIS);
    context.lineTo(x, p.height);
    context.stroke();
    context.setLineDash([]);
    context.textAlign = 'center';
    context.fillStyle = view.colours.muted;
    context.fillText(`${showSeconds(seconds)} later`, x, p.height - 9);
  }
}

/* Whether a call does not match the text to find or the filter. */
function isFaded(call, { query, matches, filter }) {
  return (query !== '' && !matches.isMatch.has(call)) || !passes(call, filter);
}

const SHADES = [0.85, 0.18, 0.3]; // in flight, faded, waiting for a slot

/* Draws bars of one colour and shade as one path; merges those too narrow to distinguish. */
function drawSpans(view, context, p, state) {
  const groups = view.keys.flatMap(() => SHADES.map(() => []));
  const reached = new Float64Array(groups.length * view.lanes).fill(-Infinity);
  const last = new Uint32Array(reached.length); // index of the bar that ends there in its group
  const add = (call, shade, start, stop) => {
    const group = view.keyOf[call.index] * SHADES.length + shade;
    const slot = group * view.lanes + call.lane;
    const boxes = groups[group];
    const from = p.x(start);
    const to = Math.max(p.x(stop), from + 1.5);
    if (to - from < 3 && from - reached[slot] < 1) {
      boxes[last[slot] + 2] = Math.max(to, reached[slot]) - boxes[last[slot]];
    } else {
      last[slot] = boxes.length;
      boxes.push(from, p.top(call), to - from);
    }
    reached[slot] = Math.max(to, reached[slot]);
  };
  for (const call of view.run.calls) {
    if (call.stop < view.from || call.start > view.to) continue;
    const faded = isFaded(call, state);
    if (call.inFlightFrom > call.start) add(call, faded ? 1 : 2, call.start, call.inFlightFrom);
    add(call, faded ? 1 : 0, call.inFlightFrom, call.stop);
  }
  const high = barHeight(p);
  groups.forEach((boxes, group) => {
    context.fillStyle = view.keys[Math.floor(group / SHADES.length)].colour;
    context.globalAlpha = SHADES[group % SHADES.length];
    fillBoxes(context, boxes, high);
  });
  context.globalAlpha = 1;
}

const barHeight = (p) => Math.max(1, p.lane - (p.lane > 4 ? 2 : 0.5));

/* Marks failed calls, in every colouring. */
function drawFailed(view, context, p, state) {
  const high = barHeight(p),
    thick = Math.min(2, high / 3);
  context.fillStyle = view.colours.bad;
  for (const call of view.failed) {
    if (call.stop < view.from || call.start > view.to || isFaded(call, state)) continue;
    const from = p.x(call.start),
      wide = Math.max(p.x(call.stop) - from, 3);
    context.fillRect(from, p.top(call), wide, thick);
    context.fillRect(from, p.top(call) + high - thick, wide, thick);
  }
}

/* Fills boxes, given as a flat list of x, y and width. */
function fillBoxes(context, boxes, high) {
  context.beginPath();
  for (let i = 0; i < boxes.length; i += 3) {
    const [x, y, wide] = [boxes[i], boxes[i + 1], boxes[i + 2]];
    if (wide > 6 && high > 6) context.roundRect(x, y, wide, high, 3);
    else context.rect(x, y, wide, high);
  }
  context.fill();
}

/* Marks failed attempts by a cut across the bar. */
function drawAttempts(view, context, p) {
  const high = Math.max(3, p.lane - 1);
  for (const call of view.withFailures) {
    for (const { at } of call.failed) {
      if (at === undefined) continue;
      const x = p.x(view.line.toLine(at));
      context.fillStyle = view.colours.surface;
      context.fillRect(x - 2, p.top(call) - 1, 4, high + 1);
      context.fillStyle = view.colours.bad;
      context.fillRect(x - 1, p.top(call) - 1, 2, high + 1);
    }
  }
}

function drawChosen(view, context, p, { selected }) {
  const chosen = selected?.kind === 'call' ? [selected] : (selected?.calls ?? []);
  for (const call of [...chosen, view.hovered]) {
    if (!call) continue;
    const from = p.x(call.start),
      to = Math.max(p.x(call.stop), from + 2);
    context.strokeStyle = call === view.hovered ? view.colours.text : view.colours.choose;
    context.lineWidth = 2;
    context.strokeRect(from - 1, p.top(call) - 1, to - from + 2, Math.max(4, p.lane));
  }
}

/* Shows the names of the colours above the line. */
function showKeys(view, list) {
  const items = view.keys.slice(0, 8).map(({ name, count: n, colour }) => {
    const swatch = element('i');
    swatch.style.background = colour;
    return element('li', null, swatch, `${name} ${inGroups.format(n)}`);
  });
  const mark = (kind, words, n) => {
    if (n > 0)
      items.push(element('li', null, element('i', { class: kind }), `${words} ${inGroups.format(n)}`));
  };
  mark('failed', 'failed', view.failed.length);
  mark('retried', 'retried', view.retried.length);
  mark('queued', 'waited for a slot', view.run.calls.filter((call) => waitTime(call) > 0.001).length);
  list.replaceChildren(...items);
}
