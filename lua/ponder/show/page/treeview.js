/*
 * Draws a search: nodes as cards with score and text or, if those would be too small to read, as bars
 * coloured by score. Where several bars share a pixel, the best is drawn. One zoom applies to both
 * directions, but neither shrinks further than it must to fit: zoomed out, a tree of thousands of
 * leaves keeps the width of its columns.
 */

const [COLUMN, CARD_WIDTH, ROW, CARD_HEIGHT] = [236, 200, 52, 42]; // pixels at zoom 1
const MARGIN = 26;
const [MIN_CARD_WIDTH, MIN_CARD_HEIGHT] = [40, 12]; // a smaller card is drawn as a bar
const TWO_LINES = 34; // pixels: a card of this height fits two lines
const MAX_ZOOM = 2.5;

/* Whether the search has abandoned a node. */
const isAside = (node) => /prun|fail|error|dead|reject|discard/i.test(node.status ?? '');

class Tree extends View {
  layout = layOut({ nodes: [], roots: [] });
  x = 0; // what is in the middle, in pixels at zoom 1
  y = 0;
  zoomed = 1;

  /* ---- the camera ---- */

  get world() {
    const { width, height } = this.layout;
    return { width: Math.max(1, width * COLUMN - (COLUMN - CARD_WIDTH)),
      height: Math.max(1, height * ROW - (ROW - CARD_HEIGHT)) };
  }

  /* The scale of each direction that shows everything. */
  get whole() {
    const { width, height } = this.world;
    return { x: Math.min(1, Math.max(1, this.width - 2 * MARGIN) / width),
      y: Math.min(1, Math.max(1, this.height - 2 * MARGIN) / height) };
  }

  get scales() {
    const { x, y } = this.whole;
    return { x: Math.max(this.zoomed, x), y: Math.max(this.zoomed, y) };
  }

  look(x, y, zoomed = this.zoomed) {
    const { world: { width, height }, whole } = this;
    Object.assign(this, { x: Math.min(Math.max(x, 0), width), y: Math.min(Math.max(y, 0), height),
      zoomed: Math.min(MAX_ZOOM, Math.max(zoomed, Math.min(whole.x, whole.y))) });
    this.redraw();
  }

  fit() {
    this.touched = false;
    this.look(this.world.width / 2, this.world.height / 2, 0);
  }

  pan(dx, dy) {
    const { x, y } = this.scales;
    this.touched = true;
    this.look(this.x - dx / x, this.y - dy / y);
  }

  /* Zooms around a point, by default the middle. */
  zoom(factor, x = this.width / 2, y = this.height / 2) {
    const before = this.scales;
    this.look(this.x, this.y, this.zoomed * factor);
    const after = this.scales;
    this.touched = true;
    this.look(this.x + (x - this.width / 2) * (1 / before.x - 1 / after.x),
      this.y + (y - this.height / 2) * (1 / before.y - 1 / after.y));
  }

  /* Lays the search out again; if it `isOther` than before, shows all; else `node` stays. */
  place(isOther, node) {
    const { search, folded } = this.see();
    const y = node?.shown ? node.y : undefined;
    this.layout = layOut(search ?? { nodes: [], roots: [] }, (one) => folded.has(one));
    if (isOther || !this.touched) this.fit();
    else this.look(this.x, this.y + (y !== undefined && node.shown ? (node.y - y) * ROW : 0));
  }

  /* Scrolls a node into view, moving as little as possible. */
  reveal(node) {
    if (!node.shown || this.width === 0) return;
    const { x, y, wide } = this.placeOf(node, this.project());
    const half = CARD_HEIGHT / 2;
    const by = (from, to, room) => Math.max(0, 10 - from) + Math.min(0, room - 10 - to);
    const [dx, dy] = [by(x, x + wide, this.width), by(y - half, y + half, this.height)];
    if (dx !== 0 || dy !== 0) this.pan(dx, dy);
  }

  /* ---- screen coordinates ---- */

  project() {
    const { scales: { x, y }, width, height } = this;
    const high = CARD_HEIGHT * Math.min(y, Math.max(1, this.zoomed));
    const wide = Math.max(2, CARD_WIDTH * x);
    return { x, y, high, wide, cards: high >= MIN_CARD_HEIGHT && wide >= MIN_CARD_WIDTH,
      left: width / 2 - this.x * x, top: height / 2 - this.y * y };
  }

  /* The left edge and the middle of a node. */
  placeOf(node, p) {
    return { x: p.left + node.column * COLUMN * p.x, wide: p.wide,
      y: p.top + (node.y * ROW + CARD_HEIGHT / 2) * p.y };
  }

  /* The node at a point, or the nearest bar within a few pixels. */
  at(x, y) {
    const p = this.project();
    let [found, nearest] = [null, Math.max(p.high / 2, 4)];
    for (const node of this.layout.columns[Math.floor((x - p.left) / (COLUMN * p.x))] ?? []) {
      const place = this.placeOf(node, p);
      const away = Math.abs(y - place.y);
      if (away <= nearest && x < place.x + p.wide + (p.cards ? 26 : 4)) [found, nearest] = [node, away];
    }
    return found;
  }

  tip(node) {
    const figures = [showScore(node.score) || 'no score', node.id, node.status].filter(Boolean);
    return `${figures.join(' · ')}\n${firstLine(node.text, 200)}`;
  }

  /* ---- what is drawn ---- */

  paint() {
    const { search } = this.see();
    if (!search) return null;
    const p = this.project();
    const nodes = p.cards ? this.layout.nodes.filter((node) => this.isInSight(node, p))
      : this.barsInSight(p);
    return html`<svg>${this.edges(p, p.cards ? this.layout.nodes : nodes)}${
      !p.cards && this.bars(p, nodes)}</svg>${p.cards && this.cards(p, nodes)}`;
  }

  isInSight(node, p) {
    const { x, y } = this.placeOf(node, p);
    return y > -p.high && y < this.height + p.high && x < this.width && x + p.wide + 40 > 0;
  }

  /* One bar for each pixel: of the best path, a match, or the one with the best score. */
  barsInSight(p) {
    const { search, matches } = this.see();
    const taken = new Set();
    return [...search.bestPath, ...matches.nodes, ...search.byScore].filter((node) => {
      const { x, y } = this.placeOf(node, p);
      const pixel = Math.round(y) * 1e5 + Math.round(x);
      return node.shown && !taken.has(pixel) && this.isInSight(node, p) && taken.add(pixel);
    });
  }

  /* An edge from the right side of a node to the left of another; within a column, an arc. */
  trace(p, from, to, curved) {
    const [a, b] = [this.placeOf(from, p), this.placeOf(to, p)];
    if (Math.max(a.y, b.y) < 0 || Math.min(a.y, b.y) > this.height) return '';
    const isBack = to.column <= from.column;
    const [ax, bx] = [a.x + p.wide, isBack ? b.x + p.wide : b.x];
    const bend = isBack ? Math.max(ax, bx) - ax + 34 * p.x : Math.max(8, (bx - ax) / 2);
    const points = [[ax, a.y], [ax + bend, a.y], [isBack ? ax + bend : bx - bend, b.y], [bx, b.y]]
      .map(([x, y]) => `${short(x)} ${short(y)}`);
    return curved || isBack ? `M${points[0]}C${points.slice(1).join(' ')}`
      : `M${points[0]}L${points[3]}`;
  }

  /* The edges of the tree, further links (dashed), and the best path. */
  edges(p, nodes) {
    const { search, selected } = this.see();
    const path = (kind, pairs, curved = true) => html`<path class="edge ${kind}"
      d=${pairs.map(([from, to]) => this.trace(p, from, to, curved)).join('')} />`;
    const above = (list) => list.map((node) => [node.parent, node]);
    const links = search.links.filter(({ from, to }) => from.shown && to.shown)
      .map(({ from, to }) => [from, to]);
    const isNear = (pair) => pair.includes(selected) || pair.includes(this.hovered);
    return [path(p.cards ? '' : 'thin', above(nodes.filter((node) => node.parent)), p.cards),
      path('extra', links.filter((pair) => !isNear(pair))), path('extra near', links.filter(isNear)),
      path('best', [...above(search.bestPath.filter((node) => node.shown && node.parent?.best)),
        ...links.filter(([from, to]) => from.best && to.best && !to.parent?.best)])];
  }

  isFaded(node) {
    const { query, matches, selected } = this.see();
    return query !== '' && !matches.isMatch.has(node) && node !== selected;
  }

  bars(p, nodes) {
    const { search, selected } = this.see();
    const high = Math.max(1, p.high - 0.5);
    const [bars, marks] = [{}, {}];
    for (const node of nodes) {
      const { x, y } = this.placeOf(node, p);
      const colour = scoreColour(node.score, search.range);
      const kind = this.isFaded(node) ? `faded ${colour}` : colour;
      bars[kind] = (bars[kind] ?? '') + box(x, y - high / 2, p.wide, high);
      const mark = node === selected ? 'choose' : node.mark ?? (node.best && 'best');
      if (mark) marks[mark] = (marks[mark] ?? '') + box(x - 1, y - high / 2, p.wide + 2, high);
    }
    return [Object.entries(bars).map(([kind, d]) => html`<path d=${d} style=${{
      fill: kind.replace('faded ', ''), opacity: kind.startsWith('faded') ? 0.15 : 1 }} />`),
    Object.entries(marks).map(([mark, d]) => html`<path class="edge" d=${d} style=${{
      stroke: `var(--${mark})`, strokeWidth: 2 }} />`)];
  }

  cards(p, nodes) {
    const { search, selected, query, matches, folded } = this.see();
    const lines = p.high >= TWO_LINES ? 2 : 1;
    const fontSize = Math.max(9, Math.min(13 * Math.max(1, this.zoomed),
      lines === 2 ? (p.high - 6) / 2.6 : p.high * 0.62));
    const card = (node) => {
      const { x, y } = this.placeOf(node, p);
      const isFolded = node.children.length > 0 && folded.has(node);
      const kinds = { best: node.best, [`is-${node.mark}`]: node.mark, chosen: node === selected,
        lit: query !== '' && matches.isMatch.has(node) && node !== selected,
        faded: this.isFaded(node), aside: isAside(node), folded: isFolded };
      return html`<div key=${node.id} class="card ${Object.keys(kinds).filter((kind) => kinds[kind])
        .join(' ')}" style=${{ left: x, top: y - p.high / 2, width: p.wide, height: p.high }}>
        <i style=${{ background: scoreColour(node.score, search.range) }}></i>
        <p>${node.score !== undefined && html`<span class="score">${
          showScore(node.score)}</span>`}${node.short}</p>
        ${node.terminal && html`<em>◆</em>`}
        ${node.children.length > 0 && html`<span class="handle">${
          isFolded ? `+${node.below}` : '−'}</span>`}</div>`;
    };
    return html`<div class="cards ${lines === 1 ? 'flat' : ''}" style=${{ fontSize }}>${
      nodes.map(card)}</div>`;
  }
}
