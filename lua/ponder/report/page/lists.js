/* Rows of which only those in sight exist, for the tree and for the calls. */

const ROW_HEIGHT = 28;
const SPARE_ROWS = 6; // above and below what is in sight

/*
 * A list of `items`; fill(item, index) gives a row's element. The list has the focus, and says by
 * aria-activedescendant which row is active.
 */
function makeRows(box, prefix, fill) {
  const spacer = element('div', { role: 'presentation' });
  box.append(spacer);
  const rows = { box, prefix, fill, spacer, items: [], active: -1, first: -1, last: -1 };
  box.addEventListener('scroll', () => drawRows(rows, false), { passive: true });
  return rows;
}

function setRows(rows, items, active) {
  rows.items = items;
  rows.active = active;
  rows.spacer.style.height = `${items.length * ROW_HEIGHT}px`;
  drawRows(rows, true);
}

/* Makes the rows in sight; `anew` if what they show may have changed. */
function drawRows(rows, anew) {
  const { box, items } = rows;
  if (box.clientHeight === 0) return;
  const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
  const last = Math.min(
    items.length,
    Math.ceil((box.scrollTop + box.clientHeight) / ROW_HEIGHT) + SPARE_ROWS,
  );
  if (!anew && first === rows.first && last === rows.last) return;
  Object.assign(rows, { first, last });
  const made = [];
  for (let i = first; i < last; i++) made.push(makeRow(rows, i));
  if (rows.active >= 0 && (rows.active < first || rows.active >= last))
    made.push(makeRow(rows, rows.active));
  box.replaceChildren(rows.spacer, ...made);
  if (rows.active >= 0) box.setAttribute('aria-activedescendant', `${rows.prefix}-${rows.active}`);
  else box.removeAttribute('aria-activedescendant');
}

function makeRow(rows, i) {
  const row = rows.fill(rows.items[i], i);
  row.id = `${rows.prefix}-${i}`;
  row.dataset.row = i;
  row.classList.add('row');
  row.classList.toggle('active', i === rows.active);
  row.setAttribute('aria-selected', String(i === rows.active));
  row.style.top = `${i * ROW_HEIGHT}px`;
  return row;
}

function revealRow(rows) {
  const { box, active } = rows;
  if (active < 0 || box.clientHeight === 0) return;
  const top = active * ROW_HEIGHT,
    bottom = top + ROW_HEIGHT;
  if (top < box.scrollTop) box.scrollTop = top - ROW_HEIGHT;
  else if (bottom > box.scrollTop + box.clientHeight)
    box.scrollTop = bottom - box.clientHeight + ROW_HEIGHT;
  drawRows(rows, true);
}

/* Which item a click was on. */
function rowOf(rows, event) {
  const row = event.target.closest('[data-row]');
  return row ? rows.items[Number(row.dataset.row)] : null;
}

/* ---- the tree ---- */

/* Nodes that have a row: unfolded, and while something is searched for, matches and what is above
 * them. */
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
      ...markText(firstLine(node.text) || `#${node.id}`, state.query),
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

function callsOf(state, run) {
  return state.query === ''
    ? run.calls
    : run.calls.filter((call) => state.matches.isMatch.has(call));
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
    swatchOf(view.keys[view.keyOf[call.index]].colour),
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
