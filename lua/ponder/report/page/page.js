/* The state of the page, how each change of it updates the views, and the fixed parts. */

let raw = JSON.parse(byElementId('data').textContent);
let run = readRun(raw);

const NOTHING = { nodes: [], calls: [], isMatch: new Set(), above: new Set() };

let state = {
  search: null,
  folded: new Set(),
  selected: null,
  query: '',
  matches: NOTHING,
  list: run.searches.length > 0 ? 'outline' : 'calls',
  view: 'drawing',
  colourBy: 'purpose',
  filter: { status: '', model: '', purpose: '' }, // of calls
  json: false, // details as JSON
  theme: '',
  updates: 0, // of a running run, so far
};

const see = () => state;
const tree = makeTreeView(byElementId('tree'), see);
const time = makeTimeView(byElementId('time'), see, run);

const outline = makeRows(byElementId('outline'), 'node', (node) => fillNode(state, tree, node));
const calls = makeRows(byElementId('calls'), 'call', (call) =>
  fillCall(state, time, calls.items, call),
);

const details = { key: null, shown: null, search: null };

/* Whether two objects are the same node or call, perhaps read again. */
function isSame(a, b) {
  return a?.kind === b?.kind && a?.id === b?.id && a?.searchId === b?.searchId;
}

/* Selects a node, also of another search, or a call. */
const go = {
  node: (node) => {
    const search = run.searches.find(({ byId }) => byId.get(node.id) === node);
    const folded = search === state.search ? unfoldedTo(node) : new Set();
    change({ search, folded, selected: node });
  },
  call: (call) => change({ selected: call }),
};

/* A click selects; a second click opens the details on narrow screens. */
function pick(found) {
  if (found && found === state.selected) change({ view: 'details' });
  else if (found?.kind === 'node') go.node(found);
  else change({ selected: found });
}

/* ---- changes of the state ---- */

function change(changes) {
  const before = state;
  state = { ...state, ...changes };
  const changed = (...names) => names.some((name) => state[name] !== before[name]);
  if (changed('search', 'query')) state.matches = findMatches(state);
  if (changed('view')) applyView();
  if (changed('search', 'folded')) placeNodes(before.search?.id !== state.search?.id);
  if (changed('colourBy', 'theme', 'updates')) applyColours();
  if (changed('search', 'folded', 'query', 'theme')) setRows(outline, outlineOf(state), -1);
  if (changed('updates', 'filter')) applyFilter();
  if (changed('search', 'query', 'theme', 'colourBy', 'updates', 'filter')) setRows(calls,
callsOf(state, run), -1);
  if (changed('search', 'query', 'updates', 'filter')) showMatches();
  if (changed('search', 'selected', 'updates', 'json')) showDetails();
  if (changed('list')) applyList();
  if (changed('search', 'updates')) showSearch();
  markRows(changed('selected', 'list', 'search'));
  if (changed('selected')) applySelected(before);
  tree.redraw();
  time.redraw();
}

function placeNodes(isNew) {
  if (!state.search) return;
  const chosen = state.selected?.kind === 'node' ? state.selected : null;
  const before = chosen?.shown ? { column: chosen.column, y: chosen.y } : null;
  const wasWhole = !tree.touched;
  tree.layout = layOut(state.search, (node) => state.folded.has(node));
  if (isNew || wasWhole) fitTree(tree);
  else if (before && chosen.shown) tree.y += (chosen.y - before.y) * ROW; // stays in its place
  clampCamera(tree);
}

function markRows(anew) {
  const { selected } = state;
  for (const [rows, kind] of [
    [outline, 'node'],
    [calls, 'call'],
  ]) {
    const active = selected?.kind === kind ? rows.items.indexOf(selected) : -1;
    if (active === rows.active && !anew) continue;
    rows.active = active;
    drawRows(rows, true);
    if (anew) revealRow(rows);
  }
}

function reveal(selected) {
  if (selected.kind === 'node') revealNode(tree, selected);
  else revealCall(time, selected);
}

/* Scrolls a new selection into view; one that an update kept stays where it is. */
function applySelected(before) {
  if (isSame(before.selected, state.selected)) return;
  if (state.selected) reveal(state.selected);
  setLink();
}

function applyColours() {
  tree.colours = readColours();
  time.colours = tree.colours;
  colourCalls(time, state.colourBy);
  showKeys(time, byElementId('keys'));
}

function applyView() {
  byElementId('main').dataset.view = state.view;
  for (const button of byElementId('tabs').children) {
    button.setAttribute('aria-pressed', String(button.dataset.view === state.view));
  }
}

function applyFilter() {
  showFilter(byElementId('filter'), run, state.filter, (by, value) =>
    change({ filter: { ...state.filter, [by]: value } }),
  );
}

function applyList() {
  byElementId('filter').hidden = state.list !== 'calls' || run.calls.length === 0;
  for (const name of ['outline', 'calls']) {
    byElementId(name).hidden = state.list !== name;
    byElementId(`tab-${name}`).setAttribute('aria-selected', String(state.list === name));
  }
  drawRows(state.list === 'outline' ? outline : calls, true);
}

function showSearch() {
  const { search } = state;
  byElementId('search-select').value = String(run.searches.indexOf(search));
  const empty = byElementId('tree-empty');
  empty.hidden = search !== null && search.nodes.length > 0;
  empty.textContent = search ? 'This search has no nodes yet.' : '';
  showLegend(search);
}

function showLegend(search) {
  const parts = [];
  const add = (...content) => parts.push(element('span', null, ...content));
  const mark = (name) => element('i', { class: name });
  if (search?.range) {
    const { low, high } = search.range;
    add(`score ${showScore(low)}`, mark('ramp'), showScore(high));
  }
  if (search?.bestPath.length > 0) add(mark('path'), 'best path');
  if (search?.links.length > 0) add(mark('link'), 'other links');
  if (search?.nodes.some((node) => node.terminal)) add('◆ terminal');
  byElementId('legend').replaceChildren(...parts);
}

/* A key of everything that the details show; they are redrawn when it changes. */
function detailsKey({ selected, search }) {
  const brief = (list) => list.map(({ id, status }) => [id, status]);
  if (!selected) return JSON.stringify([run.run, run.totals, search?.id, search?.status]);
  if (selected.kind === 'call') return JSON.stringify(['call', selected.id, selected.status]);
  const { id, text, score, status, best, below, calls: own, parent } = selected;
  const all = [...brief(own), ...brief(parent?.calls ?? [])];
  return JSON.stringify([search.id, id, text, score, status, best, below, all]);
}

/* The collapsible boxes, by title. */
const boxesOf = (box) =>
  Array.from(box.querySelectorAll('details'), (one) => [one.firstElementChild.textContent, one]);

function titleOf(selected) {
  if (!selected) return 'This run';
  return selected.kind === 'node'
    ? nodeTitle(selected)
    : `Call ${selected.id} ${selected.purpose ?? ''}`;
}

function partsOf(search, selected) {
  if (state.json) return jsonDetails(run, search, selected);
  if (!selected) return runDetails(run, search);
  return selected.kind === 'node'
    ? nodeDetails(run, search, selected, go)
    : callDetails(run, selected, go);
}

function showDetails() {
  const { selected, search } = state;
  const key = `${state.json} ${detailsKey(state)}`;
  if (key === details.key) return;
  const isNew = !isSame(selected, details.shown) || search?.id !== details.search;
  const box = byElementId('details');
  if (!isNew && box.contains(document.activeElement) && document.activeElement.matches('textarea'))
    return; // the user is typing there
  Object.assign(details, { key, shown: selected, search: search?.id });
  const title = titleOf(selected);
  byElementId('details-title').textContent = title;
  byElementId('close').hidden = selected === null;
  byElementId('json').setAttribute('aria-pressed', String(state.json));
  const parts = partsOf(search, selected);
  const open = new Map(boxesOf(box).map(([name, one]) => [name, one.open]));
  box.replaceChildren(...parts.filter(Boolean));
  if (!isNew) {
    for (const [name, one] of boxesOf(box)) one.open = open.get(name) ?? one.open;
    return;
  }
  box.scrollTop = 0;
  if (selected)
    announce(`${title}. ${selected.kind === 'node' ? firstLine(selected.text, 100) : ''}`);
}

function announce(words) {
  byElementId('live').textContent = words;
}

/* ---- pointer and controls ---- */

function applyQuery() {
  const query = byElementId('query').value.trim().toLowerCase();
  if (query !== state.query) change({ query });
}

function nodeTip(node) {
  const score = showScore(node.score) || 'no score';
  const figures = [score, node.id, node.status].filter(Boolean).join(' · ');
  return `${figures}\n${firstLine(node.text, 200)}`;
}

function callTip(call) {
  return [
    `${callName(call)} · ${call.model}`,
    [
      callOutcome(call),
      showSeconds(callTime(call)),
      callCost(call),
      call.attempts > 1 ? count(call.attempts, 'try', 'tries') : '',
    ]
      .filter(Boolean)
      .join(' · '),
    callWords(call, run.texts),
  ].join('\n');
}

/* Shows a tooltip for the object under the pointer. */
function hover(view, found, tip, x, y) {
  if (found !== view.hovered) {
    view.hovered = found;
    view.redraw();
  }
  view.canvas.classList.toggle('pointing', found !== null);
  const box = view.canvas.getBoundingClientRect();
  showTip(found ? tip(found) : '', box.left + (x ?? 0), box.top + (y ?? 0));
}

function watchDrawings() {
  watchGestures(tree.canvas, {
    pan: (dx, dy) => panTree(tree, dx, dy),
    zoom: (factor, x, y) => zoomTree(tree, factor, x, y),
    hover: (x, y) =>
      hover(tree, x === undefined ? null : (nodeAt(tree, x, y)?.node ?? null), nodeTip, x, y),
    click: (x, y) => {
      const found = nodeAt(tree, x, y);
      if (!found) change({ selected: null });
      else if (found.handle) setFolded(found.node, !state.folded.has(found.node));
      else pick(found.node);
    },
  });
  watchGestures(time.canvas, {
    pan: (dx) => panTime(time, dx),
    zoom: (factor, x) => zoomTime(time, factor, x),
    hover: (x, y) => hover(time, x === undefined ? null : callAt(time, x, y), callTip, x, y),
    click: (x, y) => pick(callAt(time, x, y)),
  });
}

function watchLists() {
  outline.box.addEventListener('click', (event) => {
    const node = rowOf(outline, event);
    if (!node) return;
    if (event.target.closest('.twist') && node.children.length > 0)
      setFolded(node, !state.folded.has(node));
    else pick(node);
  });
  calls.box.addEventListener('click', (event) => {
    const call = rowOf(calls, event);
    if (call) pick(call);
  });
  for (const rows of [outline, calls]) {
    rows.box.addEventListener('dblclick', openSelected);
    new ResizeObserver(() => drawRows(rows, true)).observe(rows.box);
  }
  for (const name of ['outline', 'calls']) {
    byElementId(`tab-${name}`).addEventListener('click', () => change({ list: name }));
  }
}

function watchControls() {
  const on = (id, event, act) => byElementId(id).addEventListener(event, act);
  let waiting = 0;
  on('query', 'input', () => {
    clearTimeout(waiting);
    waiting = setTimeout(applyQuery, 80);
  });
  on('search-select', 'change', (event) =>
    change({ search: run.searches[Number(event.target.value)], selected: null, folded: new Set() }),
  );
  on('colour-by', 'change', (event) => change({ colourBy: event.target.value }));
  on('help-button', 'click', KEYS['?']);
  on('json', 'click', () => change({ json: !state.json }));
  on('close', 'click', () => change({ selected: null }));
  on('zoom-in', 'click', () => zoomTree(tree, 1.4));
  on('zoom-out', 'click', () => zoomTree(tree, 1 / 1.4));
  on('zoom-fit', 'click', () => fitTree(tree));
  on('go-best', 'click', stepBest);
  on('fold-all', 'click', foldAll);
  on('tabs', 'click', (event) => {
    if (event.target.dataset.view) change({ view: event.target.dataset.view });
  });
  document.addEventListener('keydown', keyDown);
  window.addEventListener('hashchange', followLink);
  new ResizeObserver(() => tree.redraw()).observe(tree.canvas);
  new ResizeObserver(() => time.redraw()).observe(time.canvas);
}

/* ---- fixed parts ---- */

function showTop() {
  const {
    run: { name: own, question: asked, command, script, status, started_at: started },
    searches,
    totals,
  } = run;
  const question = asked ?? searches.find((search) => search.question)?.question;
  const typed = script && !['-', '-e'].includes(script) ? `${command} ${script}` : command;
  const name = own ?? `ponder ${typed}`;
  const isOne = asked !== undefined || searches.length === 1;
  const title = question && isOne ? firstLine(question, 120) : name;
  document.title = `${title} – ponder`;
  byElementId('title').replaceChildren(title);
  byElementId('title').title = question ?? name;
  const chip = byElementId('status');
  chip.textContent = status;
  chip.className = `chip ${status}`;
  byElementId('when').textContent = showDate(started);
  const pairs = [
    [totals.calls === 1 ? 'call' : 'calls', inGroups.format(totals.calls)],
    ['tokens', showTokens(totals, plus(totals.input, totals.output))],
    ['cost', showCost(totals)],
    ['time', showSeconds(time.line.length)],
    [
      totals.models.length === 1 ? 'model' : 'models',
      totals.models.length === 1 ? totals.models[0].model : String(totals.models.length),
    ],
  ];
  byElementId('totals').replaceChildren(
    ...pairs.map(([label, value]) =>
      element('div', null, element('dt', null, label), element('dd', null, value)),
    ),
  );
}

function showFixed() {
  const choice = byElementId('search-select');
  choice.replaceChildren(
    ...run.searches.map((search, i) =>
      element(
        'option',
        { value: String(i) },
        `${i + 1}. ${search.kind} ${firstLine(search.name ?? search.question ?? '', 40)}`.trim(),
      ),
    ),
  );
  byElementId('search-choice').hidden = run.searches.length < 2;
  byElementId('notice').hidden = !run.notice;
  byElementId('notice').textContent = run.notice ?? '';
  byElementId('time-empty').hidden = run.calls.length > 0;
  byElementId('time-empty').textContent = 'This run called no model.';
  byElementId('help-keys').replaceChildren(
    ...HELP.flatMap(([keys, words]) => [element('dt', null, keys), element('dd', null, words)]),
  );
  const without = run.searches.length === 0;
  byElementId('main').classList.toggle('no-search', without);
  document.body.classList.toggle('no-search', without);
  byElementId('tab-outline').hidden = without;
}

/* ---- links to a node or call: #search=2&node=n4, #call=7 ---- */

function linkOf(thing) {
  if (!thing) return '';
  if (thing.kind === 'call') return `#${new URLSearchParams({ call: thing.id })}`;
  return `#${new URLSearchParams({ search: thing.searchId, node: thing.id })}`;
}

function setLink() {
  const link = linkOf(state.selected);
  if (location.hash !== link) history.replaceState(null, '', link || location.href.split('#')[0]);
}

function followLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const named = (list, id) => list.find((item) => String(item.id) === id);
  const call = named(run.calls, link.get('call'));
  const among = link.has('search') ? [named(run.searches, link.get('search'))] : run.searches;
  const node = among.map((search) => search && named(search.nodes, link.get('node'))).find(Boolean);
  if (node) go.node(node);
  else if (call) change({ selected: call, list: 'calls' });
}

function start() {
  showFixed();
  showTop();
  watchDrawings();
  watchLists();
  watchControls();
  applyFilter();
  applyList();
  showMatches();
  showDetails();
  watchTheme((shown) => change({ theme: shown }));
  change({
    search: firstSearch(),
    theme: shownTheme(),
    view: run.searches.length > 0 ? 'drawing' : 'lists',
  });
  followLink();
  drawTree(tree);
  drawTime(time);
  startFollowing();
  performance.mark('drawn');
}

start();
