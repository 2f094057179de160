/*
 * How the page works.
 *
 * The data, JSON in #data, is read (readRun) into plain objects: a run with searches, whose nodes
 * refer to their parent, children and calls. Updates of a running run are merged into the data
 * (live.js), which is then read again; the objects themselves never change.
 *
 * Everything that the user can change is in one object, `state` (page.js): the search, folded
 * nodes, the selection, the text to find, colours. Every key and click changes it with
 * `change({...})`, and changes flow one way:
 *
 *     state -> layout (layout.js) -> drawings (tree.js, time.js), lists (lists.js), details
 *
 * Drawings are canvases: nodes out of view are skipped, and those too small to read become bars.
 * The lists beside them show the same for keyboards and screen readers; only visible rows have
 * elements. Texts of the run are only set as text, never as markup.
 *
 *     state.js     reads the data           lists.js     tree and calls as rows (rows.js)
 *     text.js      formats, elements        details.js   one node, one call, or the run
 *     layout.js    places of nodes          search.js    finds text
 *     canvas.js    size, colours, gestures  moves.js     folding, arrow keys
 *     camera.js    zoom and coordinates     keys.js      keyboard shortcuts
 *     tree.js      draws a search           live.js      follows a running run
 *     time.js      draws the timeline       update.js    redraws it
 *     fork.js      commands that fork a run page.js      the state
 */

/* Orders ids by the numbers in them: n2 before n10. */
const idOrder = new Intl.Collator('en', { numeric: true });

function compareIds(a, b) {
  return typeof a === 'number' && typeof b === 'number'
    ? a - b
    : idOrder.compare(String(a), String(b));
}

/* JSON has no infinities: they arrive as strings. */
function readScore(score) {
  return score === undefined ? undefined : Number(score);
}

function readNode(raw, index, searchId) {
  return {
    ...raw,
    searchId,
    score: readScore(raw.score),
    index,
    kind: 'node',
    text: raw.text ?? '',
    parent: null,
    children: [],
    calls: [],
    column: 0,
    y: 0,
    below: 0,
    shown: true,
    label: ['', ''],
    labelKey: '',
  };
}

/* Visits parents before their children, without recursion: a tree may have thousands of levels. */
function depthFirst(roots, visit, isFolded = () => false) {
  const stack = roots.slice().reverse();
  while (stack.length > 0) {
    const node = stack.pop();
    visit(node);
    if (!isFolded(node)) {
      for (let i = node.children.length - 1; i >= 0; i--) stack.push(node.children[i]);
    }
  }
}

/* Links nodes to their parents; a node whose parent is missing or its descendant becomes a root. */
function linkNodes(nodes, byId) {
  const roots = [];
  for (const node of nodes) {
    const parent = node.up === undefined ? undefined : byId.get(node.up);
    if (parent && parent !== node) {
      node.parent = parent;
      parent.children.push(node);
    } else {
      roots.push(node);
    }
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

function countBelow(roots) {
  const order = [];
  depthFirst(roots, (node) => {
    node.level = node.parent ? node.parent.level + 1 : 0;
    order.push(node);
  });
  for (let i = order.length - 1; i >= 0; i--) {
    const { parent, below } = order[i];
    if (parent) parent.below += below + 1;
  }
}

function scoreRange(nodes) {
  let low = Infinity,
    high = -Infinity;
  for (const { score } of nodes) {
    if (!Number.isFinite(score)) continue;
    low = Math.min(low, score);
    high = Math.max(high, score);
  }
  if (low > high) return null;
  return low >= 0 && high <= 1 ? { low: 0, high: 1 } : { low, high };
}

function readLinks(raw, byId) {
  const links = [];
  for (const { source, target, kind } of raw.edges ?? []) {
    const from = byId.get(source),
      to = byId.get(target);
    if (from && to && to.parent !== from) links.push({ from, to, kind });
  }
  return links;
}

/* Orders nodes best first, those without a score last. */
function compareScores(a, b) {
  const [x, y] = [a.score ?? -Infinity, b.score ?? -Infinity];
  return x === y ? 0 : x > y ? -1 : 1;
}

const MAX_LABEL = 2000; // characters of a node's text that a card may show

function commonLength(a, b) {
  const max = Math.min(a.length, b.length);
  let n = 0;
  while (n < max && a[n] === b[n]) n += 1;
  return n;
}

const MIN_SHARED = 14; // a shorter common beginning is shown
const MIN_SHARED_NARROW = 5; // the same for narrow cards; "6 - " of "6 - 4 = 2" must stay

/* Removes the shared beginning of a text, if it has at least `min` characters, up to a word. */
function withoutShared(text, shared, min, mark) {
  let at = shared < text.length ? shared : 0;
  while (at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1])) at -= 1;
  return at < min ? text : mark + text.slice(at);
}

/* Sets the labels of cards: texts without the beginning that a node shares with its parent or
 * its most similar sibling; `brief` is for narrow cards. */
function labelNodes(nodes, roots) {
  for (const node of nodes) node.words = firstLine(node.text, MAX_LABEL);
  for (const { words, children } of [{ words: '', children: roots }, ...nodes]) {
    const order = children.slice().sort((a, b) => (a.words < b.words ? -1 : 1));
    order.forEach((node, i) => {
      const shared = [words, order[i - 1]?.words ?? '', order[i + 1]?.words ?? ''].map((other) =>
        other === node.words ? 0 : commonLength(other, node.words),
      );
      const longest = Math.max(...shared);
      node.short = withoutShared(node.words, longest, MIN_SHARED, '…') || `#${node.id}`;
      node.brief = withoutShared(node.words, longest, MIN_SHARED_NARROW, '') || `#${node.id}`;
    });
  }
}

function readSearch(raw) {
  const nodes = raw.nodes
    .slice()
    .sort((a, b) => compareIds(a.id, b.id))
    .map((node, index) => readNode(node, index, raw.id));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const roots = linkNodes(nodes, byId);
  countBelow(roots);
  labelNodes(nodes, roots);
  return {
    ...raw,
    score: readScore(raw.score),
    nodes,
    byId,
    roots,
    links: readLinks(raw, byId),
    range: scoreRange(nodes),
    bestPath: nodes.filter((node) => node.best).sort((a, b) => a.level - b.level),
    byScore: nodes.slice().sort(compareScores),
  };
}

/* A call without an end is drawn up to the end of the run. */
function readCall(raw, index, searches, end) {
  const search = searches.get(raw.search);
  const node = search?.byId.get(raw.node) ?? null;
  const call = {
    ...raw,
    index,
    kind: 'call',
    node,
    searchObject: search ?? null,
    lane: 0,
    until: raw.answered ?? end,
  };
  node?.calls.push(call);
  return call;
}

function lastMoment(raw) {
  let end = raw.run.ended_at ?? raw.run.started_at;
  if (raw.run.status === 'running') end = Math.max(end, Date.now() / 1000);
  for (const call of raw.calls) end = Math.max(end, call.answered ?? call.asked);
  return end;
}

function readRun(raw) {
  const searches = raw.searches.map(readSearch);
  const byId = new Map(searches.map((search) => [search.id, search]));
  const end = lastMoment(raw);
  const calls = raw.calls.map((call, index) => readCall(call, index, byId, end));
  return { ...raw, searches, calls, end };
}
