/*
 * The data of a run: `readRun` makes plain objects of it, searches whose nodes refer to their parent,
 * children and calls.
 */

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

const MAX_LABEL = 2000; // characters of a node's text that a card may show
const MIN_SHARED = 14; // a shorter common beginning is shown

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

/* The label of a card: its text, without the beginning that its parent has, up to a word. */
function labelOf({ id, text, words, parent }) {
  let at = 0;
  const above = text.startsWith('{') ? '' : parent?.words ?? '';
  while (at < words.length && words[at] === above[at]) at += 1;
  if (at === words.length) at = 0;
  while (at > 0 && /[\p{L}\p{N}]/u.test(words[at - 1])) at -= 1;
  return (at < MIN_SHARED ? words : `…${words.slice(at)}`) || `#${id}`;
}

/* A node whose parent is missing, or comes after it, is a root: so there are no circles. */
function readSearch(raw) {
  const [byId, roots] = [new Map(), []];
  const nodes = raw.nodes.map((one) => {
    const parent = byId.get(one.up) ?? null;
    const node = { ...one, searchId: raw.id, kind: 'node', score: readScore(one.score), parent,
      text: one.text ?? '', level: parent ? parent.level + 1 : 0, children: [], calls: [], below: 0,
      column: 0, y: 0, shown: true };
    node.words = firstLine(tellingFields(node), MAX_LABEL);
    node.short = labelOf(node);
    (parent?.children ?? roots).push(node);
    byId.set(node.id, node);
    return node;
  });
  for (const { parent, below } of nodes.slice().reverse()) if (parent) parent.below += below + 1;
  const scores = nodes.map(({ score }) => score).filter(Number.isFinite).sort((a, b) => a - b);
  const [low, high] = [scores[0], scores.at(-1)];
  const range = low === undefined ? null
    : low >= 0 && high <= 1 ? { low: 0, high: 1 } : { low, high };
  const links = (raw.edges ?? [])
    .map(({ source, target, kind }) => ({ from: byId.get(source), to: byId.get(target), kind }))
    .filter(({ from, to }) => from && to && to.parent !== from);
  return { ...raw, score: readScore(raw.score), nodes, byId, roots, links, range,
    isTerminated: nodes.some((node) => node.terminal),
    bestPath: nodes.filter((node) => node.best).sort((a, b) => a.level - b.level),
    byScore: nodes.slice().sort((a, b) =>
      (b.score ?? -Infinity) - (a.score ?? -Infinity) || 0) }; // best first
}

/* A call without an end is drawn up to the end of the run. */
function readRun(raw) {
  const searches = raw.searches.map(readSearch);
  const byId = new Map(searches.map((search) => [search.id, search]));
  let end = raw.run.ended_at ?? raw.run.started_at;
  if (raw.run.status === 'running') end = Math.max(end, Date.now() / 1000);
  for (const call of raw.calls) end = Math.max(end, call.answered_at ?? call.asked_at);
  const calls = raw.calls.map((one, index) => {
    const node = byId.get(one.search)?.byId.get(one.node) ?? null;
    const call = { ...one, index, kind: 'call', node, lane: 0, until: one.answered_at ?? end };
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
function layOut(search, isFolded = () => false) {
  for (const node of search.nodes) node.shown = false;
  const root = d3.hierarchy({ children: search.roots },
    (node) => (isFolded(node) ? null : node.children));
  d3.tree().nodeSize([1, 1]).separation(() => 1)(root);
  const [nodes, columns, ys] = [[], [], []];
  root.eachBefore(({ data: node, depth, x }) => {
    if (depth === 0) return;
    Object.assign(node, { y: x, column: depth - 1, shown: true });
    nodes.push(node);
    ys.push(x);
    (columns[node.column] ??= []).push(node);
  });
  ys.sort((a, b) => a - b);
  for (const node of nodes) node.y -= ys[0];
  return { nodes, columns, width: columns.length, height: ys.length && ys.at(-1) - ys[0] + 1 };
}
