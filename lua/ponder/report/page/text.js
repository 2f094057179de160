/* Formats values, and creates elements. Everything from the run is set as text. */

/* element('p', { class: 'x', onclick: f, 'aria-label': 'y' }, 'text', child, null) */
function element(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

const byElementId = (id) => document.getElementById(id);

const inGroups = new Intl.NumberFormat('en');

function count(n, one, many = `${one}s`) {
  return `${inGroups.format(n)} ${n === 1 ? one : many}`;
}

function showScore(score) {
  if (score === undefined) return '';
  if (!Number.isFinite(score)) return score > 0 ? '∞' : '−∞';
  if (Number.isInteger(score) && Math.abs(score) >= 10) return String(score);
  return Math.abs(score) >= 1000 ? score.toPrecision(4) : score.toFixed(2);
}

function showSeconds(s) {
  if (!Number.isFinite(s)) return '';
  if (s > 0 && s < 0.0009) return `${(s * 1000).toFixed(1)} ms`;
  if (s < 0.9995) return `${Math.round(s * 1000)} ms`;
  if (s < 59.95) return `${s.toFixed(s < 9.95 ? 2 : 1)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/* A count in few characters: 950, 3.4k, 1.2M. */
function showCount(n) {
  if (!Number.isFinite(n)) return '?';
  if (n < 1000) return String(+n.toFixed(1));
  return n < 999500 ? `${(n / 1000).toFixed(n < 9950 ? 1 : 0)}k` : `${(n / 1e6).toFixed(1)}M`;
}

function showMoney(usd) {
  if (!Number.isFinite(usd)) return '?';
  return usd === 0 || usd >= 1
    ? `$${usd.toFixed(2)}`
    : `$${Number(usd.toPrecision(3)).toFixed(Math.min(12, 2 - Math.floor(Math.log10(usd))))}`;
}

/*
 * A sum, as ponder.report.amount formats it: "~" if a part of it is estimated; "+?" if a part of it
 * is unknown, "?" if nothing is known.
 */
function showSum(format, sum, estimated, unknown) {
  const known = Number.isFinite(sum) ? sum : 0;
  if (known === 0 && unknown > 0) return '?';
  return `${estimated > 0 ? '~' : ''}${format(known)}${unknown > 0 ? '+?' : ''}`;
}

/* The tokens, and the cost, of calls; `of` says how much is estimated, and how many are unknown. */
function showTokens(of, tokens, format = inGroups.format) {
  return showSum(format, tokens, of.estimated_tokens, of.unmetered);
}

const showCost = (of) => showSum(showMoney, of.cost, of.estimated_cost, of.unpriced);

/* The sum of two counts, of which one or both may be unknown. */
const plus = (a, b) => (Number.isFinite(a) || Number.isFinite(b) ? (a ?? 0) + (b ?? 0) : undefined);

/* The cost of one call; '' if it failed and said nothing of it. */
function callCost(call) {
  if (call.cost === undefined) return call.status === 'ok' ? 'cost ?' : '';
  return showMoney(call.cost);
}

const dateFormat = new Intl.DateTimeFormat([], {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
});

function showDate(seconds) {
  return dateFormat.format(new Date(seconds * 1000));
}

/* Replaces control characters by their symbols (U+2400...). */
function visible(text) {
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, (c) =>
    String.fromCharCode(c === '\x7f' ? 0x2421 : 0x2400 + c.charCodeAt(0)),
  );
}

function firstLine(text, max = 240) {
  const start = text.search(/\S/);
  return start < 0
    ? ''
    : visible(
        text
          .slice(start, start + max)
          .replace(/\s+/g, ' ')
          .trimEnd(),
      );
}

/* Indents a text if it is JSON. */
function indentJson(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/* The name of a call: "evaluate #12". */
function callName(call) {
  return `${call.purpose ?? 'call'} #${call.id}`;
}

function callTime(call) {
  return call.latency !== undefined ? call.latency / 1000 : call.until - call.asked;
}

function callOutcome(call) {
  if (call.status === 'error') return call.code ?? 'error';
  if (call.status === undefined) return 'no answer';
  return call.status === 'ok' ? '' : call.status;
}

const hasFailed = (call) => call.status === 'error';

/* Seconds that a call waited for a slot before its last attempt was sent; 0 if unknown. */
function waitTime(call) {
  return call.sent === undefined ? 0 : Math.max(0, call.sent - (call.queued ?? call.asked));
}

/* The value below which a share of sorted numbers lies (nearest rank). */
function percentile(sorted, share) {
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
}

/* The beginning of a call's reply, for its row. */
function callWords(call, texts) {
  const sample = call.reply?.[0];
  const text = sample?.text >= 0 ? texts[sample.text] : '';
  return (
    firstLine(text, 120) || call.message || (call.status === undefined ? 'no answer' : '')
  );
}

/* Sums tokens, cost and time of calls. Those of an answered call may be unknown. */
function sumCalls(calls) {
  const sum = { calls: calls.length, unmetered: 0, unpriced: 0, seconds: 0 };
  for (const call of calls) {
    for (const part of ['input', 'output', 'cost']) sum[part] = plus(sum[part], call[part]);
    sum.seconds += callTime(call);
    if (call.status !== 'ok' || (call.origin ?? 'live') !== 'live') continue;
    if (call.input === undefined || call.output === undefined) sum.unmetered += 1;
    if (call.cost === undefined) sum.unpriced += 1;
  }
  return sum;
}

/* A text as a list of nodes with the match marked. */
function markText(text, query) {
  if (!query) return [text];
  const at = text.toLowerCase().indexOf(query);
  if (at < 0) return [text];
  const from = at > 24 ? at - 12 : 0; // keeps the match visible
  return [
    from > 0 ? `…${text.slice(from, at)}` : text.slice(0, at),
    element('mark', null, text.slice(at, at + query.length)),
    text.slice(at + query.length),
  ];
}
