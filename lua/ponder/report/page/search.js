/* Finds text, and steps through the matches. */

/* Lower-case texts, converted once: many calls share a text. */
const lowered = [];
const lowerText = (i) => (lowered[i] ??= run.texts[i].toLowerCase());

function callMatches(call, query, inText) {
  if (callName(call).toLowerCase().includes(query) || call.model.toLowerCase().includes(query))
    return true;
  if (
    (call.message ?? '').toLowerCase().includes(query) ||
    (call.code ?? '').toLowerCase().includes(query)
  )
    return true;
  return (
    call.prompt.some(({ text }) => inText.has(text)) ||
    (call.reply ?? []).some((sample) => inText.has(sample.text) || inText.has(sample.reasoning))
  );
}

function nodeMatches(node, query) {
  node.lowered ??= `#${node.id} ${node.status ?? ''} ${node.text}`.toLowerCase();
  return node.lowered.includes(query);
}

function findMatches({ search, query }) {
  if (query === '') return NOTHING;
  const inText = new Set();
  for (let i = 0; i < run.texts.length; i++) if (lowerText(i).includes(query)) inText.add(i);
  const nodes = [],
    above = new Set();
  depthFirst(search?.roots ?? [], (node) => {
    if (!nodeMatches(node, query)) return;
    nodes.push(node);
    for (let up = node.parent; up && !above.has(up); up = up.parent) above.add(up);
  });
  const matching = run.calls.filter((call) => callMatches(call, query, inText));
  return { nodes, calls: matching, isMatch: new Set([...nodes, ...matching]), above };
}

function showMatches() {
  const { query, matches, search } = state;
  const found = search
    ? `${inGroups.format(matches.nodes.length)} · ${count(matches.calls.length, 'call')}`
    : count(matches.calls.length, 'call');
  byElementId('matches').textContent = query === '' ? '' : found;
  const nodes = query === '' ? (search?.nodes ?? []) : matches.nodes;
  const listed = callsOf(state, run);
  nameTab('outline', 'Tree', nodes.length);
  nameTab('calls', 'Calls', listed.length);
}

function nameTab(name, words, n) {
  const figure = element('span', { class: 'count' }, inGroups.format(n));
  byElementId(`tab-${name}`).replaceChildren(words, figure);
}

/* Selects the next or the previous match in the visible list. */
function stepMatch(by) {
  const list = state.list === 'outline' ? state.matches.nodes : state.matches.calls;
  if (list.length === 0) return;
  const at = list.indexOf(state.selected);
  const next = at < 0 ? (by > 0 ? 0 : list.length - 1) : (at + by + list.length) % list.length;
  if (list[next].kind === 'node') go.node(list[next]);
  else go.call(list[next]);
  announce(`Match ${next + 1} of ${list.length}`);
}
