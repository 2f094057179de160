/*
 * Two runs side by side: the differences of `ponder diff`, drawn on their trees. Selecting a node
 * on one side also selects the equal node on the other.
 */

const data = JSON.parse(byElementId('data').textContent);
const { diff } = data;
const runs = { a: readRun(data.a), b: readRun(data.b) };

let shown = null; // the comparison of the drawn searches
let entries = []; // their differences, in order
let chosen = null; // an entry, or nodes { a, b }

/* ---- the two drawings ---- */

function makeSide(name) {
  const side = { name, state: { search: null, folded: new Set(), selected: null, query: '' } };
  side.state.matches = { nodes: [], calls: [], isMatch: new Set(), above: new Set() };
  side.view = makeTreeView(byElementId(`tree-${name}`), () => side.state);
  return side;
}

const sides = { a: makeSide('a'), b: makeSide('b') };
const bothSides = (action) => Object.values(sides).forEach(action);

/* Marks the nodes that only this side has, and those with different scores. */
function markNodes(search, ids, scored) {
  if (!search) return;
  for (const node of search.nodes) node.mark = null;
  for (const id of ids) search.byId.get(id).mark = 'good';
  for (const id of scored) search.byId.get(id).mark = 'wait';
}

function showSearch(found) {
  shown = found;
  const only = (list) => (list ?? []).map(({ id }) => id);
  const scored = (end) => (found?.scored ?? []).map((pair) => pair[end]);
  const search = (name) => runs[name].searches.find(({ id }) => id === found?.id) ?? null;
  for (const name of ['a', 'b']) {
    const { state, view } = sides[name];
    Object.assign(state, { search: search(name), folded: new Set(), selected: null });
    markNodes(state.search, only(found?.[`only_${name}`]), scored(name));
    place(sides[name]);
    fitTree(view);
  }
  entries = [
    ...only(found?.only_a).map((id) => ({ kind: 'a', a: sides.a.state.search.byId.get(id) })),
    ...only(found?.only_b).map((id) => ({ kind: 'b', b: sides.b.state.search.byId.get(id) })),
    ...(found?.scored ?? []).map(({ a, b }) => ({
      kind: 'scored',
      a: sides.a.state.search.byId.get(a),
      b: sides.b.state.search.byId.get(b),
    })),
  ];
  setRows(list, entries, -1);
  byElementId('differ').textContent = found ? differWords(found) : 'No search';
  choose(null);
}

function differWords(found) {
  if (!found.only_a) return 'The searches are of different kinds';
  const path = found.best_path_same ? 'the best path is the same' : 'the best path differs';
  return `${found.only_a_count} only in A, ${found.only_b_count} only in B, ${found.scored_count} scored differently; ${path}`;
}

function place({ state, view }) {
  view.layout = state.search
    ? layOut(state.search, (node) => state.folded.has(node))
    : { nodes: [], columns: [], width: 0, height: 0 };
  view.redraw();
}

/* A node of one side with the equal node of the other. */
function nodesLike(name, node) {
  const pair = (shown?.pairs ?? []).find((ids) => ids[name === 'a' ? 0 : 1] === node.id);
  const other = (side, i) => (pair ? sides[side].state.search.byId.get(pair[i]) : undefined);
  return name === 'a' ? { a: node, b: other('b', 1) } : { a: other('a', 0), b: node };
}

function choose(found) {
  chosen = found;
  for (const name of ['a', 'b']) {
    const { state, view } = sides[name];
    state.selected = found?.[name] ?? null;
    if (state.selected) revealNode(view, state.selected);
    view.redraw();
  }
  const active = entries.findIndex((entry) => entry.a === found?.a && entry.b === found?.b);
  if (active !== list.active) {
    list.active = active;
    revealRow(list);
    drawRows(list, true);
  }
  showDetails();
}

function watchSide(side) {
  const { view, state, name } = side;
  watchGestures(view.canvas, {
    pan: (dx, dy) => panTree(view, dx, dy),
    zoom: (factor, x, y) => zoomTree(view, factor, x, y),
    hover: (x, y) => {
      const node = x === undefined || !state.search ? null : (nodeAt(view, x, y)?.node ?? null);
      if (node !== view.hovered) view.redraw();
      view.hovered = node;
      const box = view.canvas.getBoundingClientRect();
      const words = node ? `${showScore(node.score) || 'no score'}\n${firstLine(node.text, 200)}` : '';
      showTip(words, box.left + (x ?? 0), box.top + (y ?? 0));
    },
    click: (x, y) => {
      const found = state.search && nodeAt(view, x, y);
      if (found?.handle) fold(side, found.node);
      else choose(found ? nodesLike(name, found.node) : null);
    },
  });
  view.canvas.addEventListener('keydown', (event) => sideKey(side, event));
  new ResizeObserver(() => view.redraw()).observe(view.canvas);
}

function fold(side, node) {
  const { folded } = side.state;
  if (!folded.delete(node)) folded.add(node);
  place(side);
}

function sideKey(side, event) {
  const { state, view, name } = side;
  const node = state.selected ?? state.search?.roots[0];
  const column = node && view.layout.columns[node.column];
  const step = (by) => column?.[column.indexOf(node) + by];
  const steps = {
    ArrowLeft: () => node?.parent,
    ArrowRight: () => node?.children[0],
    ArrowUp: () => step(-1),
    ArrowDown: () => step(1),
  };
  if (steps[event.key]) {
    const next = state.selected ? steps[event.key]() : node;
    if (next?.shown) choose(nodesLike(name, next));
  } else if (event.key === ' ' && state.selected) fold(side, state.selected);
  else if (event.key === '+') zoomTree(view, 1.4);
  else if (event.key === '-') zoomTree(view, 1 / 1.4);
  else if (event.key === '0') fitTree(view);
  else return;
  event.preventDefault();
}

/* ---- words ---- */

const list = makeRows(byElementId('nodes'), 'entry', ({ kind, a, b }, i) =>
  element(
    'div',
    { role: 'option', class: kind, 'aria-setsize': entries.length, 'aria-posinset': i + 1 },
    element('span', { class: 'mark' }, { a: '−', b: '+', scored: '~' }[kind]),
    element(
      'span',
      { class: 'score' },
      [a, b]
        .filter(Boolean)
        .map((node) => showScore(node.score) || '–')
        .join(' → '),
    ),
    element('span', { class: 'words' }, firstLine((a ?? b).text) || `#${(a ?? b).id}`),
  ),
);

function nodeParts(name, node) {
  const id = { run: data[name].name };
  const link = `${served('/', id)}#${new URLSearchParams({ search: shown.id, node: node?.id ?? '' })}`;
  return [
    element('h3', null, `Run ${name.toUpperCase()}`),
    node
      ? element('p', null, element('a', { href: link }, `node ${node.id}`), scoreWords(node))
      : element('p', { class: 'muted' }, 'does not have it'),
    node ? element('pre', { tabindex: '0' }, visible(node.text)) : null,
  ].filter(Boolean);
}

const scoreWords = (node) => (node.score === undefined ? '' : `, score ${node.score}`);

const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value ?? null));

function callLine(mark, { id, purpose, provider, model }) {
  return element('p', null, `${mark} ${purpose ?? 'call'} #${id} ${provider}:${model}`);
}

/* Details without a selection: inputs that differ, and calls that only one run has. */
function runParts() {
  const { given, files, calls } = diff;
  const all = [
    given.length + files.length > 0 ? element('h3', null, 'Inputs') : null,
    ...given.map(({ name, a, b }) => element('p', null, `${name}: ${asText(a)} | ${asText(b)}`)),
    ...files.map(({ path, kind, a, b }) =>
      element('p', null, `${kind} ${path}${a && b ? ' differs' : a ? ': only in A' : ': only in B'}`),
    ),
    element(
      'h3',
      null,
      `Calls: ${calls.same} the same, ${calls.only_a_count} only in A, ${calls.only_b_count} only in B`,
    ),
    ...calls.only_a.slice(0, 100).map((call) => callLine('−', call)),
    ...calls.only_b.slice(0, 100).map((call) => callLine('+', call)),
  ];
  return all.filter(Boolean);
}

function showDetails() {
  const parts = chosen ? [...nodeParts('a', chosen.a), ...nodeParts('b', chosen.b)] : runParts();
  byElementId('details').replaceChildren(...parts);
}

function showTable() {
  const { a, b } = diff;
  const words = {
    status: (side) => side.state,
    answer: (side) => firstLine(asText(side.answer?.answer ?? side.answer ?? side.error ?? ''), 300),
    calls: (side) => inGroups.format(side.calls),
    'not sent': (side) => inGroups.format(side.reused),
    tokens: (side) => showTokens(side, plus(side.input_tokens, side.output_tokens)),
    cost: showCost,
    time: (side) => showSeconds(side.duration_s),
  };
  const head = ['', ...Object.keys(words)].map((name) => element('th', { scope: 'col' }, name));
  const rowOfSide = (name, side) =>
    element(
      'tr',
      null,
      element('th', { scope: 'row' }, name),
      ...Object.values(words).map((of) =>
        element('td', { title: of(side), class: of(a) === of(b) ? null : 'differs' }, of(side)),
      ),
    );
  byElementId('table').replaceChildren(
    element('table', null, element('tr', null, ...head), rowOfSide('A', a), rowOfSide('B', b)),
  );
  const verdict = byElementId('verdict');
  verdict.textContent = diff.same ? 'same outcome' : 'different outcomes';
  verdict.classList.add(diff.same ? 'completed' : 'interrupted');
}

/* ---- start ---- */

function showFixed() {
  byElementId('home').href = served('/');
  for (const name of ['a', 'b']) {
    const link = byElementId(`link-${name}`);
    link.href = served('/', { run: data[name].name });
    link.textContent = `${name.toUpperCase()}  ${data[name].name}`;
  }
  const choice = byElementId('search-select');
  choice.replaceChildren(
    ...diff.searches.map((search, i) =>
      element(
        'option',
        { value: String(i) },
        `${search.id}. ${search.kind ?? search.b_kind}${search.same ? '' : ' (differs)'}`,
      ),
    ),
  );
  byElementId('search-choice').hidden = diff.searches.length < 2;
  choice.addEventListener('change', () => showSearch(diff.searches[Number(choice.value)]));
}

function listKey(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || entries.length === 0) return;
  event.preventDefault();
  choose(entries[Math.min(entries.length - 1, Math.max(0, list.active + step))]);
}

function applyColours() {
  const colours = readColours();
  bothSides(({ view }) => {
    view.colours = colours;
    view.redraw();
  });
}

function start() {
  showFixed();
  showTable();
  watchTheme(applyColours);
  applyColours();
  bothSides(watchSide);
  list.box.addEventListener('click', (event) => choose(rowOf(list, event)));
  list.box.addEventListener('keydown', listKey);
  new ResizeObserver(() => drawRows(list, true)).observe(list.box);
  document.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') choose(null);
    if (event.key === 't' && !event.target.matches('input, select')) switchTheme();
  });
  const first = diff.searches.findIndex((search) => !search.same);
  byElementId('search-select').value = String(Math.max(0, first));
  showSearch(diff.searches[Math.max(0, first)] ?? null);
  performance.mark('drawn');
}

start();
