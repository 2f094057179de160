/*
 * The list of runs, with filters, search and sorting. It is fetched again when the server reports a
 * changed log. Space chooses two runs to compare; Enter opens one.
 */

let all = [];
let shown = [];
const chosen = new Set();
const filter = { query: '', status: '', cost: '', outer: false, sort: 'when', down: true };

const COLUMNS = [
  { name: 'chosen', title: '' },
  { name: 'when', title: 'Began', of: (run) => run.started_at },
  { name: 'status', title: 'Status', of: (run) => run.status },
  { name: 'command', title: 'Run', of: (run) => titleOf(run) },
  { name: 'calls', title: 'Calls', of: (run) => run.calls, number: true },
  { name: 'tokens', title: 'Tokens', of: (run) => run.tokens ?? -1, number: true },
  { name: 'cost', title: 'Cost', of: (run) => run.cost ?? -1, number: true },
  { name: 'time', title: 'Time', of: (run) => run.seconds ?? -1, number: true },
  { name: 'log', title: 'Log', of: (run) => run.log },
];

/* A run from its row; `at` has the index of each field. */
function readRunRow(row, at, log, unended) {
  const [startedAt, endedAt] = [row[at.started_at], row[at.ended_at]];
  const id = row[at.id];
  return {
    id,
    log,
    run: `${log}#${id}`,
    parent: row[at.parent],
    name: row[at.name],
    labels: row[at.labels],
    question: row[at.question],
    command: row[at.command],
    arguments: row[at.arguments],
    status: row[at.status] ?? unended,
    error: row[at.error],
    answer: row[at.answer],
    calls: row[at.calls],
    errors: row[at.errors],
    tokens: row[at.tokens],
    unmetered: row[at.unmetered],
    cost: row[at.cost],
    unpriced: row[at.unpriced],
    started_at: startedAt,
    seconds: endedAt === null ? null : Math.max(0, endedAt - startedAt),
  };
}

function readDamage({ log, damage }) {
  const run = { log, run: `${log}#1`, status: 'damaged', command: '', error: damage };
  return { ...run, parent: null, started_at: 0, seconds: null, calls: 0, tokens: null };
}

/* All runs, newest first. */
function readRuns({ fields, logs }) {
  const at = Object.fromEntries(fields.map((name, i) => [name, i]));
  const runs = logs.flatMap((log) =>
    log.damage
      ? [readDamage(log)]
      : log.runs.map((row) => readRunRow(row, at, log.log, log.unended)),
  );
  return runs.sort((a, b) => b.started_at - a.started_at || (b.id ?? 0) - (a.id ?? 0));
}

const parsed = (text) => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

/* The command line. */
function commandOf(run) {
  const words = [run.command, ...(parsed(run.arguments) ?? [])].map(String);
  run.typed ??= words.map((word) => (/[\s"']/.test(word) ? JSON.stringify(word) : word)).join(' ');
  return run.typed;
}

/* The beginning of an answer: its text if it has one, also if its JSON is truncated. */
function answerOf({ answer }) {
  if (!answer) return '';
  const value = parsed(answer);
  if (value !== null) return String(value.answer ?? (typeof value === 'string' ? value : answer));
  const begun = /^(?:\{"answer":)?"((?:[^"\\]|\\.)*)/.exec(answer);
  return (begun && parsed(`"${begun[1]}"`)) ?? answer;
}

const titleOf = (run) => (run.name ? `${run.name}` : commandOf(run));

const isEvaluation = (run) => run.command === 'eval' && run.parent === null;

const linkOf = (run) => served('/', { [isEvaluation(run) ? 'eval' : 'run']: run.run });

/* Formats labels: {"policy":"tot","item":"x"} is policy=tot item=x. */
function labelsOf(run) {
  return Object.entries(parsed(run.labels) ?? {})
    .map(([name, value]) => `${name}=${typeof value === 'object' ? JSON.stringify(value) : value}`)
    .join(' ');
}

function textOf(run) {
  run.text ??= [
    run.command,
    run.arguments,
    run.name,
    run.labels,
    run.question,
    run.answer,
    run.error,
    run.run,
  ]
    .filter(Boolean)
    .join('\n')
    .toLowerCase();
  return run.text;
}

function passesFilter(run) {
  return (
    (filter.status === '' || run.status === filter.status) &&
    (filter.cost === '' || (run.cost ?? 0) >= Number(filter.cost)) &&
    !(filter.outer && run.parent !== null) &&
    (filter.query === '' || textOf(run).includes(filter.query))
  );
}

function compare(a, b) {
  return a === b ? 0 : a < b ? -1 : 1;
}

/* Sorts stably: runs that are equal in a column stay in order, newest first. */
function sorted(runs) {
  if (filter.sort === 'when' && filter.down) return runs; // as they are
  const { of } = COLUMNS.find(({ name }) => name === filter.sort);
  const sign = filter.down ? -1 : 1;
  return runs.sort((a, b) => sign * compare(of(a), of(b)));
}

/* ---- rows ---- */

const list = makeRows(byElementId('runs'), 'run', fillRun);

function cell(kind, ...words) {
  return element('span', { class: kind }, ...words);
}

/* What was asked tells runs apart, else their labels. */
function headOf(run) {
  const { question } = run;
  return question ? `${run.name ?? run.command}: ${question}` : `${titleOf(run)}  ${labelsOf(run)}`;
}

function whatOf(run) {
  const words = firstLine(headOf(run).trim(), 200);
  const result = firstLine(run.error ?? answerOf(run), 160);
  return element(
    'span',
    { title: [commandOf(run), labelsOf(run), result].filter(Boolean).join('\n') },
    ...markText(words, filter.query),
    result ? element('span', { class: 'inner' }, '  ', ...markText(result, filter.query)) : null,
  );
}

function fillRun(run, i) {
  const failed = run.errors > 0 ? ` (${run.errors} failed)` : '';
  return element(
    'div',
    {
      role: 'option',
      class: 'run',
      'aria-setsize': shown.length,
      'aria-posinset': i + 1,
    },
    cell('chosen', chosen.has(run.run) ? '✓' : ''),
    cell('when', run.status === 'damaged' ? '' : showDate(run.started_at)),
    element('span', { class: `chip ${run.status}` }, run.status),
    whatOf(run),
    element(
      'span',
      { class: `number calls${failed ? ' bad' : ''}`, title: failed || null },
      inGroups.format(run.calls),
    ),
    cell('number tokens', run.calls === 0 ? '' : showTokens(run, run.tokens)),
    cell('number cost', run.calls === 0 ? '' : showCost(run)),
    cell('number time', run.seconds === null ? '' : showSeconds(run.seconds)),
    cell('log', run.run),
  );
}

function showHead() {
  byElementId('head').replaceChildren(
    ...COLUMNS.map(({ name, title, number }) => {
      const isSorted = name === filter.sort;
      const arrow = isSorted ? (filter.down ? ' ↓' : ' ↑') : '';
      return element(
        'span',
        { class: `${name}${number ? ' number' : ''}` },
        title === ''
          ? null
          : element(
              'button',
              { type: 'button', 'aria-pressed': String(isSorted), onclick: () => sortBy(name) },
              title + arrow,
            ),
      );
    }),
  );
}

function sortBy(name) {
  filter.down = name === filter.sort ? !filter.down : !['status', 'command', 'log'].includes(name);
  filter.sort = name;
  showHead();
  show();
  [...byElementId('head').querySelectorAll('button')]
    .find((button) => button.getAttribute('aria-pressed') === 'true')
    .focus();
}

function showStatuses() {
  const choice = byElementId('status');
  const names = [...new Set(all.map(({ status }) => status))].sort();
  if (filter.status && !names.includes(filter.status)) names.push(filter.status);
  choice.replaceChildren(
    element('option', { value: '' }, 'all'),
    ...names.map((name) => element('option', { value: name }, name)),
  );
  choice.value = filter.status;
}

function showCompare() {
  const [a, b] = [...chosen];
  const link = byElementId('compare');
  link.setAttribute('aria-disabled', String(!b));
  link.textContent = chosen.size === 0 ? 'Compare two' : `Compare ${chosen.size} of 2`;
  if (b) {
    link.textContent = 'Compare';
    link.href = served('/', { a, b });
  } else link.removeAttribute('href');
}

function show() {
  const active = list.items[list.active]?.run;
  shown = sorted(all.filter(passesFilter));
  setRows(list, shown, active ? shown.findIndex(({ run }) => run === active) : -1);
  byElementId('count').textContent =
    shown.length === all.length
      ? count(all.length, 'run')
      : `${inGroups.format(shown.length)} of ${count(all.length, 'run')}`;
  byElementId('empty').hidden = shown.length > 0;
}

function choose(run) {
  if (!chosen.delete(run.run)) {
    if (chosen.size === 2) chosen.delete([...chosen][0]);
    chosen.add(run.run);
  }
  showCompare();
  drawRows(list, true);
}

/* ---- keys and pointer ---- */

function move(key) {
  const page = Math.max(1, Math.floor(list.box.clientHeight / ROW_HEIGHT) - 1);
  const steps = { ArrowUp: -1, ArrowDown: 1, PageUp: -page, PageDown: page };
  const last = list.items.length - 1;
  if (last < 0) return;
  const to = key === 'Home' ? 0 : key === 'End' ? last : list.active + steps[key];
  list.active = Math.min(last, Math.max(0, to));
  revealRow(list);
}

function listKey(event) {
  const run = list.items[list.active];
  if (/^(Arrow(Up|Down)|Page(Up|Down)|Home|End)$/.test(event.key)) move(event.key);
  else if (event.key === 'Enter' && run) location.href = linkOf(run);
  else if (event.key === ' ' && run) choose(run);
  else return;
  event.preventDefault();
}

function pageKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches('input, select')) {
    if (event.key === 'Escape') event.target.blur();
    if (event.key === 'Enter' && event.target === byElementId('query')) list.box.focus();
    return;
  }
  if (event.key === '/') byElementId('query').focus();
  else if (event.key === 't') switchTheme();
  else return;
  event.preventDefault();
}

function readFilter() {
  filter.query = byElementId('query').value.trim().toLowerCase();
  filter.status = byElementId('status').value;
  filter.cost = byElementId('cost').value;
  filter.outer = byElementId('outer').checked;
  show();
}

function watch() {
  list.box.addEventListener('keydown', listKey);
  list.box.addEventListener('click', (event) => {
    const run = rowOf(list, event);
    if (!run) return;
    list.active = list.items.indexOf(run);
    if (event.target.closest('.chosen')) choose(run);
    else if (event.ctrlKey || event.metaKey) window.open(linkOf(run));
    else location.href = linkOf(run);
  });
  new ResizeObserver(() => drawRows(list, true)).observe(list.box);
  for (const id of ['query', 'status', 'cost', 'outer'])
    byElementId(id).addEventListener('input', readFilter);
  document.addEventListener('keydown', pageKey);
  watchTheme(() => {});
}

/* ---- updates from the server ---- */

async function refresh() {
  try {
    const answer = await fetch(served('/view/runs'));
    showConnection(answer.ok);
    if (!answer.ok) return;
    all = readRuns(await answer.json());
    showStatuses();
    show();
    performance.mark('listed');
  } catch {
    showConnection(false);
  }
}

function start() {
  showHead();
  showCompare();
  watch();
  refresh();
  const source = new EventSource(served('/view/events'));
  source.addEventListener('message', refresh);
  source.addEventListener('open', () => showConnection(true));
  source.addEventListener('error', () => showConnection(false));
}

start();
