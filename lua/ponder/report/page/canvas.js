/* Shared by both drawings: canvas size, colours of the style sheet, gestures. */

/* Resolves the style sheet's colours for the canvas; called again when the theme changes. */
function readColours() {
  const probe = element('span', { hidden: true });
  document.body.append(probe);
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const list = (name, n) => Array.from({ length: n }, (_, i) => colour(`${name}-${i}`));
  const colours = { score: list('score', 3), hue: list('hue', 8) };
  for (const name of [
    'ground',
    'surface',
    'sunk',
    'line',
    'line-strong',
    'text',
    'muted',
    'choose',
    'choose-soft',
    'best',
    'best-soft',
    'match',
    'match-text',
    'bad',
    'good',
    'wait',
    'edge',
    'extra',
    'unscored',
  ]) {
    colours[name.replace('-', '_')] = colour(name);
  }
  colours.ramp = makeRamp(colours.score);
  const style = getComputedStyle(document.documentElement);
  colours.sans = style.getPropertyValue('--sans');
  colours.mono = style.getPropertyValue('--mono');
  probe.remove();
  return colours;
}

const RAMP_STEPS = 24;

/* Interpolates the three colours of the ramp in equal steps. */
function makeRamp(stops) {
  const channels = stops.map((colour) =>
    colour
      .match(/[\d.]+/g)
      .slice(0, 3)
      .map(Number),
  );
  return Array.from({ length: RAMP_STEPS }, (_, step) => {
    const at = (step / (RAMP_STEPS - 1)) * (stops.length - 1);
    const i = Math.min(Math.floor(at), stops.length - 2);
    const mixed = channels[i].map((c, k) => Math.round(c + (channels[i + 1][k] - c) * (at - i)));
    return `rgb(${mixed.join(', ')})`;
  });
}

/* The step of a score on the ramp; -1: no score. */
function rampStep(score, range) {
  if (score === undefined) return -1;
  if (!range) return score > 0 ? RAMP_STEPS - 1 : 0;
  const part = range.high > range.low ? (score - range.low) / (range.high - range.low) : 1;
  return Math.round(Math.min(1, Math.max(0, part)) * (RAMP_STEPS - 1));
}

/* Resizes the canvas to the screen's pixels; returns whether the size changed. */
function fitCanvas(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * scale),
    height = Math.round(canvas.clientHeight * scale);
  if (canvas.width === width && canvas.height === height) return false;
  canvas.width = width;
  canvas.height = height;
  return true;
}

/* Clears the canvas and returns its context, and its size in CSS pixels. */
function beginDrawing(canvas) {
  const context = canvas.getContext('2d');
  const scale = window.devicePixelRatio || 1;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  const width = canvas.width / scale,
    height = canvas.height / scale;
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/* Limits redraws to one per frame. */
function oncePerFrame(draw) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      draw();
    });
  };
}

const CLICK_SLOP = 4; // pixels that a click may move

/*
 * Drags, wheel and pinches become actions.pan(dx, dy), actions.zoom(factor, x, y),
 * actions.hover(x, y) (undefined when the pointer leaves), actions.click(x, y).
 */
function watchGestures(canvas, { pan, zoom, hover, click }) {
  // Panning and zooming hide the tooltip.
  const actions = {
    hover,
    click,
    pan: (...how) => {
      hover();
      pan(...how);
    },
    zoom: (...how) => {
      hover();
      zoom(...how);
    },
  };
  const pointers = new Map();
  let travelled = 0;

  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const pinch = () => {
    const [a, b] = [...pointers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, span: Math.hypot(a.x - b.x, a.y - b.y) };
  };

  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    canvas.setPointerCapture(event.pointerId);
    if (pointers.size === 0) travelled = 0;
    pointers.set(event.pointerId, place(event));
  });
  canvas.addEventListener('pointermove', (event) => {
    const now = place(event),
      before = pointers.get(event.pointerId);
    if (!before) {
      actions.hover(now.x, now.y);
    } else if (pointers.size === 1) {
      travelled += Math.hypot(now.x - before.x, now.y - before.y);
      pointers.set(event.pointerId, now);
      if (travelled <= CLICK_SLOP) return;
      canvas.classList.add('dragging');
      actions.pan(now.x - before.x, now.y - before.y);
    } else {
      const from = pinch();
      pointers.set(event.pointerId, now);
      const to = pinch();
      travelled = Infinity;
      actions.pan(to.x - from.x, to.y - from.y);
      if (from.span > 0) actions.zoom(to.span / from.span, to.x, to.y);
    }
  });
  const release = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    canvas.classList.remove('dragging');
    if (event.type === 'pointerup' && pointers.size === 0 && travelled <= CLICK_SLOP) {
      const { x, y } = place(event);
      actions.click(x, y);
    }
  };
  canvas.addEventListener('pointerup', release);
  canvas.addEventListener('pointercancel', release);
  canvas.addEventListener('pointerleave', () => actions.hover());
  canvas.addEventListener(
    'wheel',
    (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const lines = event.deltaMode === 1 ? 18 : 1;
      if (event.shiftKey) actions.pan(-(event.deltaX || event.deltaY) * lines, 0);
      else actions.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018)), x, y);
    },
    { passive: false },
  );
}

/* Shows a tooltip beside the pointer, inside the window; an empty text hides it. */
function showTip(text, x, y) {
  const tip = byElementId('tip');
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const left = Math.min(x + 14, window.innerWidth - tip.offsetWidth - 8);
  const top = y + 18 + tip.offsetHeight > window.innerHeight ? y - tip.offsetHeight - 10 : y + 18;
  tip.style.left = `${Math.max(8, left)}px`;
  tip.style.top = `${Math.max(8, top)}px`;
}

/* Shortens a text to a width in the context's font. */
function shorten(context, text, room) {
  if (room <= 0 || text === '') return '';
  const whole = context.measureText(text).width;
  if (whole <= room) return text;
  let length = Math.floor((text.length * room) / whole);
  while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return length > 0 ? `${text.slice(0, length).trimEnd()}…` : '';
}
