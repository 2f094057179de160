/*
 * Lays out a tree: a column for each depth, and at least one unit between nodes of a column.
 * Parents are centred on their children and equal subtrees look alike (Reingold and Tilford 1981),
 * in linear time (Buchheim, Jünger and Leipert 2002): the contours of neighbouring subtrees are
 * followed along threads, and the distance that they must move apart is spread over the subtrees
 * between them. No recursion, since a tree may have thousands of levels.
 */

/* The shown nodes, parents first, and the arrays of the two walks. */
function arrange(roots, isFolded) {
  const nodes = [];
  depthFirst(
    roots,
    (node) => {
      node.place = nodes.length;
      node.open = node.children.length > 0 && !isFolded(node);
      nodes.push(node);
    },
    isFolded,
  );
  const n = nodes.length;
  return {
    nodes,
    y: new Float64Array(n),
    mod: new Float64Array(n),
    shift: new Float64Array(n),
    change: new Float64Array(n),
    thread: new Int32Array(n).fill(-1),
    ancestor: Int32Array.from({ length: n }, (_, i) => i),
    number: new Int32Array(n),
  };
}

const firstBelow = (t, v) => (t.nodes[v].open ? t.nodes[v].children[0].place : t.thread[v]);
const lastBelow = (t, v) => (t.nodes[v].open ? t.nodes[v].children.at(-1).place : t.thread[v]);

/* Moves the subtree at `right` down, and records it for spreadShifts. */
function moveSubtree(t, left, right, distance) {
  const apart = t.number[right] - t.number[left];
  t.change[right] -= distance / apart;
  t.shift[right] += distance;
  t.change[left] += distance / apart;
  t.y[right] += distance;
  t.mod[right] += distance;
}

/* The left sibling of v whose subtree contains the contour's node u. */
function greatestSibling(t, u, siblings, fallback) {
  const candidate = t.ancestor[u];
  return t.nodes[candidate].parent === siblings[0].parent &&
    t.number[candidate] < siblings.length &&
    siblings[t.number[candidate]].place === candidate
    ? candidate
    : fallback;
}

/* Follows the contours of v's subtree and of its left siblings until one ends, and moves
 * v's subtree where they overlap. */
function apportion(t, v, siblings, fallback) {
  if (t.number[v] === 0) return fallback;
  let inRight = v,
    outRight = v;
  let inLeft = siblings[t.number[v] - 1].place,
    outLeft = siblings[0].place;
  let sumInRight = t.mod[v],
    sumOutRight = t.mod[v];
  let sumInLeft = t.mod[inLeft],
    sumOutLeft = t.mod[outLeft];
  let nextLeft = lastBelow(t, inLeft),
    nextRight = firstBelow(t, inRight);
  while (nextLeft >= 0 && nextRight >= 0) {
    inLeft = nextLeft;
    inRight = nextRight;
    outLeft = firstBelow(t, outLeft);
    outRight = lastBelow(t, outRight);
    t.ancestor[outRight] = v;
    const overlap = t.y[inLeft] + sumInLeft + 1 - (t.y[inRight] + sumInRight);
    if (overlap > 0) {
      moveSubtree(t, greatestSibling(t, inLeft, siblings, fallback), v, overlap);
      sumInRight += overlap;
      sumOutRight += overlap;
    }
    sumInLeft += t.mod[inLeft];
    sumInRight += t.mod[inRight];
    sumOutLeft += t.mod[outLeft];
    sumOutRight += t.mod[outRight];
    nextLeft = lastBelow(t, inLeft);
    nextRight = firstBelow(t, inRight);
  }
  if (nextLeft >= 0 && lastBelow(t, outRight) < 0) {
    t.thread[outRight] = nextLeft;
    t.mod[outRight] += sumInLeft - sumOutRight;
  }
  if (nextRight >= 0 && firstBelow(t, outLeft) < 0) {
    t.thread[outLeft] = nextRight;
    t.mod[outLeft] += sumInRight - sumOutLeft;
    return v;
  }
  return fallback;
}

/* Applies the moves that moveSubtree has recorded. */
function spreadShifts(t, children) {
  let shift = 0,
    change = 0;
  for (let i = children.length - 1; i >= 0; i--) {
    const w = children[i].place;
    t.y[w] += shift;
    t.mod[w] += shift;
    change += t.change[w];
    shift += t.shift[w] + change;
  }
}

/* Places a node next to its left sibling; its own children are placed already. */
function placeNode(t, v, siblings) {
  const node = t.nodes[v];
  const before = t.number[v] > 0 ? t.y[siblings[t.number[v] - 1].place] + 1 : 0;
  t.y[v] = before;
  if (!node.open) return;
  const { children } = node;
  spreadShifts(t, children);
  const middle = (t.y[children[0].place] + t.y[children.at(-1).place]) / 2;
  if (t.number[v] > 0) t.mod[v] = before - middle;
  else t.y[v] = middle;
}

/* Places children before parents, and siblings in order, with an explicit stack. */
function placeAll(t, roots) {
  const stack = [{ children: roots, next: 0, fallback: -1 }];
  while (stack.length > 0) {
    const level = stack.at(-1);
    if (level.next === level.children.length) {
      stack.pop();
      const above = stack.at(-1);
      if (above) placeNext(t, above);
      continue;
    }
    const node = level.children[level.next];
    t.number[node.place] = level.next;
    if (node.open)
      stack.push({ children: node.children, next: 0, fallback: node.children[0].place });
    else placeNext(t, level);
  }
}

function placeNext(t, level) {
  const v = level.children[level.next].place;
  if (level.fallback < 0) level.fallback = level.children[0].place;
  placeNode(t, v, level.children);
  level.fallback = apportion(t, v, level.children, level.fallback);
  level.next += 1;
}

/* Adds up the moves from the roots down, and sets the column of each node. */
function walkDown(t, roots) {
  const sums = new Float64Array(t.nodes.length);
  let top = Infinity;
  spreadShifts(t, roots);
  for (const node of t.nodes) {
    const v = node.place;
    const above = node.parent ? sums[node.parent.place] : 0;
    node.y = t.y[v] + above;
    sums[v] = above + t.mod[v];
    top = Math.min(top, node.y);
    node.column = node.parent ? node.parent.column + 1 : 0;
  }
  return top;
}

/* In a graph a node's column is its depth, which may exceed its parent's by more than one. */
function useDepths(nodes) {
  let min = Infinity;
  for (const { depth } of nodes) min = Math.min(min, depth ?? Infinity);
  for (const node of nodes) {
    const own = node.depth !== undefined ? node.depth - min : 0;
    node.column = Math.max(own, node.parent ? node.parent.column + 1 : 0);
  }
}

function columnsOf(nodes) {
  const columns = [];
  for (const node of nodes) (columns[node.column] ??= []).push(node);
  for (let i = 0; i < columns.length; i++)
    columns[i] = (columns[i] ?? []).sort((a, b) => a.y - b.y);
  return columns;
}

/* Moves nodes of a column that are closer than one unit apart, and recentres the column. */
function spaceColumn(column) {
  let moved = 0;
  for (let i = 1; i < column.length; i++) {
    const min = column[i - 1].y + 1;
    if (column[i].y >= min) continue;
    moved += min - column[i].y;
    column[i].y = min;
  }
  if (moved > 0) for (const node of column) node.y -= moved / column.length;
}

/* Centres a merged node on its sources; its descendants move with it. */
function centreMerged(columns, links) {
  const sources = new Map();
  for (const { from, to } of links) {
    if (from.column < to.column) sources.set(to, [...(sources.get(to) ?? [to.parent]), from]);
  }
  const before = new Map(columns.flat().map((node) => [node, node.y]));
  for (const column of columns) {
    for (const node of column) {
      const from = (sources.get(node) ?? []).filter((source) => before.has(source));
      if (from.length > 0) node.y = from.reduce((sum, source) => sum + source.y, 0) / from.length;
      else if (node.parent) node.y = node.parent.y + before.get(node) - before.get(node.parent);
    }
    column.sort((a, b) => a.y - b.y);
    spaceColumn(column);
  }
}

/* Lays out a search: { nodes, columns, width: number of columns, height: in units }. */
function layOut(search, isFolded) {
  for (const node of search.nodes) node.shown = false;
  const t = arrange(search.roots, isFolded);
  if (t.nodes.length === 0) return { nodes: [], columns: [], width: 0, height: 0 };
  placeAll(t, search.roots);
  let top = walkDown(t, search.roots);
  if (search.links.length > 0) useDepths(t.nodes);
  const columns = columnsOf(t.nodes);
  if (search.links.length > 0) {
    centreMerged(columns, search.links);
    top = Math.min(...columns.map((column) => (column[0] ? column[0].y : Infinity)));
  }
  let height = 0;
  for (const node of t.nodes) {
    node.y -= top;
    node.shown = true;
    height = Math.max(height, node.y + 1);
  }
  return { nodes: t.nodes, columns, width: columns.length, height };
}
