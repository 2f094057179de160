/* Virtual lists: only visible rows have elements. */

const ROW_HEIGHT = 28;
const SPARE_ROWS = 6; // above and below the visible ones

/*
 * A list of `items`; fill(item, index) returns a row's element. The list has the focus, and names
 * the active row in aria-activedescendant.
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

/* Creates the visible rows; `changed`: also if the same rows are visible as before. */
function drawRows(rows, changed) {
  const { box, items } = rows;
  if (box.clientHeight === 0) return;
  const first = Math.max(0, Math.floor(box.scrollTop / ROW_HEIGHT) - SPARE_ROWS);
  const last = Math.min(
    items.length,
    Math.ceil((box.scrollTop + box.clientHeight) / ROW_HEIGHT) + SPARE_ROWS,
  );
  if (!changed && first === rows.first && last === rows.last) return;
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

/* The item of a click. */
function rowOf(rows, event) {
  const row = event.target.closest('[data-row]');
  return row ? rows.items[Number(row.dataset.row)] : null;
}
