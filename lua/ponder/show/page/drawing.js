/*
 * Drawings that can be dragged, zoomed with the wheel and pinched: SVG, and what lies on it. A list
 * beside each shows the same for keyboards and screen readers.
 */

/*
 * The base of what is drawn. It has paint(), pan(dx, dy), zoom(factor, x, y), fit(), at(x, y), which
 * returns what is there or null, and tip(thing). `see` returns the state of the page.
 */
class View {
  width = 0;
  height = 0;
  hovered = null;
  touched = false; // by the user, who no longer sees everything

  constructor(see) {
    this.see = see;
  }

  redraw() {
    this.stage?.setState({});
  }

  hover(thing) {
    const changed = thing !== this.hovered;
    this.hovered = thing;
    if (changed) this.redraw();
  }
}

/* Outlines of shapes, rounded to a tenth of a pixel. */
const short = (n) => Math.round(n * 10) / 10;
const box = (x, y, wide, high) =>
  `M${short(x)} ${short(y)}h${short(wide)}v${short(high)}h${short(-wide)}z`;

/* The colour of a score, in steps: equal ones are one shape. */
function scoreColour(score, range) {
  if (score === undefined) return 'var(--unscored)';
  const part = !range ? Number(score > 0)
    : range.high > range.low ? (score - range.low) / (range.high - range.low) : 1;
  const at = Math.round(Math.min(1, Math.max(0, part)) * 24) / 12; // between the ramp's 3 colours
  const i = Math.min(1, Math.floor(at));
  return `color-mix(in srgb, var(--score-${i + 1}) ${Math.round((at - i) * 100)}%, var(--score-${i}))`;
}

const CLICK_SLOP = 4; // pixels that a click may move

/* The element of a view; onPick(thing, element) is a click. */
class Stage extends Component {
  element = createRef();

  componentDidMount() {
    const { props: { view }, element: { current: element } } = this;
    view.stage = this;
    this.watch(element, view);
    const resize = () => {
      Object.assign(view, { width: element.clientWidth, height: element.clientHeight });
      if (!view.touched) view.fit();
      view.redraw();
    };
    new ResizeObserver(resize).observe(element);
    resize();
  }

  render({ id, label, view, children }) {
    const keys = { '+': () => view.zoom(1.4), '=': () => view.zoom(1.4), '-': () => view.zoom(1 / 1.4),
      0: () => view.fit() };
    return html`<div id=${id} ref=${this.element} class="stage ${view.hovered ? 'pointing' : ''}"
      tabindex="0" role="img" aria-label=${label} title=${view.hovered && view.tip(view.hovered)}
      onKeyDown=${(event) => {
        if (hasModifier(event) || !Object.hasOwn(keys, event.key)) return;
        event.preventDefault();
        view.hover(null);
        keys[event.key]();
      }}>${view.width > 0 && view.paint()}${children}</div>`;
  }

  watch(element, view) {
    const pointers = new Map();
    let [travelled, pressed] = [0, null];
    const on = (names, act) => names.split(' ').forEach((name) =>
      element.addEventListener(name, act, { passive: false }));
    const move = (act, ...how) => {
      view.hover(null);
      view[act](...how);
    };
    const place = (event) => {
      const { left, top } = element.getBoundingClientRect();
      return { x: event.clientX - left, y: event.clientY - top };
    };
    const pinch = () => {
      const [a, b] = [...pointers.values()];
      return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, span: Math.hypot(a.x - b.x, a.y - b.y) };
    };
    on('pointerdown', (event) => {
      if (event.button !== 0) return;
      element.setPointerCapture(event.pointerId);
      if (pointers.size === 0) [travelled, pressed] = [0, event.target];
      pointers.set(event.pointerId, place(event));
    });
    on('pointermove', (event) => {
      const [before, now] = [pointers.get(event.pointerId), place(event)];
      if (!before) return view.hover(view.at(now.x, now.y));
      const from = pointers.size > 1 && pinch();
      pointers.set(event.pointerId, now);
      if (from) {
        const to = pinch();
        travelled = Infinity;
        move('pan', to.x - from.x, to.y - from.y);
        if (from.span > 0) move('zoom', to.span / from.span, to.x, to.y);
      } else {
        travelled += Math.hypot(now.x - before.x, now.y - before.y);
        if (travelled > CLICK_SLOP) move('pan', now.x - before.x, now.y - before.y);
      }
    });
    on('pointerup pointercancel', (event) => {
      if (!pointers.delete(event.pointerId) || event.type !== 'pointerup' || pointers.size > 0
        || travelled > CLICK_SLOP) return;
      const { x, y } = place(event);
      this.props.onPick(view.at(x, y), pressed);
    });
    on('pointerleave', () => view.hover(null));
    on('wheel', (event) => {
      event.preventDefault();
      const { x, y } = place(event);
      const lines = event.deltaMode === 1 ? 18 : 1;
      if (event.shiftKey) move('pan', -(event.deltaX || event.deltaY) * lines, 0);
      else move('zoom', Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018)), x, y);
    });
  }
}
