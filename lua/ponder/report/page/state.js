/*
 * How the page works.
 *
 * The data, one JSON text in #data, is read (readRun) into plain objects: a run with searches, whose
 * nodes know their parent, children and calls. What comes later of a run that is going on is merged
 * into the data (live.js), which is then read again; the objects themselves never change.
 *
 * What a reader can change is in one object, `state` (page.js): which search, what is folded, what
 * is chosen, what is searched for, colours. Every key and click makes a change of it through
 * `change({...})`; what follows from it flows one way:
 *
 *     state -> layout (layout.js) -> drawings (tree.js, time.js), lists (lists.js), details
 *
 * Drawings are canvases: what is out of sight is left out, and what is too small to read becomes a
 * bar. The lists beside them hold the same for the keyboard and for screen readers; only rows in
 * sight exist. Texts of the run are only ever set as text, never as markup.
 *
 *     state.js     reads the data           lists.js     tree and calls as rows (rows.js)
 *     text.js      words and elements       details.js   one node, one call, or the run
 *     layout.js    places of nodes          search.js    finding text
 *     canvas.js    sizes, colours, drags    moves.js     folding, where arrows lead
 *     camera.js    zoom and places          keys.js      keys
 *     tree.js      draws a search           live.js      a run that is going on
 *     time.js      draws the time line      news.js      and draws it again
 *     fork.js      commands that fork a run page.js      the state
 */

/* Text ids with numbers in them in the order of the numbers: n2 before n10. */
const idOrder = new Intl.Collator('en', { numeric: true });

function compareIds(a, b) {
  return typeof a === 'number' && typeof b === 'number'
    ? a - b
    : idOrder.compare(String(a), String(b));
}

/* JSON has no infinities: they come by name. */
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

/* Parents before their children, depth first, without recursion: a tree may be thousands deep. */
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

/* Hangs nodes below their parents; one whose parent is missing, or is below itself, is a root. */
function hangNodes(nodes, byId) {
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

/* The best first, those without a score last. */
function compareScores(a, b) {
  const [x, y] = [a.score ?? -Infinity, b.score ?? -Infinity];
  return x === y ? 0 : x > y ? -1 : 1;
}

/* The text of a node on one line, as far as a card can show it. */
const MOST_LABEL = 2000;

function commonLength(a, b) {
  const most = Math.min(a.length, b.length);
  let n = 0;
  while (n < most && a[n] === b[n]) n += 1;
  return n;
}

const LEAST_SHARED = 14; // characters that are worth leaving out
const LEAST_CROWDED = 4; // the same where there is no room for all

/* A label that leaves out what the others say, too: it begins at a word. */
function withoutShared(text, shared, least, mark) {
  let at = shared < text.length ? shared : 0;
  while (at > 0 && /[\p{L}\p{N}]/u.test(text[at - 1])) at -= 1;
  return at < least ? text : mark + text.slice(at);
}

/* What cards say of nodes: without the beginning that a node shares with its parent or with the
 * sibling that is most like it; `brief` is for narrow cards. */
function labelNodes(nodes, roots) {
  for (const node of nodes) node.words = firstLine(node.text, MOST_LABEL);
  for (const { words, children } of [{ words: '', children: roots }, ...nodes]) {
    const order = children.slice().sort((a, b) => (a.words < b.words ? -1 : 1));
    order.forEach((node, i) => {
      const shared = [words, order[i - 1]?.words ?? '', order[i + 1]?.words ?? ''].map((other) =>
        other === node.words ? 0 : commonLength(other, node.words),
      );
      const most = Math.max(...shared);
      node.short = withoutShared(node.words, most, LEAST_SHARED, '…') || `#${node.id}`;
      node.brief = withoutShared(node.words, most, LEAST_CROWDED, '') || `#${node.id}`;
    });
  }
}

function readSearch(raw) {
  const nodes = raw.nodes
    .slice()
    .sort((a, b) => compareIds(a.id, b.id))
    .map((node, index) => readNode(node, index, raw.id));
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const roots = hangNodes(nodes, byId);
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

/* Calls that never ended are drawn up to the end of the run. */
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
