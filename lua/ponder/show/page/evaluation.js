/*
 * An evaluation: the table of policies, accuracy at a budget, and the matrix of items by policies, in
 * which each cell is an answer.
 */

const { meta, policies } = data;
const binary = policies.every((policy) => policy.binary);
const baseline = policies.length > 1 ? meta.baseline : undefined;
const AXES = { samples: 'samples', cost: 'dollars', tokens: 'tokens', seconds: 'time' };
const axes = Object.keys(AXES).filter((axis) => data.curves[axis]?.length > 0);
const KINDS = { right: 'good', partial: 'wait', wrong: 'bad', no_answer: 'bad', stopped: 'wait',
  failed: 'bad' };
const MARKS = { good: '✓', wait: '◐', bad: '✗' };

const filter = { outcome: '', policy: '', query: '' };
let axis = axes[0];
let chosen = null; // a record

/* ---- words ---- */

const words = (text) => text.replace('_', ' ');
const time = (x) => (known(x) ? showSeconds(x) : '-');
const UNITS = { samples: showCount, tokens: showCount, cost: showMoney, seconds: time };
const score = (x) => (binary ? `${(x * 100).toFixed(1)} %` : x.toFixed(3));

/* ---- the table of policies ---- */

/* The table that a terminal shows, too. */
const Policies = () => html`<${Table} id="policies" head=${data.table.head}
  rows=${data.table.rows.map((row) => row.map((cell) => (!Array.isArray(cell) ? cell
    : { text: cell[0], class: { green: 'good', red: 'bad' }[cell[1]] })))} />`;

/* Items and runs, variances of scores, and how the differences were tested. */
function Variances() {
  const number = (x) => (known(x) ? x.toFixed(4) : '-');
  const p = (x) => (!known(x) ? '-' : x < 0.001 ? '<0.001' : x.toFixed(3));
  return html`<${Table} id="variances" head=${['policy', 'items', 'runs', 'items dropped',
    'variance within items', 'between items', 'correlation with the baseline', 'p', 'adjusted p',
    'decided after']} rows=${policies.map(({ name, n, runs, dropped, variance, difference: d,
    p_holm: adjusted, decision }) => [name, n, runs, dropped, number(variance.within),
    number(variance.between), number(d?.correlation), p(d?.p), p(adjusted),
    decision ? (decision.verdict === 'undecided' ? 'undecided' : decision.at) : '-'])} />`;
}

/* ---- the curves ---- */

/* A colour of the style sheet, for a canvas. */
function colourOf(colour) {
  const probe = document.body.appendChild(document.createElement('span'));
  probe.style.color = colour;
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/* Steps, since the value at a point holds until the next one, with their intervals as bands. */
class Curves extends Component {
  box = createRef();

  componentDidMount() {
    this.plot();
    const { current: box } = this.box;
    this.observer = new ResizeObserver(() =>
      this.chart.setSize({ width: box.clientWidth, height: 320 }));
    this.observer.observe(box);
  }

  componentDidUpdate(before) {
    if (before.axis === this.props.axis && before.theme === this.props.theme) return;
    this.chart.destroy();
    this.plot();
  }

  plot() {
    const list = data.curves[this.props.axis];
    const unit = UNITS[this.props.axis];
    const limits = list[0].points.map(({ at }) => at);
    const paths = uPlot.paths.stepped({ align: 1 });
    const columns = [limits];
    const series = [{ label: AXES[this.props.axis], value: (_, x) => unit(x ?? limits.at(-1)) }];
    const bands = [];
    const add = (values, options) => series.push({ paths, ...options }) && columns.push(values);
    for (const { policy, points } of list) {
      const i = policies.findIndex(({ name }) => name === policy);
      const stroke = colourOf(hue(i % 9));
      const hidden = { class: 'bound', points: { show: false } };
      bands.push({ series: [series.length, series.length + 1], fill: stroke.replace(/\)$/, ' / 12%)') });
      add(points.map(({ upper }) => upper ?? null), hidden);
      add(points.map(({ lower }) => lower ?? null), hidden);
      add(points.map(({ value }) => value), { label: policy, stroke, width: 2,
        dash: i % 2 ? [7, 4] : [], points: { show: true, size: 8 },
        value: (_, y, k, at) => { // without a pointer, at the largest budget
          const point = points[at ?? points.length - 1];
          const bounds = known(point.lower) && [point.lower, point.upper].map(score).join(' to ');
          return `${score(point.value)}${bounds ? ` (${bounds})` : ''}`;
        } });
    }
    const line = { stroke: colourOf('var(--muted)'), grid: { stroke: colourOf('var(--line)'), width: 1 },
      ticks: { stroke: colourOf('var(--line)') } };
    const max = Math.max(1, ...columns.slice(1).flat());
    this.chart = new uPlot({ width: this.box.current.clientWidth || 900, height: 320, series, bands,
      scales: { x: { time: false, distr: 3, log: 2 }, y: { range: [0, max] } },
      axes: [{ ...line, values: (_, marks) => marks.map((x) => (known(x) ? unit(x) : '')) },
        { ...line, size: 60, values: (_, marks) => marks.map((y) =>
          (max === 1 ? `${Math.round(y * 100)} %` : y.toFixed(2))) }],
      cursor: { drag: { x: false, y: false } } }, columns, this.box.current);
  }

  render() {
    return html`<div id="plot" class="curves" ref=${this.box}></div>`;
  }
}

/* ---- the matrix ---- */

/* A row for each item and epoch: { id, item, epoch, cells by policy }. */
const rows = new Map();
for (const record of data.records) {
  const key = `${record.id}\n${record.epoch}`;
  record.row = rows.get(key) ?? { id: key, item: record.id, epoch: record.epoch, cells: {} };
  record.row.cells[record.policy] = record;
  rows.set(key, record.row);
}
const items = [...rows.values()];
let shown = items;

/* Whether a record is as the filter says; fixed, broken and differ compare with the baseline. */
function passes(record) {
  const { outcome, query } = filter;
  const other = record.row.cells[baseline];
  const by = other ? (record.score ?? 0) - (other.score ?? 0) : 0;
  const relations = { '': true, fixed: by > 0, broken: by < 0, differ: by !== 0 };
  return (relations[outcome] ?? record.outcome === outcome) && (query === ''
    || [record.id, record.answer, record.target, record.why, record.message,
      data.questions[record.id]].some((text) => String(text ?? '').toLowerCase().includes(query)));
}

function apply(changes) {
  Object.assign(filter, changes);
  shown = items.filter(({ cells }) => (filter.policy === '' ? Object.values(cells)
    : [cells[filter.policy]].filter(Boolean)).some(passes));
  refresh();
}

function Cell({ record }) {
  if (!record) return html`<span class="muted">-</span>`;
  const kind = KINDS[record.outcome];
  const text = String(record.answer ?? record.message ?? words(record.outcome));
  return html`<span class="cell ${kind} ${record === chosen ? 'chosen' : ''}"
    data-policy=${record.policy}
    title="${words(record.outcome)}: ${firstLine(text, 500)}">${MARKS[kind]} ${
    binary || !known(record.score) ? '' : `${+record.score.toFixed(3)} `}${
    marked(firstLine(text, 200), filter.query)}</span>`;
}

const rowOf = (row) => ({
  children: html`<span class="first" title=${data.questions[row.item]}>${
    row.epoch > 1 ? `${row.item} #${row.epoch}` : row.item}
    <span class="muted">  ${firstLine(data.questions[row.item] ?? '', 100)}</span></span>
    ${policies.map(({ name }) => html`<${Cell} key=${name} record=${row.cells[name]} />`)}`,
});

const firstOf = (row) => row.cells[filter.policy] ?? policies.map(({ name }) => row.cells[name])
  .find((record) => record && passes(record)) ?? Object.values(row.cells)[0];

const pick = (row, event) => choose(
  row.cells[event.target.closest('[data-policy]')?.dataset.policy] ?? firstOf(row));

const runOf = (record) =>
  data.runs?.[[record.policy, record.id, record.epoch].join('\n')];
const linkOf = (record) => data.served && runOf(record)
  && served('/', { run: `${data.served}#${runOf(record).id}` });

const choose = (record) => {
  chosen = record;
  refresh();
};

const openRun = () => linkOf(chosen) && (location.href = linkOf(chosen));

function listKey(key) {
  const names = policies.map(({ name }) => name);
  const side = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (!chosen || !side && key !== 'Enter') return false;
  if (side) choose(chosen.row.cells[names[names.indexOf(chosen.policy) + side]] ?? chosen);
  else openRun();
  return true;
}

/* ---- one run ---- */

function Details({ record }) {
  if (!record) return html`<p class="muted">Click an answer to see its run${
    data.served ? '; Enter or a double click opens it' : ''}.</p>`;
  const add = (title, text) => known(text) && text !== '' && titled(title,
    html`<${LongText} text=${String(text)} label=${title} />`);
  const run = runOf(record);
  const amounts = { ...record, unpriced: known(record.cost) ? 0 : 1 };
  return html`<h3>${record.row.item}${record.epoch > 1 ? `, epoch ${record.epoch}` : ''}: ${
    record.policy}</h3>
    <p class=${KINDS[record.outcome]}>${words(record.outcome)}${
    known(record.score) ? `, score ${record.score}` : ''}</p>
    ${linkOf(record) && html`<p><a href=${linkOf(record)}>Open its run</a></p>`}
    ${add('Question', data.questions[record.id])}${add('Target', record.target)}
    ${add('Answer', record.answer)}${add('Why', record.why)}
    ${add('Message', record.message && `${record.message} [${record.code}]`)}
    ${titled('Took', html`<p>${count(record.samples, 'sample')}, ${count(record.calls, 'request')}, ${
      showTokens(amounts, record.tokens, showCount)} tokens, cost ${showCost(amounts)}, ${
      time(record.seconds)}</p>`)}
    ${add('Tree', run?.tree)}
    ${run?.calls.length > 0 && titled('Calls', run.calls.map((call) => html`<${Fold} kind="call"
      title=${call.model} side=${`${call.status ?? ''} ${callCost(call)}`}>${() => [
      ...call.prompt.map(({ role, text }) => html`<${Message} role=${role}><${LongText} text=${text}
        label=${role} /><//>`),
      html`<${Message} role="assistant"><${LongText} text=${call.reply ?? ''} label="Reply" /><//>`,
      ]}<//>`))}`;
}

/* ---- the page ---- */

function Filters() {
  const option = (name) => [name, words(name)];
  const outcomes = [['', 'all'], ...baseline ? [['fixed', `fixed since ${baseline}`],
    ['broken', `broken since ${baseline}`], ['differ', `differ from ${baseline}`]] : [],
  ...Object.keys(KINDS).map(option)];
  return html`<div class="filter">
    <${Choice} id="outcome" label="Show" value=${filter.outcome} options=${outcomes}
      onChange=${(outcome) => apply({ outcome })} />
    <${Choice} id="policy" label="Policy" value=${filter.policy} options=${[['', 'all'],
      ...policies.map(({ name }) => [name, name])]} onChange=${(policy) => apply({ policy })} />
    <${Find} onInput=${(query) => apply({ query })} />
    <output id="count" class="muted" aria-live="polite">${inGroups.format(shown.length)} of ${
      count(items.length, 'item')}</output></div>`;
}

document.title = `${meta.name} - ponder eval`;
mount(() => html`<${Top} home=${known(data.served)} title=${meta.name} beside=${html`<span
    class="muted">${count(meta.items, 'item')}, ${count(meta.epochs, 'epoch')}, seed ${
    meta.seed}</span>`} />
  <main class="an-evaluation">
    <section><h2>Policies</h2><${Policies} />
      <ul id="notes" class="muted">${data.notes.map((note) => html`<li>${note}</li>`)}</ul>
      <${Fold} title="Variances and correlations">${() => html`<${Variances} />`}<//></section>
    ${axes.length > 0 && html`<section><h2>Accuracy at a budget</h2>
      <div id="axes" class="axes" role="group" aria-label="Budget">${axes.map((name) => html`<button
        type="button" aria-pressed=${name === axis} onClick=${() => {
          axis = name;
          refresh();
        }}>${policies.some((policy) => policy[`estimated_${name}`] > 0) ? '~' : ''}${
        AXES[name]}</button>`)}
      </div><${Curves} axis=${axis} theme=${shownTheme()} /></section>`}
    <section><h2>Items by policies</h2><div class="items"><${Filters} />
      <${List} id="list" prefix="item" label="Items" items=${shown} active=${
        chosen ? shown.indexOf(chosen.row) : -1} row=${rowOf} onPick=${pick} onKey=${listKey}
        onMove=${(row) => choose(row.cells[chosen?.policy] ?? firstOf(row))} onOpen=${openRun}
        columns="minmax(160px, 1.2fr) repeat(${policies.length}, minmax(130px, 1fr))"
        wide=${192 + 142 * policies.length} head=${html`<span class="first">item</span>${
          policies.map(({ name }) => html`<span>${name}</span>`)}`} />
      <div id="details" class="scroll" tabindex="0" role="region" aria-label="Run"
        aria-live="polite"><${Details} record=${chosen} /></div></div></section>
  </main>`);
watchKeys({ found: () => document.getElementById('list').focus(), Escape: () => choose(null) });
performance.mark('drawn');
