/*
 * Draws a search: nodes as cards with score and text or, if those would be too small to read, as
 * bars coloured by score. Where several bars share a pixel, the best is drawn.
 */

function makeTreeView(canvas, see) {
  const view = {
    canvas,
    see,
    layout: { nodes: [], columns: [], width: 0, height: 0 },
    x: 0,
    y: 0,
    zoom: 1,
    hovered: null,
    colours: null,
    touched: false,
  };
  view.redraw = oncePerFrame(() => drawTree(view));
  return view;
}

function drawTree(view) {
  if (view.canvas.clientWidth === 0) return;
  if (fitCanvas(view.canvas) && !view.touched) fitTree(view);
  const { context, width, height } = beginDrawing(view.canvas);
  const state = view.see();
  if (!state.search) return;
  const p = projectionOf(view, width, height);
  const inSight = p.cards ? nodesInSight(view, p) : barsInSight(view, p, state);
  drawEdges(view, context, p, p.cards ? view.layout.nodes : inSight);
  drawLinks(view, context, p, state);
  drawBestPath(view, context, p, state);
  if (p.cards) {
    drawCards(view, context, p, state, inSight);
  } else {
    drawBars(view, context, p, state, inSight);
    drawCards(view, context, p, state, drawnLarge(view, p));
  }
}

function nodesInSight(view, p) {
  const list = [];
  for (let c = 0; c < view.layout.columns.length; c++) {
    const x = p.left + c * COLUMN * p.scale.x;
    if (x > p.width || x + p.wide + 40 < 0) continue;
    const top = (-p.top / p.scale.y - CARD_HEIGHT) / ROW,
      bottom = (p.height - p.top) / p.scale.y / ROW;
    for (const node of view.layout.columns[c]) {
      if (node.y >= top && node.y <= bottom) list.push(node);
    }
  }
  return list;
}

/* One node per pixel: a match, or the one with the best score. */
function barsInSight(view, p, state) {
  const rows = Math.ceil(p.height) + 1;
  const columnsShown = Math.ceil(p.width) + 1;
  const taken = new Map();
  const list = [];
  const consider = (node) => {
    if (!node.shown) return;
    const x = Math.round(p.left + node.column * COLUMN * p.scale.x);
    const y = Math.round(p.top + (node.y * ROW + CARD_HEIGHT / 2) * p.scale.y);
    if (y < 0 || y >= rows || x > columnsShown || x + p.wide < 0) return;
    let column = taken.get(x);
    if (!column) taken.set(x, (column = new Uint8Array(rows)));
    if (column[y] === 1) return;
    column[y] = 1;
    list.push(node);
  };
  state.matches.nodes.forEach(consider);
  state.search.byScore.forEach(consider);
  return list;
}

/* The nodes that stay cards when the others are bars: best path, selected, hovered. */
function drawnLarge(view, p) {
  if (p.cards) return [];
  const { search, selected } = view.see();
  const list = COLUMN * p.scale.x >= 60 ? search.bestPath.filter((node) => node.shown) : [];
  for (const node of [selected, view.hovered]) {
    if (
      node?.kind === 'node' &&
      node.shown &&
      search.byId.get(node.id) === node &&
      !list.includes(node)
    )
      list.push(node);
  }
  return list.reverse();
}

/* Traces an edge from the right side of a parent to the left side of its child. */
function traceEdge(context, p, from, to, curved) {
  const x1 = p.left + from.column * COLUMN * p.scale.x + p.wide;
  const y1 = p.top + (from.y * ROW + CARD_HEIGHT / 2) * p.scale.y;
  const x2 = p.left + to.column * COLUMN * p.scale.x;
  const y2 = p.top + (to.y * ROW + CARD_HEIGHT / 2) * p.scale.y;
  if (x1 > p.width || x2 < 0 || Math.max(y1, y2) < 0 || Math.min(y1, y2) > p.height) return;
  context.moveTo(x1, y1);
  if (!curved) {
    context.lineTo(x2, y2);
    return;
  }
  const bend = Math.max(8, (x2 - x1) / 2);
  context.bezierCurveTo(x1 + bend, y1, x2 - bend, y2, x2, y2);
}

function drawEdges(view, context, p, nodes) {
  context.beginPath();
  for (const node of nodes) {
    if (node.parent) traceEdge(context, p, node.parent, node, p.cards);
  }
  context.strokeStyle = view.colours.edge;
  context.lineWidth = p.cards ? 1.2 : 0.7;
  context.globalAlpha = p.cards ? 1 : 0.55;
  context.stroke();
  context.globalAlpha = 1;
}

/* Draws further links, dashed; those of the selected or hovered node are thicker. */
function drawLinks(view, context, p, { search, selected }) {
  if (search.links.length === 0) return;
  const isNear = ({ from, to }) =>
    [from, to].some((node) => node === selected || node === view.hovered);
  const shown = search.links.filter(({ from, to }) => from.shown && to.shown);
  context.strokeStyle = view.colours.extra;
  context.setLineDash([5, 4]);
  strokeLinks(
    context,
    p,
    shown.filter((link) => !isNear(link)),
    1.1,
    0.6,
  );
  strokeLinks(context, p, shown.filter(isNear), 2.2, 1);
  context.setLineDash([]);
}

function strokeLinks(context, p, links, width, alpha) {
  context.beginPath();
  for (const { from, to } of links) traceLink(context, p, from, to);
  context.lineWidth = width;
  context.globalAlpha = alpha;
  context.stroke();
  context.globalAlpha = 1;
}

/* Between columns like an edge; within a column, an arc to its right. */
function traceLink(context, p, from, to) {
  if (to.column > from.column) {
    traceEdge(context, p, from, to, true);
    return;
  }
  const x = p.left + p.wide,
    step = COLUMN * p.scale.x;
  const y = (node) => p.top + (node.y * ROW + CARD_HEIGHT / 2) * p.scale.y;
  const out = Math.max(from.column, to.column) * step + x + 34 * p.scale.x;
  context.moveTo(from.column * step + x, y(from));
  context.bezierCurveTo(out, y(from), out, y(to), to.column * step + x, y(to));
}

function drawBestPath(view, context, p, { search }) {
  context.beginPath();
  for (const node of search.bestPath) {
    if (node.shown && node.parent?.best) traceEdge(context, p, node.parent, node, true);
  }
  for (const { from, to } of search.links) {
    if (from.best && to.best && from.shown && to.shown && !to.parent?.best)
      traceEdge(context, p, from, to, true);
  }
  context.strokeStyle = view.colours.best;
  context.lineWidth = 2.4;
  context.stroke();
}

function scoreColour(view, step) {
  return step < 0 ? view.colours.unscored : view.colours.ramp[step];
}

/* Draws bars of one colour as one path. */
function drawBars(view, context, p, state, nodes) {
  const groups = new Map();
  const high = Math.max(1, p.high - 0.5);
  for (const node of nodes) {
    const faded = state.query !== '' && !state.matches.isMatch.has(node);
    const key = rampStep(node.score, state.search.range) * 2 + (faded ? 1 : 0);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(node);
  }
  for (const [key, members] of groups) {
    context.beginPath();
    for (const node of members) {
      const { x, y } = placeOf(view, node, p);
      context.rect(x, y - high / 2, p.wide, high);
    }
    context.fillStyle = scoreColour(view, key >> 1);
    context.globalAlpha = key & 1 ? 0.15 : 1;
    context.fill();
  }
  context.globalAlpha = 1;
  for (const node of nodes) {
    if (!node.mark) continue;
    const { x, y } = placeOf(view, node, p);
    context.strokeStyle = view.colours[node.mark];
    context.lineWidth = 2;
    context.strokeRect(x - 1, y - high / 2, p.wide + 2, high);
  }
}

function drawCards(view, context, p, state, nodes) {
  const high = p.cards ? p.high : CARD_HEIGHT;
  const lines = high >= TWO_LINES ? 2 : 1;
  const max = 13 * Math.max(1, p.cards ? view.zoom : 1);
  const size = Math.max(9, Math.min(max, lines === 2 ? (high - 6) / 2.6 : high * 0.62));
  const style = {
    high,
    size,
    lines,
    family: view.colours.sans,
    words: `${size}px ${view.colours.sans}`,
    figures: `${size * 0.92}px ${view.colours.mono}`,
  };
  for (const node of nodes) drawCard(view, context, p, state, node, style);
  context.globalAlpha = 1;
}

function cardFill(view, state, node) {
  if (node === state.selected) return view.colours.choose_soft;
  if (state.query !== '' && state.matches.isMatch.has(node)) return view.colours.match;
  return node.best ? view.colours.best_soft : view.colours.surface;
}

function drawCard(view, context, p, state, node, style) {
  const { colours } = view;
  const { x, y, width: wide } = cardPlace(view, node, p);
  const top = y - style.high / 2;
  const chosen = node === state.selected;
  const faded = state.query !== '' && !state.matches.isMatch.has(node) && !chosen;
  context.beginPath();
  context.roundRect(x, top, wide, style.high, Math.min(6, style.high / 4));
  context.globalAlpha = 1;
  context.fillStyle = cardFill(view, state, node);
  context.fill();
  context.globalAlpha = faded ? 0.35 : 1;
  context.lineWidth = chosen ? 2.5 : node.mark ? 2.2 : node.best ? 1.8 : 1;
  context.strokeStyle = chosen
    ? colours.choose
    : node.mark
      ? colours[node.mark]
    : node.best
      ? colours.best
      : node === view.hovered
        ? colours.line_strong
        : colours.line;
  context.stroke();
  context.beginPath();
  context.roundRect(x + 4, top + 4, 4, style.high - 8, 2);
  context.fillStyle = scoreColour(view, rampStep(node.score, state.search.range));
  context.fill();
  drawWords(view, context, node, style, x, y, wide, state);
  if (node.children.length > 0 && p.cards)
    drawHandle(view, context, state, node, style, x + wide, y);
}

/* The width of the count inside a folded node's card. */
function badgeWidth(context, state, node, style) {
  if (!state.folded.has(node) || node.children.length === 0) return 0;
  context.font = `${style.size * 0.85}px ${style.family}`;
  return context.measureText(`+${node.below}`).width + 10;
}

/* The score and the beginning of the text, on one line or two. */
function drawWords(view, context, node, style, x, y, wide, state) {
  const { colours } = view;
  const lit = state.query !== '' && state.matches.isMatch.has(node) && node !== state.selected;
  const left = x + 14,
    right = x + wide - 8 - badgeWidth(context, state, node, style);
  const score = showScore(node.score);
  context.textBaseline = 'middle';
  context.textAlign = 'left';
  context.font = style.figures;
  const indent = score === '' ? 0 : context.measureText(score).width + style.size * 0.55;
  context.font = style.words;
  const mark = node.terminal ? style.size : 0;
  const room = right - left,
    key = `${Math.round((room / style.size) * 8)} ${style.lines} ${left - x}`;
  if (node.labelKey !== key) {
    const wrapped = (words) => wrapLabel(context, words, style.lines, room - indent - mark, room);
    node.label = wrapped(node.short);
    if (node.label.some((line) => line.endsWith('…'))) node.label = wrapped(node.brief);
    node.labelKey = key;
  }
  const first = node.label[1] ? y - style.size * 0.64 : y + 0.5;
  context.fillStyle = lit ? colours.match_text : isAside(node) ? colours.muted : colours.text;
  context.fillText(node.label[0], left + indent, first);
  if (node.label[1]) context.fillText(node.label[1], left, y + style.size * 0.66);
  if (node.terminal) {
    context.fillStyle = node.best ? colours.best : colours.muted;
    context.textAlign = 'right';
    context.fillText('◆', right + 2, first);
  }
  if (score === '') return;
  context.font = style.figures;
  context.fillStyle = lit ? colours.match_text : colours.muted;
  context.textAlign = 'left';
  context.fillText(score, left, first);
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

/* Whether the search has abandoned a node. */
function isAside(node) {
  return /prun|fail|error|dead|reject|discard/i.test(node.status ?? '');
}

/* The handle that folds a subtree; folded, it shows the number of nodes in it. */
function drawHandle(view, context, state, node, style, right, y) {
  const { colours } = view;
  const folded = state.folded.has(node);
  if (!folded && node !== view.hovered && node !== state.selected) return;
  const size = folded ? style.size * 0.85 : Math.max(9, Math.min(11, style.high * 0.5));
  const wide = folded ? badgeWidth(context, state, node, style) - 2 : size + 3;
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
