/*
 * Two runs side by side: the differences of `ponder diff`, drawn on their trees. Selecting a node on
 * one side also selects the equal node on the other.
 */

const { diff } = data;
const SIDES = ['a', 'b'];
let shown = null; // the comparison of the drawn searches
let entries = []; // their differences, in order
let chosen = null; // an entry, or nodes { a, b }

const sides = Object.fromEntries(SIDES.map((name) => {
  const state = { search: null, folded: new Set(), selected: null, query: '',
    matches: { nodes: [] } };
  return [name, { state, run: readRun(data[name]), view: new Tree(() => state) }];
}));

/* Shows two searches, and marks the nodes that only one has, and those with different scores. */
function showSearch(found) {
  shown = found;
  entries = [];
  for (const [name, { run, state }] of Object.entries(sides)) {
    state.search = run.searches.find(({ id }) => id === found?.id) ?? null;
    state.selected = null;
    for (const node of state.search?.nodes ?? []) node.mark = null;
    for (const { id } of found?.[`only_${name}`] ?? []) {
      const node = state.search.byId.get(id);
      node.mark = 'good';
      entries.push({ id: `${name}${id}`, kind: name, [name]: node });
    }
  }
  for (const ids of found?.scored ?? []) {
    const [a, b] = SIDES.map((name) => sides[name].state.search.byId.get(ids[name]));
    a.mark = b.mark = 'wait';
    entries.push({ id: `${a.id} ${b.id}`, kind: 'scored', a, b });
  }
  for (const name of SIDES) sides[name].view.place(true);
  choose(null);
}

/* Chooses a node of one side with the equal node of the other. */
function chooseLike(name, node) {
  const i = SIDES.indexOf(name);
  const pair = (shown?.pairs ?? []).find((ids) => ids[i] === node.id);
  choose(Object.fromEntries(SIDES.map((side, k) => [side,
    side === name ? node : pair && sides[side].state.search.byId.get(pair[k])])));
}

function choose(found) {
  chosen = found;
  for (const name of SIDES) {
    const { state, view } = sides[name];
    state.selected = found?.[name] ?? null;
    if (state.selected) view.reveal(state.selected);
  }
  refresh();
}

/* ---- parts ---- */

function Sums() {
  const words = {
    status: (side) => side.state,
    answer: (side) => firstLine(asText(side.answer?.answer ?? side.answer ?? side.error ?? ''), 300),
    calls: (side) => inGroups.format(side.calls),
    'not sent': (side) => inGroups.format(side.reused),
    tokens: (side) => showTokens(side),
    cost: showCost,
    time: (side) => showSeconds(side.duration_s),
  };
  const row = (name) => [name.toUpperCase(), ...Object.values(words).map((of) => ({
    text: html`<span title=${of(diff[name])}>${of(diff[name])}</span>`,
    class: of(diff.a) === of(diff.b) ? '' : 'differs' }))];
  return html`<section class="pane sums"><${Table} id="table" head=${['', ...Object.keys(words)]}
    rows=${SIDES.map(row)} /></section>`;
}

const Side = ({ name }) => html`<section class="pane side-${name}">
  <div class="pane-head"><h2><a id="link-${name}" href=${served('/', { run: data[name].name })}>${
    `${name.toUpperCase()}  ${data[name].name}`}</a></h2></div>
  <${Stage} id="tree-${name}" view=${sides[name].view}
    label="Search tree of run ${name.toUpperCase()}. The list below has the differences."
    onPick=${(node) => (node ? chooseLike(name, node) : choose(null))} /></section>`;

const rowOf = ({ kind, a, b }) => ({
  class: kind,
  children: html`<span class="mark ${{ a: 'bad', b: 'good', scored: 'wait' }[kind]}">${
    { a: '−', b: '+', scored: '~' }[kind]}</span>
    <span class="score">${[a, b].filter(Boolean).map((node) => showScore(node.score) || '–')
      .join(' → ')}</span>
    <span class="words">${firstLine((a ?? b).text) || `#${(a ?? b).id}`}</span>`,
});

/* A node in one of the runs. */
function Node({ name, node }) {
  const link = node && `${served('/', { run: data[name].name })}#${
    new URLSearchParams({ search: shown.id, node: node.id })}`;
  return html`<h3>Run ${name.toUpperCase()}</h3>${node
    ? html`<p><a href=${link}>node ${node.id}</a>${
      node.score === undefined ? '' : `, score ${node.score}`}</p>
      <${LongText} text=${node.text} label="Text in run ${name.toUpperCase()}" />`
    : html`<p class="muted">does not have it</p>`}`;
}

/* Without a selection: inputs that differ, and calls that only one run has. */
function Inputs() {
  const { given, files, calls } = diff;
  const line = (mark) => (call) => html`<p>${mark} ${callName(call)} ${modelOf(call)}</p>`;
  return html`${titled('Inputs',
    ...given.map(({ name, a, b }) => html`<p>${name}: ${asText(a)} | ${asText(b)}</p>`),
    ...files.map(({ path, kind, a, b }) => html`<p>${kind} ${path}${
      a && b ? ' differs' : a ? ': only in A' : ': only in B'}</p>`))}
    <h3>Calls: ${calls.same} the same, ${calls.only_a_count} only in A, ${calls.only_b_count
    } only in B</h3>
    ${calls.only_a.slice(0, 100).map(line('−'))}${calls.only_b.slice(0, 100).map(line('+'))}`;
}

mount(() => {
  const differ = !shown ? 'No search' : !shown.only_a ? 'The searches are of different kinds'
    : `${shown.only_a_count} only in A, ${shown.only_b_count} only in B, ${shown.scored_count
    } scored differently; the best path ${shown.best_path_same ? 'is the same' : 'differs'}`;
  const active = entries.findIndex(({ a, b }) => chosen && a === chosen.a && b === chosen.b);
  const mark = (kind, words) => html`<li><i class=${kind}></i>${words}</li>`;
  return html`<${Top} home title="Two runs" beside=${html`<${Chip} id="verdict"
      kind=${diff.same ? 'same' : 'different'}>${
      diff.same ? 'same outcome' : 'different outcomes'}<//>`}>
    ${diff.searches.length > 1 && html`<${Choice} id="search-select" label="Search"
      value=${String(diff.searches.indexOf(shown))} options=${diff.searches.map((search, i) =>
        [String(i), `${search.id}. ${search.kind ?? search.b_kind}${
          search.same ? '' : ' (differs)'}`])}
      onChange=${(i) => showSearch(diff.searches[Number(i)])} />`}
    <ul class="legend" aria-label="Marks">${mark('only', 'only in this run')}${
      mark('scored', 'different score')}${mark('path', 'best path')}</ul>
  <//>
  <main class="a-pair">
    <${Sums} />${SIDES.map((name) => html`<${Side} key=${name} name=${name} />`)}
    <section class="pane nodes">
      <div class="pane-head"><h2 id="differ">${differ}</h2></div>
      <${List} id="nodes" prefix="entry" label="Differences" items=${entries} active=${active}
        row=${rowOf} onPick=${choose} onMove=${choose} />
    </section>
    <section class="pane details"><div id="details" class="scroll" tabindex="0" role="region"
      aria-label="Details" aria-live="polite">${chosen
      ? SIDES.map((name) => html`<${Node} name=${name} node=${chosen[name]} />`)
      : html`<${Inputs} />`}</div></section>
  </main>`;
});

watchKeys({ Escape: () => choose(null) });
showSearch(diff.searches.find((search) => !search.same) ?? diff.searches[0] ?? null);
performance.mark('drawn');
