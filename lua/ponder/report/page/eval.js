// An evaluation: the table, the curves, and a virtual list of its runs. Records are lists of values
// in the order of `fields`.

const data = JSON.parse(document.getElementById('data').textContent);
const $ = (id) => document.getElementById(id);
const ROW = 28;
const MAX_MATRIX_ITEMS = 1000;
const DASHES = ['', '7 4', '2 3', '10 3 2 3', '12 4'];
const MARKS = ['circle', 'square', 'diamond', 'triangle', 'cross', 'ring'];

if (data.served) {
  $('home').href = served('/');
  $('home').hidden = false;
}

const records = data.records.map((values, order) => {
  const record = { order };
  data.fields.forEach((name, i) => { record[name] = values[i]; });
  return record;
});
const policies = data.policies.map((policy) => policy.name);
const hue = (i) => `var(--hue-${i % 6})`;

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function draw(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

// ---- formatting ----

const known = (x) => x !== null && x !== undefined;

const seconds = (x) => (known(x) ? showSeconds(x) : '-');
const UNITS = { samples: showCount, tokens: showCount, cost: showMoney, seconds };
const sign = (x, signed) => (signed && x > 0 ? '+' : '');
function score(x, binary, signed) {
  if (!known(x)) return '-';
  return sign(x, signed) + (binary ? (x * 100).toFixed(1) + ' %' : x.toFixed(3));
}
function interval(figure, binary, signed) {
  if (!figure || !known(figure.lower)) return '-';
  const [scale, digits] = binary ? [100, 0] : [1, 2];
  return [figure.lower, figure.upper]
    .map((x) => sign(x, signed) + (x * scale).toFixed(digits)).join('..');
}
function pValue(p) {
  return !known(p) ? '-' : p < 0.001 ? '<0.001' : p.toFixed(3);
}

// ---- the table ----

function cellsOf(policy) {
  const d = policy.difference;
  const mark = known(policy.p_holm) && policy.p_holm < 0.05 ? (d.value > 0 ? 'good' : 'bad') : null;
  const o = policy.outcomes;
  const amount = (name, unit, part) => (policy[name] ? unit(policy[name][part || 'mean']) : '-');
  return [[policy.name], [policy.n], [score(policy.accuracy.value, policy.binary)],
    [interval(policy.accuracy, policy.binary)],
    [policy.name === data.meta.baseline ? 'baseline' : score(d && d.value, policy.binary, true),
      mark],
    [interval(d, policy.binary, true)], [pValue(policy.p_holm)],
    [o.no_answer], [o.stopped], [o.failed, o.failed > 0 ? 'bad' : null],
    [amount('samples', showCount)], [amount('calls', showCount)],
    [amount('tokens', (n) => showTokens(policy, n, showCount))],
    [showCost({ ...policy, cost: policy.cost?.mean })],
    [costPerRight(policy)], [amount('seconds', seconds)],
    [amount('seconds', seconds, 'p95')], [amount('critical_seconds', seconds)]];
}

const amountsOf = (record) => ({ ...record, unpriced: known(record.cost) ? 0 : 1 });
const costPerRight = (policy) => (known(policy.cost_per_right.value) || policy.unpriced > 0
  ? showCost({ ...policy, cost: policy.cost_per_right.value }) : '-');

function fillTable() {
  const names = ['policy', 'n', 'accuracy', '95 %', 'difference', '95 %', 'p', 'no answer',
    'stopped', 'failed', 'samples', 'requests', 'tokens', 'cost', '$/right', 'time', 'p95', 'path'];
  const rows = data.policies.map(cellsOf);
  const says = (i) => rows.some((row) => !['-', '?'].includes(String(row[i][0])));
  const head = make('tr', {}, ...names.filter((_, i) => says(i))
    .map((name) => make('th', { scope: 'col' }, name)));
  $('policies').append(make('thead', {}, head), make('tbody', {}, ...rows.map((row) =>
    make('tr', {}, ...row.filter((_, i) => says(i)).map(([value, mark]) =>
      make('td', { class: mark }, String(value)))))));
  for (const note of data.notes) $('notes').append(make('li', {}, note));
  $('title').textContent = data.meta.name;
  document.title = data.meta.name + ' - ponder eval';
  $('about').textContent = `${data.meta.items} items, ${data.meta.epochs} `
    + `${data.meta.epochs === 1 ? 'epoch' : 'epochs'}, seed ${data.meta.seed}`;
}

// Items and runs, variances of scores, and how the differences were tested.
function fillVariances() {
  const number = (x) => (known(x) ? x.toFixed(4) : '-');
  const names = ['policy', 'items', 'runs', 'items dropped', 'variance within items',
    'between items', 'correlation with the baseline', 'p', 'adjusted p', 'decided after'];
  const cells = ({ name, n, runs, dropped, variance, difference: d, p_holm: adjusted, decision }) =>
    [name, n, runs, dropped, number(variance.within), number(variance.between),
      number(d?.correlation), pValue(d?.p), pValue(adjusted),
      decision ? (decision.verdict === 'undecided' ? 'undecided' : decision.at) : '-'];
  $('variances').append(make('thead', {}, make('tr', {}, ...names.map((name) =>
    make('th', { scope: 'col' }, name)))), make('tbody', {}, ...data.policies.map((policy) =>
    make('tr', {}, ...cells(policy).map((value) => make('td', {}, String(value)))))));
}

// ---- the curves ----

function markAt(kind, x, y, color) {
  const r = 4;
  const shape = { fill: color, stroke: color, 'stroke-width': 1.5 };
  const path = (d, more) => draw('path', { ...shape, ...more, d });
  switch (kind) {
    case 'square': return path(`M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`);
    case 'diamond': return path(`M${x} ${y - r - 1}l${r + 1} ${r + 1}l${-r - 1} ${r + 1}`
      + `l${-r - 1} ${-r - 1}z`);
    case 'triangle': return path(`M${x} ${y - r}l${r} ${2 * r}h${-2 * r}z`);
    case 'cross': return path(`M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`);
    default: return draw('circle', { ...shape, cx: x, cy: y, r,
      fill: kind === 'ring' ? 'var(--surface)' : color });
  }
}

function plotOf(axis) {
  const list = data.curves[axis];
  const svg = $('plot');
  svg.replaceChildren();
  const [width, height] = [svg.clientWidth || 900, svg.clientHeight || 320];
  const [left, right, top, bottom] = [48, 12, 8, 26];
  const limits = list[0].points.map((point) => point.at);
  const max = Math.max(1, ...list.flatMap((curve) => curve.points.map((p) => p.upper ?? p.value)));
  const [from, to] = [Math.log2(limits[0]), Math.log2(limits[limits.length - 1])];
  const x = (at) => left + (to > from ? (Math.log2(at) - from) / (to - from) : 0.5)
    * (width - left - right);
  const y = (value) => top + (1 - Math.max(0, value) / max) * (height - top - bottom);
  for (let i = 0; i <= 4; i++) {
    const value = max * i / 4;
    svg.append(draw('line', { class: 'grid', x1: left, x2: width - right, y1: y(value),
      y2: y(value) }),
    draw('text', { x: left - 8, y: y(value) + 4, 'text-anchor': 'end' },
      max === 1 ? Math.round(value * 100) + ' %' : value.toFixed(2)));
  }
  const every = Math.ceil(limits.length / Math.max(2, Math.floor(width / 90)));
  limits.forEach((at, i) => {
    if (i % every === 0) {
      svg.append(draw('text', { x: x(at), y: height - 6, 'text-anchor': 'middle' },
        UNITS[axis](at)));
    }
  });
  list.forEach((curve) => {
    const i = policies.indexOf(curve.policy);
    const points = curve.points;
    // The value at a point holds until the next one.
    const steps = (of) => points.map((p, at) => (at === 0 ? '' : `H${x(p.at)}V`)
      + (at === 0 ? `${x(p.at)} ` : '') + y(of(p))).join('');
    if (points.every((p) => known(p.lower))) {
      const back = [...points].reverse().map((p, at, all) => `V${y(p.lower)}`
        + (at + 1 < all.length ? `V${y(all[at + 1].lower)}H${x(all[at + 1].at)}` : ''));
      svg.append(draw('path', { class: 'band', fill: hue(i),
        d: 'M' + steps((p) => p.upper) + back.join('') + 'z' }));
    }
    svg.append(draw('path', { class: 'curve', stroke: hue(i), 'stroke-dasharray': DASHES[i % 5],
      d: 'M' + steps((p) => p.value) }));
    points.forEach((p) => svg.append(markAt(MARKS[i % 6], x(p.at), y(p.value), hue(i))));
  });
  svg.onpointermove = (event) => showTip(event, list, limits, x, axis, height);
  svg.onpointerleave = () => {
    $('tip').hidden = true;
    svg.querySelector('.cursor')?.remove();
  };
}

function showTip(event, list, limits, x, axis, height) {
  const svg = $('plot');
  const at = event.clientX - svg.getBoundingClientRect().left;
  let step = 0;
  limits.forEach((limit, i) => {
    if (Math.abs(x(limit) - at) < Math.abs(x(limits[step]) - at)) step = i;
  });
  svg.querySelector('.cursor')?.remove();
  svg.append(draw('line', { class: 'cursor', x1: x(limits[step]), x2: x(limits[step]), y1: 0,
    y2: height - 26 }));
  const binary = data.policies.every((policy) => policy.binary);
  const lines = list.map((curve) => `${score(curve.points[step].value, binary)}  `
    + `${interval(curve.points[step], binary)}  ${curve.policy}`);
  const tip = $('tip');
  tip.textContent = [`${UNITS[axis](limits[step])} ${axis === 'samples' || axis === 'tokens'
    ? axis : ''}`, ...lines].join('\n');
  tip.hidden = false;
  const side = x(limits[step]) > svg.clientWidth / 2;
  tip.style.left = (side ? x(limits[step]) - tip.offsetWidth - 12 : x(limits[step]) + 12) + 'px';
  tip.style.top = '12px';
}

function fillCurves() {
  const axes = ['samples', 'cost', 'tokens', 'seconds'].filter((axis) => data.curves[axis]
    && data.curves[axis].length);
  $('curves').hidden = axes.length === 0;
  if (axes.length === 0) return;
  let chosen = axes[0];
  const choose = (axis) => {
    chosen = axis;
    for (const button of $('axes').children) {
      button.setAttribute('aria-pressed', String(button.dataset.axis === axis));
    }
    plotOf(axis);
  };
  const words = { samples: 'samples', cost: 'dollars', tokens: 'tokens', seconds: 'time' };
  const isEstimated = (axis) => data.policies.some((policy) => policy[`estimated_${axis}`] > 0);
  for (const axis of axes) {
    const button = make('button', { type: 'button', 'data-axis': axis },
      (isEstimated(axis) ? '~' : '') + words[axis]);
    button.onclick = () => choose(axis);
    $('axes').append(button);
  }
  policies.forEach((name, i) => {
    $('legend').append(make('li', {}, draw('svg', { viewBox: '0 0 44 14' },
      draw('path', { class: 'curve', stroke: hue(i), 'stroke-dasharray': DASHES[i % 5],
        d: 'M2 7H42' }), markAt(MARKS[i % 6], 22, 7, hue(i))), name));
  });
  choose(chosen);
  addEventListener('resize', () => plotOf(chosen));
}

// ---- the matrix ----

// A cell for each item and policy: how many of its runs are right, by the mean score's shade.
function fillMatrix() {
  const sums = new Map();
  for (const record of records) {
    if (!sums.has(record.id)) sums.set(record.id, new Map());
    const cells = sums.get(record.id);
    const cell = cells.get(record.policy) || { n: 0, score: 0 };
    cell.n += 1;
    cell.score += record.score ?? 0;
    cells.set(record.policy, cell);
  }
  const binary = data.policies.every((policy) => policy.binary);
  const shown = [...sums].slice(0, MAX_MATRIX_ITEMS);
  const text = (cell) => (!cell ? '-' : !binary ? (cell.score / cell.n).toFixed(2)
    : cell.n === 1 ? (cell.score === 1 ? '+' : '.') : `${cell.score}/${cell.n}`);
  $('matrix').append(make('thead', {}, make('tr', {}, make('th', { scope: 'col' }, 'item'),
    ...policies.map((name) => make('th', { scope: 'col' }, name)))),
  make('tbody', {}, ...shown.map(([id, cells]) => make('tr', {}, make('th', { scope: 'row' }, id),
    ...policies.map((name) => {
      const cell = cells.get(name);
      const mark = !cell ? null : cell.score >= cell.n ? 'good' : cell.score > 0 ? 'wait' : 'bad';
      return make('td', { class: mark }, text(cell));
    })))));
  $('matrix-about').textContent = `${shown.length} of ${sums.size} items; `
    + (binary ? '+ right, . wrong, or right runs of all' : 'mean scores');
}

// ---- the items ----

const KINDS = { right: 'good', partial: 'wait', wrong: 'bad', no_answer: 'bad', stopped: 'wait',
  failed: 'bad' };
const baseline = new Map(records.filter((record) => record.policy === data.meta.baseline)
  .map((record) => [record.id + '\n' + record.epoch, record]));
let shown = records;
let selected = null;

function disagrees(record) {
  const other = baseline.get(record.id + '\n' + record.epoch);
  return other !== undefined && (other.score >= 1) !== (record.score >= 1);
}

function matches(record, filter) {
  if (filter.outcome === 'disagree' ? !disagrees(record)
    : filter.outcome && record.outcome !== filter.outcome) return false;
  if (filter.policy && record.policy !== filter.policy) return false;
  const value = record.score ?? 0;
  if (filter.low !== null && value < filter.low) return false;
  if (filter.high !== null && value > filter.high) return false;
  return !filter.query || [record.id, record.answer, record.question, record.target, record.why,
    record.message].some((text) => known(text) && String(text).toLowerCase()
    .includes(filter.query));
}

function filterList() {
  const number = (id) => ($(id).value === '' ? null : Number($(id).value));
  const filter = { outcome: $('outcome').value, policy: $('policy').value, low: number('low'),
    high: number('high'), query: $('query').value.toLowerCase() };
  shown = records.filter((record) => matches(record, filter));
  const key = $('sort').value;
  if (key !== 'order') {
    shown.sort((a, b) => (b[key] ?? -1) - (a[key] ?? -1) || a.order - b.order);
  }
  $('count').textContent = `${shown.length} of ${records.length} runs`;
  $('space').style.height = shown.length * ROW + 'px';
  $('list').scrollTop = 0;
  drawRows();
}

function rowOf(record, i) {
  const row = make('div', { class: 'row', role: 'option', 'aria-selected': record === selected,
    style: null }, ...[[record.epoch > 1 ? `${record.id} #${record.epoch}` : record.id],
    [record.policy], [record.outcome.replace('_', ' '), KINDS[record.outcome]],
    [known(record.score) ? +record.score.toFixed(3) : '-'], [showCost(amountsOf(record))],
    [known(record.answer) ? record.answer : record.message ?? '']].map(([text, mark]) =>
    make('span', { class: mark }, String(text))));
  row.style.top = i * ROW + 'px';
  row.onclick = () => select(record);
  return row;
}

function drawRows() {
  const list = $('list');
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 5);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 5);
  const rows = [];
  for (let i = first; i < last; i++) rows.push(rowOf(shown[i], i));
  $('space').replaceChildren(...rows);
}

function callOf(call) {
  return make('details', {}, make('summary', {}, `${call.model} ${call.status ?? ''} `
    + `${callCost(call)}`), make('pre', {}, call.request ?? ''), make('pre', {},
    call.reply ?? ''));
}

function select(record) {
  selected = record;
  const parts = [];
  const add = (title, text) => {
    if (!known(text) || text === '') return;
    parts.push(make('h3', {}, title), make('pre', {}, String(text)));
  };
  add('Item', record.epoch > 1 ? `${record.id}, epoch ${record.epoch}` : record.id);
  add('Policy', record.policy);
  add('Outcome', record.outcome.replace('_', ' ')
    + (known(record.score) ? `, score ${record.score}` : ''));
  add('Question', data.questions[record.id]);
  add('Target', record.target);
  add('Answer', record.answer);
  add('Why', record.why);
  add('Message', record.message && `${record.message} [${record.code}]`);
  const amounts = amountsOf(record);
  add('Took', `${count(record.samples, 'sample')}, ${count(record.calls, 'request')}, ${showTokens(amounts, record.tokens, showCount)} `
    + `tokens, cost ${showCost(amounts)}, ${seconds(record.seconds)}`);
  const detail = data.runs && data.runs[[record.policy, record.id, record.epoch].join('\n')];
  if (detail && data.served) {
    const href = served('/', { run: `${data.served}#${detail.id}` });
    parts.push(make('p', {}, make('a', { href }, 'Open its run')));
  }
  if (detail) {
    for (const tree of detail.trees) add('Tree', tree);
    parts.push(make('h3', {}, 'Calls'), ...detail.calls.map(callOf));
  }
  $('details').replaceChildren(...parts);
  drawRows();
}

function move(by) {
  const at = shown.indexOf(selected);
  const to = Math.max(0, Math.min(shown.length - 1, at + by));
  if (!shown[to]) return;
  select(shown[to]);
  const list = $('list');
  const [above, below] = [to * ROW, (to + 1) * ROW - list.clientHeight];
  if (list.scrollTop > above) list.scrollTop = above;
  if (list.scrollTop < below) list.scrollTop = below;
}

function fillItems() {
  const choices = [['', 'all'], ...Object.keys(KINDS).map((kind) => [kind, kind.replace('_', ' ')])];
  if (data.meta.baseline && policies.length > 1) {
    choices.push(['disagree', 'disagree with ' + data.meta.baseline]);
  }
  $('outcome').append(...choices.map(([value, text]) => make('option', { value }, text)));
  $('policy').append(make('option', { value: '' }, 'all'),
    ...policies.map((name) => make('option', { value: name }, name)));
  $('filter').oninput = filterList;
  $('filter').onsubmit = (event) => event.preventDefault();
  $('list').onscroll = () => requestAnimationFrame(drawRows);
  $('list').onkeydown = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15 }[event.key];
    if (step) {
      event.preventDefault();
      move(step);
    }
  };
  filterList();
}

fillTable();
fillVariances();
fillCurves();
fillItems();
$('matrix-section').ontoggle = () => {
  if (!$('matrix').hasChildNodes()) fillMatrix();
};
performance.mark('drawn');
