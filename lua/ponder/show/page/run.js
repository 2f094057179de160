/*
 * The page of a run. All that the user can change is in `state`; each key and click changes it with
 * `change({...})`, and changes flow one way:
 *
 *     state -> matches, layout, lists -> drawings (treeview.js, timeline.js), details (inspect.js)
 */

let run = readRun(data);

const NOTHING = { nodes: [], calls: [], isMatch: new Set(), above: new Set() };

let state = {
  search: null,
  folded: new Set(),
  selected: null, // a node or a call
  query: '',
  matches: NOTHING,
  list: run.searches.length > 0 ? 'outline' : 'calls',
  view: run.searches.length > 0 ? 'drawing' : 'lists', // on a narrow screen
  filter: { status: '', model: '', purpose: '' }, // of calls
  outline: [],
  calls: [],
  lit: new Set(), // the same calls
  updates: 0, // of a running run, so far
};

const tree = new Tree(() => state);
const time = new Timeline(() => state);

function change(changes) {
  const before = state;
  state = { ...state, ...changes };
  const changed = (...names) => names.some((name) => state[name] !== before[name]);
  if (changed('search', 'query')) state.matches = findMatches(state);
  if (changed('search', 'folded')) {
    tree.place(before.search?.id !== state.search?.id,
      state.selected?.kind === 'node' ? state.selected : null);
  }
  const { search, query, matches, filter } = state;
  if (changed('search', 'folded', 'query')) {
    state.outline = []; // unfolded nodes; during a text search, matches and their ancestors
    depthFirst(search?.roots ?? [], (node) => (query === '' || matches.isMatch.has(node)
      || matches.above.has(node)) && state.outline.push(node), (node) => !isOpen(node));
  }
  if (changed('search', 'query', 'filter', 'updates')) {
    state.calls = run.calls.filter((call) => (query === '' || matches.isMatch.has(call))
      && Object.keys(filter).every((by) => filter[by] === '' || valueOf(call, by) === filter[by]));
    state.lit = new Set(state.calls);
  }
  refresh();
  const { selected } = state;
  if (['kind', 'id', 'searchId'].every((name) => before.selected?.[name] === selected?.[name]))
    return; // what an update kept stays where it is
  if (selected) (selected.kind === 'node' ? tree : time).reveal(selected);
  const link = linkOf(selected);
  if (location.hash !== link) history.replaceState(null, '', link || location.href.split('#')[0]);
  if (selected) announce(`${titleOf(selected)}. ${firstLine(selected.text ?? '', 100)}`);
}

const announce = (words) => (document.getElementById('live').textContent = words);

/* Selects a node, also of another search, or a call. */
function go(thing) {
  if (thing.kind === 'call') return change({ selected: thing });
  const search = run.searches.find(({ id }) => id === thing.searchId);
  const folded = new Set(search === state.search ? state.folded : []);
  for (let above = thing.parent; above; above = above.parent) folded.delete(above);
  const same = search === state.search && folded.size === state.folded.size;
  return change({ search, folded: same ? state.folded : folded, selected: thing });
}

/* A click selects; a second click opens the details on narrow screens. */
function pick(thing) {
  if (thing && thing === state.selected) change({ view: 'details' });
  else if (thing) go(thing);
  else change({ selected: null });
}

/* ---- links to a node or call: #search=2&node=n4, #call=7 ---- */

function linkOf(thing) {
  if (!thing) return '';
  return `#${new URLSearchParams(thing.kind === 'call' ? { call: thing.id }
    : { search: thing.searchId, node: thing.id })}`;
}

function followLink() {
  const link = new URLSearchParams(location.hash.slice(1));
  const named = (list, id) => list.find((item) => String(item.id) === id);
  const call = named(run.calls, link.get('call'));
  const among = link.has('search') ? [named(run.searches, link.get('search'))] : run.searches;
  const node = among.map((search) => search && named(search.nodes, link.get('node'))).find(Boolean);
  if (node) go(node);
  else if (call) change({ selected: call, list: 'calls' });
}

/* ---- finding text ---- */

const lowered = []; // texts in lower case, converted once: many calls share a text

function findMatches({ search, query }) {
  if (query === '') return NOTHING;
  const inText = new Set();
  run.texts.forEach((text, i) => {
    lowered[i] ??= text.toLowerCase();
    if (lowered[i].includes(query)) inText.add(i);
  });
  const has = (text) => (text ?? '').toLowerCase().includes(query);
  const calls = run.calls.filter((call) =>
    [callName(call), call.model, call.message, call.code].some(has)
    || call.prompt.some(({ text }) => inText.has(text))
    || (call.reply ?? []).some((sample) => inText.has(sample.text) || inText.has(sample.reasoning)));
  const [nodes, above] = [[], new Set()];
  depthFirst(search?.roots ?? [], (node) => {
    node.lowered ??= `#${node.id} ${node.status ?? ''} ${node.text}`.toLowerCase();
    if (!node.lowered.includes(query)) return;
    nodes.push(node);
    for (let up = node.parent; up && !above.has(up); up = up.parent) above.add(up);
  });
  return { nodes, calls, isMatch: new Set([...nodes, ...calls]), above };
}

/* Selects the next or the previous match in the visible list. */
function stepMatch(by) {
  const list = state.list === 'outline' ? state.matches.nodes : state.matches.calls;
  if (list.length === 0) return;
  const at = list.indexOf(state.selected);
  const next = at < 0 ? (by > 0 ? 0 : list.length - 1) : (at + by + list.length) % list.length;
  go(list[next]);
  announce(`Match ${next + 1} of ${list.length}`);
}

let waiting = 0;
function find() {
  clearTimeout(waiting);
  waiting = setTimeout(() => change({ query: queryOf(document.getElementById('query')) }), 80);
}

/* ---- folding, and moving with keys ---- */

const isOpen = (node) =>
  (state.query !== '' ? state.matches.above.has(node) : !state.folded.has(node));

function fold(node) {
  const folded = new Set(state.folded);
  if (!folded.delete(node) && node.children.length > 0) folded.add(node);
  change({ folded });
}

/* Folds all but the best path, or unfolds all. */
function foldAll() {
  const folded = new Set(state.folded.size > 0 ? [] : state.search?.nodes
    .filter((node) => node.children.length > 0 && !node.best && node.parent));
  tree.touched = false;
  change({ folded });
}

function goBest() {
  const best = state.search?.bestPath.at(-1);
  if (best) go(best);
}

function openSelected() {
  if (!state.selected) return;
  change({ view: 'details' });
  document.getElementById('details-title').focus();
}

/* Keys of the tree's list, besides those that move in any list. */
function treeKey(key) {
  const { selected: node, folded, query } = state;
  if (key === 'Enter') openSelected();
  else if (node?.kind !== 'node') return false;
  else if (key === ' ' || key === 'ArrowRight' && folded.has(node)
    || key === 'ArrowLeft' && node.children[0] && isOpen(node) && !query) fold(node);
  else if (key === 'ArrowLeft' && node.parent) go(node.parent);
  else if (key === 'ArrowRight' && node.children[0]) go(node.children[0]);
  else return false;
  return true;
}

function stepSearch(by) {
  const search = run.searches[run.searches.indexOf(state.search) + by];
  if (search) change({ search, selected: null, folded: new Set() });
}

const help = createRef();
const HELP = [
  ['← → ↑ ↓', 'in the tree\'s list: parent, child, rows'],
  ['Home End', 'first and last'],
  ['Enter', 'open the selection'],
  ['Space', 'fold or unfold'],
  ['f', 'fold all but the best path, or unfold all'],
  ['b', 'end of the best path'],
  ['+ - 0', 'in a drawing: zoom in, zoom out, show everything'],
  ['/', 'find text; n N for the next and the previous match'],
  ['[ ]', 'previous and next search of the run'],
  ['t', 'dark or light'],
  ['Esc', 'close, clear, back to the run'],
  ['Wheel, pinch', 'zoom; drag to move, Shift + wheel to move sideways'],
];
watchKeys({
  found: (event) => {
    change({ query: queryOf(event.target) });
    stepMatch(event.shiftKey ? -1 : 1);
  },
  Escape: () => {
    if (state.query !== '') {
      document.getElementById('query').value = '';
      change({ query: '' });
    } else if (state.selected) {
      change({ selected: null, view: state.view === 'details' ? 'drawing' : state.view });
    }
  },
  n: () => stepMatch(1), N: () => stepMatch(-1), b: goBest, f: foldAll,
  '[': () => stepSearch(-1), ']': () => stepSearch(1), '?': () => help.current.showModal(),
});

/* ---- parts ---- */

function RunTop() {
  const { run: { name: own, question: asked, command, script, status, started_at: started }, searches,
    totals, notice } = run;
  const question = asked ?? searches.find((search) => search.question)?.question;
  const typed = script && !['-', '-e'].includes(script) ? `${command} ${script}` : command;
  const name = own ?? `ponder ${typed}`;
  const isOne = asked !== undefined || searches.length === 1;
  const title = question && isOne ? firstLine(question, 120) : name;
  document.title = `${title} – ponder`;
  const { models } = totals;
  const figures = [
    [totals.calls === 1 ? 'call' : 'calls', inGroups.format(totals.calls)],
    ['tokens', showTokens(totals)],
    ['cost', showCost(totals)],
    ['time', showSeconds(time.line.length)],
    models.length === 1 ? ['model', modelOf(models[0])] : ['models', String(models.length)],
  ];
  const { query, matches, search } = state;
  const calls = count(matches.calls.length, 'call');
  const found = query === '' ? ''
    : search ? `${inGroups.format(matches.nodes.length)} · ${calls}` : calls;
  return html`<${Top} home=${data.name !== undefined} title=${title} hint=${question ?? name}
    totals=${figures} notice=${notice} beside=${html`<${Chip} id="status" kind=${status}>${status}<//>
      <span id="when" class="muted">${showDate(started)}</span>`}>
    ${searches.length > 1 && html`<${Choice} id="search-select" label="Search"
      value=${String(searches.indexOf(search))} options=${searches.map((one, i) => [String(i),
        `${i + 1}. ${one.kind} ${firstLine(one.name ?? one.question ?? '', 40)}`.trim()])}
      onChange=${(i) => change({ search: searches[i], selected: null, folded: new Set() })} />`}
    <${Find} found=${found} onInput=${find} />
    <button type="button" class="plain" aria-keyshortcuts="?" aria-label="Keys and gestures"
      title="Keys and gestures (?)" onClick=${() => help.current.showModal()}>?</button>
  <//>`;
}

function nodeRow(node) {
  const { search, query } = state;
  const siblings = node.parent ? node.parent.children : search.roots;
  const open = isOpen(node);
  const text = query === '' ? node.short : node.words || node.short;
  return {
    role: 'treeitem', class: `${node.best ? 'best' : ''} ${isAside(node) ? 'aside' : ''}`,
    style: { paddingLeft: 6 + Math.min(node.level, 12) * 10 }, 'aria-level': node.level + 1,
    'aria-setsize': siblings.length, 'aria-posinset': siblings.indexOf(node) + 1,
    'aria-expanded': node.children.length > 0 ? String(open) : null, title: node.words,
    children: html`<span class="twist" aria-hidden="true">${
      node.children.length === 0 ? '' : open ? '▾' : '▸'}</span>
      <${Swatch} colour=${scoreColour(node.score, search.range)} />
      ${node.score !== undefined && html`<span class="score">${showScore(node.score)}</span>`}
      <span class="words">${marked(text, query)}</span>
      ${node.best && html`<span class="star" title="on the best path">★</span>`}
      ${!open && node.below > 0 && html`<span class="side">+${inGroups.format(node.below)}</span>`}`,
  };
}

function callRow(call) {
  const outcome = callOutcome(call);
  const words = callWords(call, run.texts);
  return {
    class: outcome ? 'bad' : '', title: words || null,
    children: html`<${Swatch} colour=${call.status === 'error' ? 'var(--bad)' : time.colourOf(call)} />
      <span class="score">${call.id}</span>
      <span class="words">${call.purpose ?? 'call'} <span class="muted">${
        marked(words, state.query)}</span></span>
      <span class="side">${outcome || showSeconds(callTime(call))}</span>`,
  };
}

/* A click, perhaps on what folds. */
const pickNode = (node, element) => (node && element.matches('.twist, .handle') ? fold(node)
  : pick(node));

function Lists() {
  const { list, outline, calls, selected, query, matches, search, filter } = state;
  const hasTree = run.searches.length > 0;
  const nodes = query === '' ? (search?.nodes ?? []) : matches.nodes;
  const tab = (name, words, n) => html`<button type="button" role="tab" id="tab-${name}"
    aria-controls=${name} aria-selected=${list === name} onClick=${() => change({ list: name })}>${
    words}<span class="count">${inGroups.format(n)}</span></button>`;
  return html`<section class="pane lists" aria-label="Lists">
    <div class="pane-head" role="tablist" aria-label="Lists">${
      hasTree && tab('outline', 'Tree', nodes.length)}${tab('calls', 'Calls', calls.length)}</div>
    ${list === 'outline' && hasTree ? html`<${List} key="outline" id="outline" prefix="node"
      role="tree" label="Search tree" items=${outline} active=${outline.indexOf(selected)}
      of=${search?.id}
      row=${nodeRow} onOpen=${openSelected} onMove=${go}
      onPick=${(node, { target }) => pickNode(node, target)} onKey=${treeKey} />`
    : html`${run.calls.length > 0 && html`<div id="filter" class="filter" role="group"
        aria-label="Filter calls">${Object.entries(time.values).map(([by, values]) =>
        html`<${Choice} key=${by} name=${by} value=${filter[by]}
        options=${[['', by], ...values.map((value) => [value, value])]}
        onChange=${(value) => change({ filter: { ...filter, [by]: value } })} />`)}</div>`}
      <${List} key="calls" id="calls" prefix="call" label="Calls" items=${calls}
        active=${calls.indexOf(selected)} row=${callRow} onPick=${pick} onOpen=${openSelected}
        onMove=${go} onKey=${(key) =>
          key === 'Enter' && (openSelected(), true)} />`}</section>`;
}

function Picture() {
  const { search } = state;
  const mark = (kind, ...words) => html`<span><i class=${kind}></i>${words}</span>`;
  const tool = (id, words, title, act) => html`<button type="button" class="plain" id=${id}
    title=${title} aria-label=${title} onClick=${act}>${words}</button>`;
  return html`<section class="pane drawing" aria-label="Drawing">
    <div class="pane-head">
      <div id="legend" class="legend" aria-hidden="true">
        ${search?.range && html`<span>score ${showScore(search.range.low)}<i class="ramp"></i>${
          showScore(search.range.high)}</span>`}
        ${search?.bestPath.length > 0 && mark('path', 'best path')}
        ${search?.links.length > 0 && mark('link', 'other links')}
        ${search?.isTerminated && html`<span>◆ terminal</span>`}</div>
      <div class="tools" role="group" aria-label="Drawing">
        ${tool('zoom-in', '+', 'Zoom in (+)', () => tree.zoom(1.4))}
        ${tool('zoom-out', '−', 'Zoom out (-)', () => tree.zoom(1 / 1.4))}
        ${tool('zoom-fit', 'Fit', 'Show everything (0)', () => tree.fit())}
        ${tool('go-best', 'Best', 'End of the best path (b)', goBest)}
        ${tool('fold-all', 'Fold', 'Fold all but the best path, or unfold all (f)', foldAll)}</div>
    </div>
    <${Stage} id="tree" view=${tree} onPick=${pickNode}
      label="Drawing of the search tree. The same tree is in the list beside it.">${
      search?.nodes.length === 0 && html`<p class="empty">This search has no nodes yet.</p>`}<//>
  </section>`;
}

function Times() {
  const mark = (kind, words, n) =>
    n > 0 && html`<li><i class=${kind}></i>${words} ${inGroups.format(n)}</li>`;
  const retried = time.retried.filter((call) => call.failed.some((one) => known(one.retry_in_ms)));
  return html`<section class="pane time" aria-label="Time line">
    <div class="pane-head"><h2>Calls in flight</h2>
      <ul id="keys" class="legend" aria-label="Colours">${time.keys.slice(0, 8).map(({ name, count: n,
        colour }) => html`<li key=${name}><i style=${{ background: colour }}></i>${name} ${
        inGroups.format(n)}</li>`)}${mark('failed', 'failed', time.failed.length)}${
        mark('retried', 'retried', retried.length)}${
        mark('queued', 'waited for a slot', time.waited.length)}</ul></div>
    <${Stage} id="time" view=${time} onPick=${pick}
      label="Time line of calls. The same calls are in the list of calls.">${run.calls.length === 0
        && html`<p id="time-empty" class="empty">This run called no model.</p>`}<//></section>`;
}

function titleOf(selected) {
  if (!selected) return 'This run';
  return selected.kind === 'call' ? `Call ${selected.id} ${selected.purpose ?? ''}`
    : `${selected.parent ? 'Node' : 'Root'} ${selected.id}`;
}

function Details() {
  const { selected, search } = state;
  const inside = !selected ? html`<${RunDetails} search=${search} />`
    : selected.kind === 'call' ? html`<${CallDetails} call=${selected} alone />`
    : html`<${NodeDetails} search=${search} node=${selected} />`;
  return html`<aside class="pane details" aria-label="Details">
    <div class="pane-head"><h2 id="details-title" tabindex="-1">${titleOf(selected)}</h2>
      ${selected && html`<button type="button" id="close" class="plain tools"
        aria-label="Back to the run" title="Back to the run (Esc)"
        onClick=${() => change({ selected: null })}>✕</button>`}</div>
    <div key="${linkOf(selected)} ${search?.id}" id="details" class="scroll" tabindex="0"
      role="region" aria-labelledby="details-title">${inside}</div></aside>`;
}

function view() {
  const without = run.searches.length === 0;
  return html`<${RunTop} />
    <nav class="tabs" aria-label="Views" id="tabs">${Object.entries({ drawing: 'Drawing',
      lists: 'Lists', time: 'Time', details: 'Details' }).map(([name, words]) =>
      !(without && name === 'drawing') && html`<button type="button" data-view=${name}
        aria-pressed=${state.view === name} onClick=${() => change({ view: name })}>${
        words}</button>`)}
    </nav>
    <main id="main" class="a-run ${without ? 'no-search' : ''}" data-view=${state.view}>
      <${Lists} />${!without && html`<${Picture} />`}<${Details} /><${Times} /></main>
    <dialog id="help" ref=${help} aria-labelledby="help-title">
      <h2 id="help-title">Keys and gestures</h2>
      <dl class="facts">${HELP.map(([keys, words]) => html`<dt>${keys}</dt><dd>${words}</dd>`)}</dl>
      <form method="dialog"><button>Close</button></form></dialog>`;
}

/* ---- following a running run ---- */

/* The object for a node or call of the data before. */
function current(thing) {
  if (thing?.kind === 'call') return run.calls.find(({ id }) => id === thing.id) ?? null;
  return run.searches.find(({ id }) => id === thing?.searchId)?.byId.get(thing.id) ?? null;
}

const firstSearch = () =>
  run.searches.find((search) => search.nodes.length > 0) ?? run.searches[0] ?? null;

function update(raw) {
  const hadSearch = run.searches.length > 0;
  run = readRun(raw);
  lowered.length = 0;
  time.show(run);
  for (const view of [tree, time]) view.hovered = current(view.hovered);
  const search = run.searches.find(({ id }) => id === state.search?.id) ?? firstSearch();
  change({ search, folded: new Set([...state.folded].map(current).filter(Boolean)),
    selected: current(state.selected), list: hadSearch || !search ? state.list : 'outline',
    updates: state.updates + 1 });
}

const [PAUSE_MS, PAUSE_FACTOR] = [200, 10]; // at most a tenth of the time is spent on loading
let [isWaiting, next] = [false, 0];

/* Loads the run again, soon. */
async function reload() {
  if (isWaiting) return;
  isWaiting = true;
  await new Promise((done) => setTimeout(done, Math.max(PAUSE_MS, next - performance.now())));
  isWaiting = false;
  const began = performance.now();
  const loaded = await load('/view/data', { run: data.name });
  if (loaded) update(loaded);
  next = performance.now() + PAUSE_FACTOR * (performance.now() - began);
}

/* ---- start ---- */

time.show(run);
mount(view);
change({ search: firstSearch(), updates: 1 });
followLink();
window.addEventListener('hashchange', followLink);
if (data.name !== undefined) {
  watchLogs(reload);
  // The bars of calls in flight grow, and a process that is killed changes no log.
  setInterval(() => run.run.status === 'running' && reload(), 2000);
}
performance.mark('drawn');
