/*
 * Drawings on a canvas: sizes, colours, gestures (Drawing, Canvas), and the drawing of a search
 * (Tree). What is out of view is skipped. A list beside each drawing shows the same for keyboards and
 * screen readers.
 */

/* Resolves the style sheet's colours for a canvas; called again when the theme changes. */
let colours;
function readColours() {
  const list = (name, n) => Array.from({ length: n }, (_, i) => colourOf(`${name}-${i}`));
  colours = { ramp: makeRamp(list('score', 3)), hue: list('hue', 8) };
  for (const name of ['surface', 'line', 'line-strong', 'text', 'muted', 'choose', 'choose-soft',
    'best', 'best-soft', 'match', 'match-text', 'bad', 'good', 'wait', 'edge', 'extra', 'unscored']) {
    colours[name.replace('-', '_')] = colourOf(name);
  }
  const style = getComputedStyle(document.documentElement);
  for (const name of ['sans', 'mono']) colours[name] = style.getPropertyValue(`--${name}`);
}
theme.changed = readColours;

const RAMP_STEPS = 24;

/* The three colours of the ramp, and those between. */
function makeRamp(stops) {
  const channels = stops.map((colour) => colour.match(/[\d.]+/g).slice(0, 3).map(Number));
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

const scoreColour = (step) => (step < 0 ? colours.unscored : colours.ramp[step]);

/* Shortens a text to a width in the context's font. */
function shorten(context, text, room) {
  if (room <= 0 || text === '') return '';
  const whole = context.measureText(text).width;
  if (whole <= room) return text;
  let length = Math.floor((text.length * room) / whole);
  while (length > 0 && context.measureText(`${text.slice(0, length)}…`).width > room) length -= 1;
  return length > 0 ? `${text.slice(0, length).trimEnd()}…` : '';
}

/*
 * What a canvas shows. A drawing has paint(context, width, height), pan(dx, dy), zoom(factor, x, y),
 * fit(), at(x, y), which returns { thing, handle? } or null, and tip(thing). `see` returns the state.
 */
class Drawing {
  canvas = null;
  hovered = null;
  waiting = false;

  constructor(see) {
    this.see = see;
  }

  /* Draws in the next frame. */
  redraw() {
    if (this.waiting || !this.canvas) return;
    this.waiting = true;
    requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.waiting = false;
    const { canvas } = this;
    if (!canvas?.clientWidth) return;
    const scale = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    const size = [Math.round(width * scale), Math.round(height * scale)];
    if (canvas.width !== size[0] || canvas.height !== size[1]) {
      [canvas.width, canvas.height] = size;
      if (!this.touched) this.fit();
    }
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.paint(context, width, height);
  }

  /* Shows a tooltip for what is at a place; for none, hides it. */
  hover(x, y) {
    const found = x === undefined ? null : (this.at(x, y)?.thing ?? null);
    if (found !== this.hovered) this.redraw();
    this.hovered = found;
    this.canvas.classList.toggle('pointing', found !== null);
    const box = this.canvas.getBoundingClientRect();
    showTip(found ? this.tip(found) : '', box.left + (x ?? 0), box.top + (y ?? 0));
  }
}

const CLICK_SLOP = 4; // pixels that a click may move

/* A canvas with a drawing: drag, wheel and pinch move it; onPick(found) is a click. */
class Canvas extends Component {
  canvas = createRef();

  componentDidMount() {
    const { current: canvas } = this.canvas;
    this.props.view.canvas = canvas;
    this.watch(canvas, this.props.view);
    this.observer = new ResizeObserver(() => this.props.view.draw()); // before the next frame
    this.observer.observe(canvas);
  }

  componentDidUpdate() {
    this.props.view.redraw();
  }

  render({ id, label, onKey }) {
    return html`<canvas id=${id} ref=${this.canvas} tabindex="0" role="img" aria-label=${label}
      onKeyDown=${onKey}></canvas>`;
  }

  watch(canvas, view) {
    const pointers = new Map();
    let travelled = 0;
    const move = (act, ...how) => {
      view.hover();
      view[act](...how);
    };
    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    const pinch = () => {
      const [a, b] = [...pointers.values()];
      return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, span: Math.hypot(a.x - b.x, a.y - b.y) };
    };
    const on = (names, act) => names.split(' ').forEach((name) => canvas.addEventListener(name, act,
      { passive: false }));
    on('pointerdown', (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      if (pointers.size === 0) travelled = 0;
      pointers.set(event.pointerId, place(event));
    });
    on('pointermove', (event) => {
      const now = place(event);
      const before = pointers.get(event.pointerId);
      if (!before) view.hover(now.x, now.y);
      else if (pointers.size === 1) {
        travelled += Math.hypot(now.x - before.x, now.y - before.y);
        pointers.set(event.pointerId, now);
        if (travelled <= CLICK_SLOP) return;
        canvas.classList.add('dragging');
        move('pan', now.x - before.x, now.y - before.y);
      } else {
        const from = pinch();
        pointers.set(event.pointerId, now);
        const to = pinch();
        travelled = Infinity;
        move('pan', to.x - from.x, to.y - from.y);
        if (from.span > 0) move('zoom', to.span / from.span, to.x, to.y);
      }
    });
    on('pointerup pointercancel', (event) => {
      if (!pointers.delete(event.pointerId)) return;
      canvas.classList.remove('dragging');
      if (event.type !== 'pointerup' || pointers.size > 0 || travelled > CLICK_SLOP) return;
      const { x, y } = place(event);
      this.props.onPick(view.at(x, y));
    });
    on('pointerleave', () => view.hover());
    on('wheel', (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const lines = event.deltaMode === 1 ? 18 : 1;
      if (event.shiftKey) move('pan', -(event.deltaX || event.deltaY) * lines, 0);
      else move('zoom', Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018)), x, y);
    });
  }
}
