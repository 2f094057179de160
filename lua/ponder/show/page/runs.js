/*
 * The list of runs, with filters, search and sorting. It is fetched again when the server reports a
 * changed log. Outermost runs come first, as long as nothing else is sorted by.
 */

let all = [];
let shown = [];
let active = -1;
const chosen = new Set(); // of two to compare
const filter = { query: '', status: '', sort: 'when', down: true };

/* All runs, newest first, outermost ones before those within. What was asked tells them apart. */
function readRuns({ fields, logs }) {
  const read = (log, one) => {
    const { started_at: from, ended_at: to } = one;
    const typed = commandLine([one.command, ...(parsed(one.arguments) ?? [])]);
    const labels = Object.entries(parsed(one.labels) ?? {})
      .map(([name, value]) => `${name}=${asText(value)}`).join(' ');
    const words = one.question ? `${one.name ?? one.command}: ${one.question}`
      : `${one.name ?? typed}  ${labels}`.trim();
    const result = one.error ?? one.answer ?? '';
    const id = `${log}#${one.id}`;
    return { ...one, id, number: one.id, words, result, about: [typed, labels].join('\n').trim(),
      seconds: to === null ? null : Math.max(0, to - from), text: [typed, one.name, one.labels,
        one.question, one.answer, one.error, id].join('\n').toLowerCase() };
  };
  return logs.flatMap(({ log, damage, runs: rows, unended }) => (damage
    ? [read(log, { id: 1, status: 'damaged', command: '', error: damage, parent: null,
      started_at: 0, ended_at: null, calls: 0 })]
    : rows.map((row) => {
      const one = Object.fromEntries(fields.map((name, i) => [name, row[i]]));
      return read(log, { ...one, status: one.status ?? unended });
    })))
    .sort((a, b) => (a.parent !== null) - (b.parent !== null)
      || b.started_at - a.started_at || b.number - a.number);
}

const linkOf = (run) =>
  served('/', { [run.command === 'eval' && run.parent === null ? 'eval' : 'run']: run.id });

/* ---- columns ---- */

const words = ({ words: head, result, about }) => html`<span class="words"
  title="${about}\n${firstLine(result, 160)}">${marked(firstLine(head, 200), filter.query)}
  ${result && html`<span class="muted">  ${marked(firstLine(result, 160), filter.query)}</span>`}</span>`;

const called = (run, text) => (run.calls === 0 ? '' : text);
const COLUMNS = [
  { name: 'pick', title: '', wide: '20px',
    cell: (run) => html`<span class="pick" title="Compare (Space)">${
      chosen.has(run.id) ? '☑' : '☐'}</span>` },
  { name: 'status', title: 'Status', wide: '86px', of: (run) => run.status,
    cell: ({ status }) => html`<${Chip} kind=${status}>${status}<//>` },
  { name: 'command', title: 'Run', wide: 'minmax(200px, 1fr)', of: (run) => run.words, cell: words },
  { name: 'calls', title: 'Calls', wide: '60px', number: true, of: (run) => run.calls,
    cell: ({ calls, errors }) => html`<span class="number ${errors > 0 ? 'bad' : ''}"
      title=${errors > 0 ? `${errors} failed` : null}>${inGroups.format(calls)}</span>` },
  { name: 'tokens', title: 'Tokens', wide: '84px', number: true, of: (run) => run.tokens ?? -1,
    cell: (run) => called(run, showTokens(run, run.tokens)) },
  { name: 'cost', title: 'Cost', wide: '96px', number: true, of: (run) => run.cost ?? -1,
    cell: (run) => called(run, showCost(run)) },
  { name: 'time', title: 'Time', wide: '84px', number: true, of: (run) => run.seconds ?? -1,
    cell: ({ seconds }) => showSeconds(seconds) },
  { name: 'when', title: 'Began', wide: '170px', of: (run) => run.started_at,
    cell: (run) => (run.status === 'damaged' ? '' : showDate(run.started_at)) },
  { name: 'log', title: 'Log', wide: 'clamp(110px, 11vw, 200px)', of: (run) => run.id,
    cell: (run) => html`<span title=${run.id}>${run.id}</span>` },
];

function sortBy(name) {
  filter.down = name === filter.sort ? !filter.down : !['status', 'command', 'log'].includes(name);
  filter.sort = name;
  apply();
}

const head = () => COLUMNS.map(({ name, title, number }) => {
  const sorted = name === filter.sort;
  return html`<span key=${name} class="${name} ${number ? 'number' : ''}">${title && html`<button
    type="button" aria-pressed=${sorted} onClick=${() => sortBy(name)}>${title}${
    sorted ? (filter.down ? ' ↓' : ' ↑') : ''}</button>`}</span>`;
});

const rowOf = (run) => ({
  children: COLUMNS.map(({ name, number, cell }) => {
    const content = cell(run);
    return typeof content === 'object' ? content
      : html`<span class="${name} ${number ? 'number' : 'muted'}">${content}</span>`;
  }),
});

/* ---- changes ---- */

const passes = (run) => (filter.status === '' || run.status === filter.status)
  && (filter.query === '' || run.text.includes(filter.query));

function apply(changes) {
  const id = shown[active]?.id;
  Object.assign(filter, changes);
  shown = all.filter(passes);
  if (filter.sort !== 'when' || !filter.down) {
    const { of } = COLUMNS.find(({ name }) => name === filter.sort);
    const sign = filter.down ? -1 : 1;
    const keys = new Map(shown.map((run) => [run, of(run)]));
    shown.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      return x === y ? 0 : x < y ? -sign : sign;
    });
  }
  active = id === undefined ? -1 : shown.findIndex((run) => run.id === id);
  refresh();
}

function choose(run) {
  if (!chosen.delete(run.id)) {
    if (chosen.size === 2) chosen.delete([...chosen][0]);
    chosen.add(run.id);
  }
  refresh();
}

function pick(run, event, i) {
  active = i;
  if (event.target.closest('.pick')) choose(run);
  else if (event.ctrlKey || event.metaKey) window.open(linkOf(run));
  else location.href = linkOf(run);
}

function listKey(key) {
  const run = shown[active];
  if (key === 'Enter' && run) location.href = linkOf(run);
  else if (key === ' ' && run) choose(run);
  return run && (key === 'Enter' || key === ' ');
}

/* ---- the page ---- */

mount(() => {
  const [a, b] = [...chosen];
  const statuses = [...new Set([...all.map(({ status }) => status), filter.status])].filter(Boolean);
  const found = shown.length === all.length ? count(all.length, 'run')
    : `${inGroups.format(shown.length)} of ${count(all.length, 'run')}`;
  return html`<${Top} title="Runs" beside=${html`<output id="count" class="muted"
      aria-live="polite">${found}</output>`}>
    <${Find} onInput=${(query) => apply({ query })} />
    <${Choice} id="status" label="Status" value=${filter.status}
      options=${[['', 'all'], ...statuses.sort().map((name) => [name, name])]}
      onChange=${(status) => apply({ status })} />
    <a id="compare" class="button" aria-disabled=${!b} href=${b ? served('/', { a, b }) : null}
      title="Choose runs with the boxes, or with Space">${b ? 'Compare these two'
      : a ? 'Choose one more to compare' : 'To compare, choose two runs ☐'}</a>
  <//>
  <main class="a-list">
    <${List} id="runs" prefix="run" label="Runs" many items=${shown} active=${active}
      head=${head()} columns=${COLUMNS.map(({ wide }) => wide).join(' ')} wide=${1080} row=${rowOf}
      onPick=${pick} onKey=${listKey} onMove=${(run, to) => {
        active = to;
        refresh();
      }} />
    ${shown.length === 0 && html`<p class="empty">No matching runs.</p>`}
  </main>`;
});

watchKeys({ found: () => document.getElementById('runs').focus() });

watchLogs(async () => {
  const loaded = await load('/view/runs');
  if (!loaded) return;
  all = readRuns(loaded);
  apply();
  performance.mark('listed');
});
