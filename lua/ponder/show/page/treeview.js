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

const NO_LAYOUT = { nodes: [], columns: [], width: 0, height: 0 };

class Tree extends Drawing {
  layout = NO_LAYOUT;
  x = 0;
  y = 0;
  zoomed = 1;
  touched = false; // by the user, who no longer sees everything

  /* ---- the camera ---- */

  get world() {
    const { width, height } = this.layout;
    return { width: Math.max(1, width * COLUMN - (COLUMN - CARD_WIDTH)),
      height: Math.max(1, height * ROW - (ROW - CARD_HEIGHT)) };
  }

  /* The scale of each direction that shows everything. */
  get whole() {
    const { width, height } = this.world;
    return { x: Math.min(1, (this.canvas.clientWidth - 2 * MARGIN) / width),
      y: Math.min(1, (this.canvas.clientHeight - 2 * MARGIN) / height) };
  }

  get scales() {
    const fit = this.whole;
    return { x: Math.max(this.zoomed, fit.x), y: Math.max(this.zoomed, fit.y) };
  }

  clamp() {
    const { world: { width, height }, whole: fit } = this;
    this.zoomed = Math.min(MAX_ZOOM, Math.max(this.zoomed, Math.min(fit.x, fit.y)));
    this.x = Math.min(Math.max(this.x, 0), width);
    this.y = Math.min(Math.max(this.y, 0), height);
    this.redraw();
  }

  fit() {
    this.touched = false;
    if (!this.canvas) return;
    const { world: { width, height }, whole: fit } = this;
    Object.assign(this, { zoomed: Math.min(fit.x, fit.y), x: width / 2, y: height / 2 });
    this.redraw();
  }

  pan(dx, dy) {
    const scale = this.scales;
    Object.assign(this, { x: this.x - dx / scale.x, y: this.y - dy / scale.y, touched: true });
    this.clamp();
  }

  /* Zooms around a point, by default the middle. */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const before = this.scales;
    this.zoomed *= factor;
    this.clamp();
    const after = this.scales;
    this.x += (x - this.canvas.clientWidth / 2) * (1 / before.x - 1 / after.x);
    this.y += (y - this.canvas.clientHeight / 2) * (1 / before.y - 1 / after.y);
    this.touched = true;
    this.clamp();
  }

  /* Lays the search out again; `anew`: it is another one, else `node` stays where it is. */
  place(anew, node) {
    const { search, folded } = this.see();
    const y = node?.shown ? node.y : undefined;
    this.layout = search ? layOut(search, (one) => folded.has(one)) : NO_LAYOUT;
    if (!this.canvas) return;
    if (anew || !this.touched) this.fit();
    else if (y !== undefined && node.shown) this.y += (node.y - y) * ROW;
    this.clamp();
  }

  /* Scrolls a node into view, moving as little as possible. */
  reveal(node) {
    if (!node.shown || !this.canvas?.clientWidth) return;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const place = this.placeOf(node, this.project(width, height));
    const [edge, half] = [10, CARD_HEIGHT / 2];
    const by = (from, to, room) =>
      (from < edge ? edge - from : to > room - edge ? room - edge - to : 0);
    const dx = by(place.x, place.x + place.width, width);
    const dy = by(place.y - half, place.y + half, height);
    if (dx !== 0 || dy !== 0) this.pan(dx, dy);
  }

  /* ---- screen coordinates ---- */

  project(width, height) {
    const scale = this.scales;
    const high = Math.min(CARD_HEIGHT * scale.y, CARD_HEIGHT * Math.max(1, this.zoomed));
    return { scale, width, height, high,
      cards: high >= MIN_CARD_HEIGHT && CARD_WIDTH * scale.x >= MIN_CARD_WIDTH,
      left: width / 2 - this.x * scale.x, top: height / 2 - this.y * scale.y,
      wide: Math.max(2, CARD_WIDTH * scale.x) };
  }

  /* The left edge and the middle of a node. */
  placeOf(node, p) {
    return { x: p.left + node.column * COLUMN * p.scale.x, width: p.wide,
      y: p.top + (node.y * ROW + CARD_HEIGHT / 2) * p.scale.y };
  }

  /* The node at a point, or the nearest bar within a few pixels; `handle`: on the node's handle. */
  at(x, y) {
    const p = this.project(this.canvas.clientWidth, this.canvas.clientHeight);
    const column = this.layout.columns[Math.floor((x - p.left) / (COLUMN * p.scale.x))];
    if (!column?.length) return null;
    const wanted = ((y - p.top) / p.scale.y - CARD_HEIGHT / 2) / ROW;
    let [low, high] = [0, column.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (column[middle].y < wanted) low = middle + 1;
      else high = middle;
    }
    const before = column[low - 1];
    const node = before && wanted - before.y < column[low].y - wanted ? before : column[low];
    const place = this.placeOf(node, p);
    const past = x - place.x - place.width;
    if (Math.abs(y - place.y) > Math.max(p.high / 2, 4) || past > (p.cards ? 26 : 4)) return null;
    const inside = this.see().folded.has(node) ? 24 : 2; // width of a folded node's count
    return { thing: node, handle: p.cards && past > -inside && node.children.length > 0 };
  }

  tip(node) {
    const figures = [showScore(node.score) || 'no score', node.id, node.status].filter(Boolean);
    return `${figures.join(' · ')}\n${firstLine(node.text, 200)}`;
  }

  /* ---- what is drawn ---- */

  paint(context, width, height) {
    const { search } = this.see();
    if (!search) return;
    const p = this.project(width, height);
    const nodes = p.cards ? this.cardsInSight(p) : this.barsInSight(p);
    this.drawEdges(context, p, p.cards ? this.layout.nodes : nodes);
    if (p.cards) this.drawCards(context, p, nodes);
    else this.drawBars(context, p, nodes);
  }

  cardsInSight(p) {
    const top = (-p.top / p.scale.y - CARD_HEIGHT) / ROW;
    const bottom = (p.height - p.top) / p.scale.y / ROW;
    return this.layout.columns.flatMap((column, c) => {
      const x = p.left + c * COLUMN * p.scale.x;
      if (x > p.width || x + p.wide + 40 < 0) return [];
      return column.filter(({ y }) => y >= top && y <= bottom);
    });
  }

  /* One bar for each pixel: of the best path, a match, or the one with the best score. */
  barsInSight(p) {
    const { search, matches } = this.see();
    const taken = new Set();
    return [...search.bestPath, ...matches.nodes, ...search.byScore].filter((node) => {
      const { x, y } = this.placeOf(node, p);
      const pixel = Math.round(y) * 1e5 + Math.round(x);
      if (!node.shown || taken.has(pixel) || y < 0 || y > p.height || x > p.width || x + p.wide < 0)
        return false;
      return taken.add(pixel);
    });
  }

  /* An edge from the right side of a node to the left of another; within a column, an arc. */
  trace(context, p, from, to, curved) {
    const [a, b] = [this.placeOf(from, p), this.placeOf(to, p)];
    if (to.column <= from.column) {
      const out = Math.max(a.x, b.x) + p.wide + 34 * p.scale.x;
      context.moveTo(a.x + p.wide, a.y);
      context.bezierCurveTo(out, a.y, out, b.y, b.x + p.wide, b.y);
      return;
    }
    const x = a.x + p.wide;
    if (x > p.width || b.x < 0 || Math.max(a.y, b.y) < 0 || Math.min(a.y, b.y) > p.height) return;
    context.moveTo(x, a.y);
    const bend = Math.max(8, (b.x - x) / 2);
    if (curved) context.bezierCurveTo(x + bend, a.y, b.x - bend, b.y, b.x, b.y);
    else context.lineTo(b.x, b.y);
  }

  /* The edges of the tree, further links (dashed), and the best path. */
  drawEdges(context, p, nodes) {
    const { search, selected } = this.see();
    const stroke = (pairs, colour, wide, alpha, curved) => {
      context.beginPath();
      for (const [from, to] of pairs) this.trace(context, p, from, to, curved);
      Object.assign(context, { strokeStyle: colour, lineWidth: wide, globalAlpha: alpha });
      context.stroke();
      context.globalAlpha = 1;
    };
    stroke(nodes.filter((node) => node.parent).map((node) => [node.parent, node]), colours.edge,
      p.cards ? 1.2 : 0.7, p.cards ? 1 : 0.55, p.cards);
    const links = search.links.filter(({ from, to }) => from.shown && to.shown)
      .map(({ from, to }) => [from, to]);
    const isNear = (pair) => pair.includes(selected) || pair.includes(this.hovered);
    context.setLineDash([5, 4]);
    stroke(links.filter((pair) => !isNear(pair)), colours.extra, 1.1, 0.6, true);
    stroke(links.filter(isNear), colours.extra, 2.2, 1, true);
    context.setLineDash([]);
    stroke([...search.bestPath.filter((node) => node.shown && node.parent?.best)
      .map((node) => [node.parent, node]),
    ...links.filter(([from, to]) => from.best && to.best && !to.parent?.best)], colours.best, 2.4, 1,
    true);
  }

  isFaded(node) {
    const { query, matches, selected } = this.see();
    return query !== '' && !matches.isMatch.has(node) && node !== selected;
  }

  drawBars(context, p, nodes) {
    const { search, selected } = this.see();
    const high = Math.max(1, p.high - 0.5);
    context.lineWidth = 2;
    for (const node of nodes) {
      const { x, y } = this.placeOf(node, p);
      context.fillStyle = scoreColour(rampStep(node.score, search.range));
      context.globalAlpha = this.isFaded(node) ? 0.15 : 1;
      context.fillRect(x, y - high / 2, p.wide, high);
      const edge = node === selected ? 'choose' : node.mark ?? (node.best && 'best');
      context.strokeStyle = colours[edge];
      if (edge) context.strokeRect(x - 1, y - high / 2, p.wide + 2, high);
    }
    context.globalAlpha = 1;
  }

  drawCards(context, p, nodes) {
    const { high } = p;
    const lines = high >= TWO_LINES ? 2 : 1;
    const max = 13 * Math.max(1, this.zoomed);
    const size = Math.max(9, Math.min(max, lines === 2 ? (high - 6) / 2.6 : high * 0.62));
    const style = { high, size, lines, words: `${size}px ${colours.sans}`,
      figures: `${size * 0.92}px ${colours.mono}`, count: `${size * 0.85}px ${colours.sans}` };
    for (const node of nodes) this.drawCard(context, p, node, style);
    context.globalAlpha = 1;
  }

  drawCard(context, p, node, style) {
    const { search, selected, query, matches } = this.see();
    const { x, y, width: wide } = this.placeOf(node, p);
    const top = y - style.high / 2;
    const chosen = node === selected;
    const lit = query !== '' && matches.isMatch.has(node) && !chosen;
    context.globalAlpha = 1;
    context.beginPath();
    context.roundRect(x, top, wide, style.high, Math.min(6, style.high / 4));
    context.fillStyle = chosen ? colours.choose_soft : lit ? colours.match
      : node.best ? colours.best_soft : colours.surface;
    context.fill();
    context.globalAlpha = this.isFaded(node) ? 0.35 : 1;
    context.lineWidth = chosen ? 2.5 : node.mark ? 2.2 : node.best ? 1.8 : 1;
    context.strokeStyle = chosen ? colours.choose : node.mark ? colours[node.mark]
      : node.best ? colours.best : node === this.hovered ? colours.line_strong : colours.line;
    context.stroke();
    context.beginPath();
    context.roundRect(x + 4, top + 4, 4, style.high - 8, 2);
    context.fillStyle = scoreColour(rampStep(node.score, search.range));
    context.fill();
    this.drawWords(context, node, style, x, y, wide, lit);
    if (node.children.length > 0) this.drawHandle(context, node, style, x + wide, y);
  }

  /* The width of the count inside a folded node's card. */
  badgeWidth(context, node, style) {
    if (!this.see().folded.has(node) || node.children.length === 0) return 0;
    context.font = style.count;
    return context.measureText(`+${node.below}`).width + 10;
  }

  /* The score and the beginning of the text, on one line or two. */
  drawWords(context, node, style, x, y, wide, lit) {
    const left = x + 14;
    const right = x + wide - 8 - this.badgeWidth(context, node, style);
    const score = showScore(node.score);
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.font = style.figures;
    const indent = score === '' ? 0 : context.measureText(score).width + style.size * 0.55;
    context.font = style.words;
    const room = right - left;
    const first = room - indent - (node.terminal ? style.size : 0);
    const key = `${Math.round((room / style.size) * 8)} ${style.lines}`;
    if (node.labelKey !== key) {
      node.label = wrapLabel(context, node.short, style.lines, first, room);
      if (node.label.some((line) => line.endsWith('…')))
        node.label = wrapLabel(context, node.brief, style.lines, first, room);
      node.labelKey = key;
    }
    const line = node.label[1] ? y - style.size * 0.64 : y + 0.5;
    context.fillStyle = lit ? colours.match_text : isAside(node) ? colours.muted : colours.text;
    context.fillText(node.label[0], left + indent, line);
    if (node.label[1]) context.fillText(node.label[1], left, y + style.size * 0.66);
    if (node.terminal) {
      context.fillStyle = node.best ? colours.best : colours.muted;
      context.textAlign = 'right';
      context.fillText('◆', right + 2, line);
    }
    if (score === '') return;
    context.font = style.figures;
    context.fillStyle = lit ? colours.match_text : colours.muted;
    context.textAlign = 'left';
    context.fillText(score, left, line);
  }

  /* The handle that folds a subtree; folded, it shows the number of nodes in it. */
  drawHandle(context, node, style, right, y) {
    const folded = this.see().folded.has(node);
    if (!folded && node !== this.hovered && node !== this.see().selected) return;
    const size = folded ? style.size * 0.85 : Math.max(9, Math.min(11, style.high * 0.5));
    const wide = folded ? this.badgeWidth(context, node, style) - 2 : size + 3;
    const left = folded ? right - wide - 4 : right - wide / 2;
    context.font = `${size}px ${colours.sans}`;
    context.beginPath();
    context.roundRect(left, y - size / 2 - 2, wide, size + 4, (size + 4) / 2);
    context.fillStyle = folded ? colours.muted : colours.surface;
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = folded ? colours.muted : colours.line;
    context.stroke();
    context.fillStyle = folded ? colours.surface : colours.muted;
    context.textAlign = 'center';
    context.fillText(folded ? `+${node.below}` : '−', left + wide / 2, y + 0.5);
  }
}

/* Wraps a text on one or two lines, between words; the first stays empty if it has no room. */
function wrapLabel(context, text, lines, firstRoom, room) {
  const whole = shorten(context, text, firstRoom);
  if (lines === 1 || whole === text) return [whole, ''];
  const fits = Math.max(0, whole.length - 1);
  const at = text[fits] === ' ' ? fits : text.lastIndexOf(' ', fits);
  const end = at > 0 ? at : firstRoom < room * 0.8 ? 0 : fits;
  return [text.slice(0, end), shorten(context, text.slice(end).trimStart(), room)];
}

/* The node that an arrow leads to in a drawing: parent, child, neighbours of its column. */
function towards(key, node, { columns }, folded) {
  if (key === 'ArrowLeft') return node.parent ?? node;
  if (key === 'ArrowRight') return node.children[0] && !folded.has(node) ? node.children[0] : node;
  const to = stepKey(key, columns[node.column].indexOf(node), columns[node.column].length);
  return columns[node.column][to] ?? node;
}
