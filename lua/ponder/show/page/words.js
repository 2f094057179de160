/* Formats values. Everything from a run is shown as text, never as markup. */

const known = (x) => x !== null && x !== undefined;

const inGroups = new Intl.NumberFormat('en');

const count = (n, one, many = `${one}s`) => `${inGroups.format(n)} ${n === 1 ? one : many}`;

function showScore(score) {
  if (!known(score)) return '';
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
const inShort = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 });
const showCount = (n) => (Number.isFinite(n) ? inShort.format(n).replace('K', 'k') : '?');

function showMoney(usd) {
  if (!Number.isFinite(usd)) return '?';
  if (usd === 0 || usd >= 1) return `$${usd.toFixed(2)}`;
  const digits = Math.min(12, 2 - Math.floor(Math.log10(usd)));
  return `$${Number(usd.toPrecision(3)).toFixed(digits)}`;
}

/*
 * A sum, as ponder.show.amount formats it: "~" if a part of it is estimated; "+?" if a part of it
 * is unknown, "?" if nothing is known.
 */
function showSum(format, sum, estimated, unknown) {
  const part = Number.isFinite(sum) ? sum : 0;
  if (part === 0 && unknown > 0) return '?';
  return `${estimated > 0 ? '~' : ''}${format(part)}${unknown > 0 ? '+?' : ''}`;
}

/* The sum of two counts, of which one or both may be unknown. */
const plus = (a, b) => (Number.isFinite(a) || Number.isFinite(b) ? (a ?? 0) + (b ?? 0) : undefined);

/* The tokens, and the cost, of calls; `of` says how much is estimated, and how many are unknown. */
const showTokens = (of, tokens = plus(of.input_tokens, of.output_tokens),
  format = inGroups.format) => showSum(format, tokens, of.estimated_tokens, of.unmetered);
const showCost = (of) => showSum(showMoney, of.cost, of.estimated_cost, of.unpriced);

const showDate = (seconds) => new Date(seconds * 1000).toLocaleString([],
  { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit' });

/* Replaces control characters by their symbols (U+2400...). */
const visible = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f]/g, (c) =>
  String.fromCharCode(c === '\x7f' ? 0x2421 : 0x2400 + c.charCodeAt(0)));

function firstLine(text, max = 240) {
  const start = text.search(/\S/);
  if (start < 0) return '';
  return visible(text.slice(start, start + max).replace(/\s+/g, ' ').trimEnd());
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const asText = (value) => (typeof value === 'string' ? value : JSON.stringify(value ?? null));

/* A command line, for people. */
const commandLine = (words) => words.map((word) =>
  (/[\s"']/.test(word) ? JSON.stringify(word) : String(word))).join(' ');

/* Indents a text if it is JSON. */
function indentJson(text) {
  const value = /^\s*[[{]/.test(text) ? parsed(text) : null;
  return value === null ? text : JSON.stringify(value, null, 2);
}

/* ---- calls of a model ---- */

const modelOf = ({ provider, model }) => [provider, model].filter(Boolean).join(':');

const callName = (call) => `${call.purpose ?? 'call'} #${call.id}`;
const callTime = (call) =>
  call.latency_ms !== undefined ? call.latency_ms / 1000 : call.until - call.asked_at;

function callOutcome(call) {
  if (call.status === 'error') return call.code ?? 'error';
  if (!known(call.status)) return 'no answer';
  return call.status === 'ok' ? '' : call.status;
}

/* The cost of one call; '' if it failed and said nothing of it. */
const callCost = (call) =>
  known(call.cost) ? showMoney(call.cost) : call.status === 'ok' ? 'cost ?' : '';

/* What a call's summary says beside its name. */
const callFigures = (call) => [callOutcome(call), showSeconds(callTime(call)), callCost(call),
  call.attempts > 1 ? count(call.attempts, 'try', 'tries') : ''].filter(Boolean).join(' · ');

/* Seconds that a call waited for a slot before its last attempt was sent; 0 if unknown. */
const waitTime = (call) =>
  call.sent_at === undefined ? 0 : Math.max(0, call.sent_at - (call.queued_at ?? call.asked_at));

/* The beginning of a call's reply. */
function callWords(call, texts) {
  const place = call.reply?.[0]?.text;
  return firstLine(place >= 0 ? texts[place] : '', 120) || call.message
    || (call.status === undefined ? 'no answer' : '');
}
