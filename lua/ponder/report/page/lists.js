/* The tree and the calls as rows. */

/* ---- the tree ---- */

/* The nodes that have a row: unfolded ones; during a text search, matches and their ancestors. */
function outlineOf(state) {
  if (!state.search) return [];
  const { isMatch, above } = state.matches;
  const filtered = state.query !== '';
  const list = [];
  depthFirst(
    state.search.roots,
    (node) => {
      if (!filtered || isMatch.has(node) || above.has(node)) list.push(node);
    },
    (node) => (filtered ? !above.has(node) : state.folded.has(node)),
  );
  return list;
}

function isOpen(state, node) {
  return state.query !== '' ? state.matches.above.has(node) : !state.folded.has(node);
}

function swatchOf(colour) {
  const swatch = element('span', { class: 'swatch' });
  swatch.style.background = colour;
  return swatch;
}

function fillNode(state, view, node) {
  const siblings = node.parent ? node.parent.children : state.search.roots;
  const open = isOpen(state, node);
  const row = element(
    'div',
    {
      role: 'treeitem',
      class: `${node.best ? 'best ' : ''}${isAside(node) ? 'aside' : ''}`,
      'aria-level': node.level + 1,
      'aria-setsize': siblings.length,
      'aria-posinset': siblings.indexOf(node) + 1,
      'aria-expanded': node.children.length > 0 ? String(open) : null,
    },
    element(
      'span',
      { class: 'twist', 'aria-hidden': 'true' },
      node.children.length === 0 ? '' : open ? '▾' : '▸',
    ),
    swatchOf(scoreColour(view, rampStep(node.score, state.search.range))),
    node.score === undefined ? null : element('span', { class: 'score' }, showScore(node.score)),
    element(
      'span',
      { class: 'words' },
      ...markText(state.query === '' ? node.short : node.words || node.short, state.query),
    ),
    node.best ? element('span', { class: 'star', title: 'on the best path' }, '★') : null,
    open || node.below === 0
      ? null
      : element('span', { class: 'side' }, `+${inGroups.format(node.below)}`),
  );
  row.style.paddingLeft = `${6 + Math.min(node.level, 12) * 10}px`;
  return row;
}

/* ---- calls ---- */

/* The fields that filter calls. */
const FILTERS = ['status', 'model', 'purpose'];

function passes(call, filter) {
  return FILTERS.every((by) => filter[by] === '' || valueOf(call, by) === filter[by]);
}

function callsOf(state, run) {
  return run.calls.filter((call) => !isFaded(call, state));
}

/* Shows a choice of values for each field; calls apply(by, value) when one changes. */
function showFilter(box, run, filter, apply) {
  const choices = FILTERS.map((by) => {
    const values = [...new Set(run.calls.map((call) => valueOf(call, by)))].sort();
    if (filter[by] !== '' && !values.includes(filter[by])) values.push(filter[by]);
    const choice = element(
      'select',
      {
        'aria-label': by,
        class: filter[by] === '' ? null : 'set',
        onchange: (event) => apply(by, event.target.value),
      },
      element('option', { value: '' }, by),
      ...values.map((value) => element('option', { value }, value)),
    );
    choice.value = filter[by];
    return choice;
  });
  box.replaceChildren(...choices);
}

function fillCall(state, view, list, call) {
  const outcome = callOutcome(call);
  const words = callWords(call, view.run.texts);
  return element(
    'div',
    {
      role: 'option',
      class: outcome ? 'bad' : '',
      'aria-setsize': list.length,
      'aria-posinset': list.indexOf(call) + 1,
      title: words || null,
    },
    swatchOf(hasFailed(call) ? 'var(--bad)' : view.keys[view.keyOf[call.index]].colour),
    element('span', { class: 'score' }, String(call.id)),
    element(
      'span',
      { class: 'words' },
      `${call.purpose ?? 'call'} `,
      element('span', { class: 'muted' }, ...markText(words, state.query)),
    ),
    element('span', { class: 'side' }, outcome || showSeconds(callTime(call))),
  );
}
