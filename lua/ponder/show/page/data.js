/*
 * The data of a run: `readRun` makes plain objects of it, searches whose nodes refer to their parent,
 * children and calls. Updates of a running run are merged into the data, which is then read again.
 */

/* Orders ids by the numbers in them: n2 before n10. */
const idOrder = new Intl.Collator('en', { numeric: true });
const compareIds = (a, b) => (typeof a === 'number' && typeof b === 'number' ? a - b
  : idOrder.compare(String(a), String(b)));

/* JSON has no infinities: they arrive as strings. */
const readScore = (score) => (score === undefined ? undefined : Number(score));

/* Visits parents before their children, without recursion: a tree may have thousands of levels. */
function depthFirst(roots, visit, isFolded = () => false) {
  const stack = roots.slice().reverse();
  while (stack.length > 0) {
    const node = stack.pop();
    visit(node);
    if (isFolded(node)) continue;
    for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
  }
}

/* Links nodes to their parents; a node whose parent is missing or its descendant becomes a root. */
function linkNodes(nodes, byId) {
  const roots = [];
  for (const node of nodes) {
    const parent = byId.get(node.up);
    if (!parent || parent === node) {
      roots.push(node);
      continue;
    }
    node.parent = parent;
    parent.children.push(node);
  }
  const reached = new Set();
  depthFirst(roots, (node) => reached.add(node));
  for (const node of nodes) {
    if (reached.has(node)) continue;
    const siblings = node.parent.children;
    siblings.splice(siblings.indexOf(node), 1);
    node.parent = null;
    roots.push(node);
    depthFirst([node], (below) => reached.add(below));
  }
  return roots;
}

/* Sets the level of each node, and how many are below it. */
function countBelow(roots) {
  const order = [];
  depthFirst(roots, (node) => {
    node.level = node.parent ? node.parent.level + 1 : 0;
    order.push(node);
  });
  for (const { parent, below } of order.reverse()) if (parent) parent.below += below + 1;
}

function scoreRange(nodes) {
  let [low, high] = [Infinity, -Infinity];
  for (const { score } of nodes) {
    if (!Number.isFinite(score)) continue;
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  if (low > high) return null;
  return low >= 0 && high <= 1 ? { low: 0, high: 1 } : { low, high };
}

const MAX_LABEL = 2000; // characters of a node's text that a card may show
const MIN_SHARED = 14; // a shorter common beginning is shown
const MIN_SHARED_NARROW = 5; // the same for narrow cards; "6 - " of "6 - 4 = 2" must stay

function commonLength(a, b) {
  const max = Math.min(a.length, b.length);
  let n = 0;
  while (n < max && a[n] === b[n]) n += 1;
  return n;
}

/* Removes the shared beginning of a text, if it has at least `min` characters, up to a word. */
function withoutShared(text, shared, min, mark) {
  let at = shared < text.length ? shared : 0;
  while (at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1])) at -= 1;
  return at < min ? text : mark + text.slice(at);
}

/* A node's text; of a state that is a table, the fields that its parent has not, shortest first. */
function tellingFields({ text, parent }) {
  const own = text.startsWith('{') ? parsed(text) : null;
  if (own === null) return text;
  const above = parent?.text.startsWith('{') ? parsed(parent.text) : null;
  const fields = Object.entries(own).map(([name, value]) => [name, asText(value)]);
  const telling = fields.filter(([name, value]) => !above || asText(above[name]) !== value);
  return (telling.length > 0 ? telling : fields).sort((a, b) => a[1].length - b[1].length)
    .map(([name, value]) => `${name}: ${value}`).join(', ');
}

/*
 * Sets the labels of cards: texts without the beginning that a node shares with its parent or its
 * most similar sibling; `brief` is for narrow cards.
 */
function labelNodes(nodes, roots) {
  for (const node of nodes) node.words = firstLine(tellingFields(node), MAX_LABEL);
  for (const { words, children } of [{ words: '', children: roots }, ...nodes]) {
    const order = children.slice().sort((a, b) => (a.words < b.words ? -1 : 1));
    order.forEach((node, i) => {
      const near = [words, order[i - 1]?.words ?? '', order[i + 1]?.words ?? ''];
      const longest = node.text.startsWith('{') ? 0 : Math.max(...near.map((other) =>
        (other === node.words ? 0 : commonLength(other, node.words))));
      node.short = withoutShared(node.words, longest, MIN_SHARED, '…') || `#${node.id}`;
      node.brief = withoutShared(node.words, longest, MIN_SHARED_NARROW, '') || `#${node.id}`;
    });
  }
}

function readSearch(raw) {
  const nodes = raw.nodes.slice().sort((a, b) => compareIds(a.id, b.id)).map((node) => ({
    ...node, searchId: raw.id, kind: 'node', score: readScore(node.score), text: node.text ?? '',
    parent: null, children: [], calls: [], below: 0, column: 0, y: 0, shown: true, label: ['', ''],
    labelKey: '',
  }));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const roots = linkNodes(nodes, byId);
  countBelow(roots);
  labelNodes(nodes, roots);
  const links = (raw.edges ?? [])
    .map(({ source, target, kind }) => ({ from: byId.get(source), to: byId.get(target), kind }))
    .filter(({ from, to }) => from && to && to.parent !== from);
  return { ...raw, score: readScore(raw.score), nodes, byId, roots, links, range: scoreRange(nodes),
    isTerminated: nodes.some((node) => node.terminal),
    bestPath: nodes.filter((node) => node.best).sort((a, b) => a.level - b.level),
    byScore: nodes.slice()
      .sort((a, b) => (b.score ?? -Infinity) - (a.score ?? -Infinity) || 0) }; // best first
}

/* A call without an end is drawn up to the end of the run. */
function readRun(raw) {
  const searches = raw.searches.map(readSearch);
  const byId = new Map(searches.map((search) => [search.id, search]));
  let end = raw.run.ended_at ?? raw.run.started_at;
  if (raw.run.status === 'running') end = Math.max(end, Date.now() / 1000);
  for (const call of raw.calls) end = Math.max(end, call.answered ?? call.asked);
  const calls = raw.calls.map((one, index) => {
    const node = byId.get(one.search)?.byId.get(one.node) ?? null;
    const call = { ...one, index, kind: 'call', node, lane: 0, until: one.answered ?? end };
    node?.calls.push(call);
    return call;
  });
  return { ...raw, searches, calls, end };
}

/* ---- the layout of a tree ---- */

/*
 * Places the shown nodes: a column for each depth, parents amid their children, at least one unit
 * between two of a column (d3's tree, Buchheim, Jünger and Leipert 2002). Returns { nodes, columns,
 * width: number of columns, height: in units }.
 */
function layOut(search, isFolded) {
  for (const node of search.nodes) node.shown = false;
  if (search.nodes.length === 0) return { nodes: [], columns: [], width: 0, height: 0 };
  const root = d3.hierarchy({ children: search.roots },
    (node) => (isFolded(node) ? null : node.children));
  d3.tree().nodeSize([1, 1]).separation(() => 1)(root);
  const nodes = [];
  root.eachBefore(({ data: node, depth, x }) => {
    if (depth === 0) return;
    Object.assign(node, { y: x, column: depth - 1, shown: true });
    nodes.push(node);
  });
  const linked = search.links.length > 0;
  if (linked) useDepths(nodes);
  const columns = [];
  for (const node of nodes) (columns[node.column] ??= []).push(node);
  for (let i = 0; i < columns.length; i++) columns[i] = (columns[i] ?? []).sort((a, b) => a.y - b.y);
  if (linked) centreMerged(columns, search.links);
  let [top, bottom] = [Infinity, -Infinity];
  for (const { y } of nodes) {
    top = Math.min(top, y);
    bottom = Math.max(bottom, y);
  }
  for (const node of nodes) node.y -= top;
  return { nodes, columns, width: columns.length, height: bottom - top + 1 };
}

/* In a graph a node's column is its depth, which may exceed its parent's by more than one. */
function useDepths(nodes) {
  const min = nodes.reduce((least, { depth }) => Math.min(least, depth ?? Infinity), Infinity);
  for (const node of nodes) {
    const own = node.depth !== undefined ? node.depth - min : 0;
    node.column = Math.max(own, node.parent ? node.parent.column + 1 : 0);
  }
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
    let moved = 0; // those that are closer than one unit move apart
    for (let i = 1; i < column.length; i++) {
      const by = column[i - 1].y + 1 - column[i].y;
      if (by <= 0) continue;
      moved += by;
      column[i].y += by;
    }
    for (const node of column) node.y -= moved / column.length;
  }
}
