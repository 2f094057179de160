/*
 * The camera of a tree drawing: zoom, position, and the screen coordinates of nodes. One zoom
 * applies to both directions, but neither shrinks further than it must to fit: zoomed out, a tree
 * of thousands of leaves keeps the width of its columns.
 */

const COLUMN = 236,
  CARD_WIDTH = 200,
  ROW = 52,
  CARD_HEIGHT = 42; // pixels at zoom 1
const MARGIN = 26;
const MIN_CARD_HEIGHT = 12; // pixels: a lower node is drawn as a bar
const MIN_CARD_WIDTH = 40;
const TWO_LINES = 34; // pixels: a card of this height fits two lines
const MAX_ZOOM = 2.5;

const worldWidth = (view) => Math.max(1, view.layout.width * COLUMN - (COLUMN - CARD_WIDTH));
const worldHeight = (view) => Math.max(1, view.layout.height * ROW - (ROW - CARD_HEIGHT));

/* The scale of each direction that shows everything. */
function fitScales(view) {
  return {
    x: Math.min(1, (view.canvas.clientWidth - 2 * MARGIN) / worldWidth(view)),
    y: Math.min(1, (view.canvas.clientHeight - 2 * MARGIN) / worldHeight(view)),
  };
}

function scalesOf(view) {
  const fit = fitScales(view);
  return { x: Math.max(view.zoom, fit.x), y: Math.max(view.zoom, fit.y) };
}

function clampCamera(view) {
  const fit = fitScales(view);
  view.zoom = Math.min(MAX_ZOOM, Math.max(view.zoom, Math.min(fit.x, fit.y)));
  view.x = Math.min(Math.max(view.x, 0), worldWidth(view));
  view.y = Math.min(Math.max(view.y, 0), worldHeight(view));
}

function fitTree(view) {
  const fit = fitScales(view);
  view.zoom = Math.min(fit.x, fit.y);
  view.x = worldWidth(view) / 2;
  view.y = worldHeight(view) / 2;
  view.touched = false;
  view.redraw();
}

function panTree(view, dx, dy) {
  const scale = scalesOf(view);
  view.x -= dx / scale.x;
  view.y -= dy / scale.y;
  view.touched = true;
  clampCamera(view);
  view.redraw();
}

/* Zooms around the point (x, y), by default the middle. */
function zoomTree(view, factor, x = view.canvas.clientWidth / 2, y = view.canvas.clientHeight / 2) {
  const before = scalesOf(view);
  view.zoom *= factor;
  clampCamera(view);
  const after = scalesOf(view);
  const dx = x - view.canvas.clientWidth / 2,
    dy = y - view.canvas.clientHeight / 2;
  view.x += dx / before.x - dx / after.x;
  view.y += dy / before.y - dy / after.y;
  view.touched = true;
  clampCamera(view);
  view.redraw();
}

/* Scrolls a node into view, moving as little as possible. */
function revealNode(view, node) {
  if (!node.shown) return;
  const { clientWidth: width, clientHeight: height } = view.canvas;
  const place = placeOf(view, node, projectionOf(view, width, height));
  const edge = 10;
  if (place.x < edge) panTree(view, edge - place.x, 0);
  else if (place.x + place.width > width - edge)
    panTree(view, width - edge - place.x - place.width, 0);
  const half = CARD_HEIGHT / 2;
  if (place.y - half < edge) panTree(view, 0, edge - place.y + half);
  else if (place.y + half > height - edge) panTree(view, 0, height - edge - place.y - half);
  view.redraw();
}

/* ---- screen coordinates ---- */

function projectionOf(view, width, height) {
  const scale = scalesOf(view);
  const high = Math.min(CARD_HEIGHT * scale.y, CARD_HEIGHT * Math.max(1, view.zoom));
  return {
    scale,
    width,
    height,
    high,
    cards: high >= MIN_CARD_HEIGHT && CARD_WIDTH * scale.x >= MIN_CARD_WIDTH,
    left: width / 2 - view.x * scale.x,
    top: height / 2 - view.y * scale.y,
    wide: Math.max(2, CARD_WIDTH * scale.x),
  };
}

/* The left edge and the middle of a node. */
function placeOf(view, node, p) {
  return {
    x: p.left + node.column * COLUMN * p.scale.x,
    y: p.top + (node.y * ROW + CARD_HEIGHT / 2) * p.scale.y,
    width: p.wide,
  };
}

/* The place of a card. If its column is too narrow, it covers its neighbours. */
function cardPlace(view, node, p) {
  const { x, y, width } = placeOf(view, node, p);
  if (width >= MIN_CARD_WIDTH) return { x, y, width };
  const wide = Math.min(CARD_WIDTH, p.width - 8);
  return { x: Math.max(4, Math.min(x, p.width - wide - 4)), y, width: wide };
}

/* The node at a point, or the nearest bar within a few pixels; `handle`: on the node's handle. */
function nodeAt(view, x, y) {
  const p = projectionOf(view, view.canvas.clientWidth, view.canvas.clientHeight);
  for (const node of drawnLarge(view, p)) {
    const card = cardPlace(view, node, p);
    const inside = x >= card.x && x <= card.x + card.width;
    if (inside && Math.abs(y - card.y) <= CARD_HEIGHT / 2) return { node };
  }
  const column = view.layout.columns[Math.floor((x - p.left) / (COLUMN * p.scale.x))];
  if (!column?.length) return null;
  const worldY = ((y - p.top) / p.scale.y - CARD_HEIGHT / 2) / ROW;
  const node = nearestInColumn(column, worldY);
  const place = placeOf(view, node, p);
  if (Math.abs(y - place.y) > Math.max(p.high / 2, 4)) return null;
  const past = x - place.x - place.width;
  if (past > (p.cards ? 26 : 4)) return null;
  const inside = view.see().folded.has(node) ? 24 : 2; // width of a folded node's count
  return { node, handle: p.cards && past > -inside && node.children.length > 0 };
}

/* The node of a column that is nearest to a height, by binary search. */
function nearestInColumn(column, y) {
  let low = 0,
    high = column.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle].y < y) low = middle + 1;
    else high = middle;
  }
  const before = column[low - 1];
  return before && y - before.y < column[low].y - y ? before : column[low];
}
