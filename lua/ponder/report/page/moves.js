/* Folding, and moving with arrow keys. */

function unfoldedTo(node) {
  let { folded } = state;
  for (let above = node.parent; above; above = above.parent) {
    if (!folded.has(above)) continue;
    if (folded === state.folded) folded = new Set(folded);
    folded.delete(above);
  }
  return folded;
}

function setFolded(node, fold) {
  if (node.children.length === 0 || state.folded.has(node) === fold) return;
  const folded = new Set(state.folded);
  if (fold) folded.add(node);
  else folded.delete(node);
  change({ folded });
}

/* Folds all but the best path, or unfolds all. */
function foldAll() {
  if (!state.search) return;
  const all = state.search.nodes.filter(
    (node) => node.children.length > 0 && !node.best && node.parent,
  );
  const folded = new Set(state.folded.size > 0 ? [] : all);
  tree.touched = false;
  change({
    folded,
    selected:
      state.selected?.kind === 'node' && !seenWith(folded, state.selected) ? null : state.selected,
  });
}

function seenWith(folded, node) {
  for (let above = node.parent; above; above = above.parent) if (folded.has(above)) return false;
  return true;
}

/* Selects the end of the best path; then walks it from the root. */
function stepBest() {
  const path = state.search?.bestPath ?? [];
  if (path.length === 0) return;
  const at = path.indexOf(state.selected);
  go.node(at < 0 ? path.at(-1) : path[(at + 1) % path.length]);
}

/* The node that a key leads to: by place in the drawing, by row in the list. */
function nodeTowards(key, node, inList) {
  const { search, folded } = state;
  if (!node)
    return !inList
      ? (search.bestPath[0] ?? search.roots[0])
      : outline.items.at(key === 'End' ? -1 : 0);
  if (key === 'ArrowLeft') return node.parent ?? node;
  if (key === 'ArrowRight') return node.children[0] && !folded.has(node) ? node.children[0] : node;
  const list = inList ? outline.items : tree.layout.columns[node.column];
  const at = list.indexOf(node);
  if (key === 'Home') return list[0];
  if (key === 'End') return list.at(-1);
  return list[Math.min(list.length - 1, Math.max(0, at + (key === 'ArrowDown' ? 1 : -1)))] ?? node;
}

function moveNode(key, inList) {
  if (!state.search || state.search.nodes.length === 0) return;
  const node = state.selected?.kind === 'node' ? state.selected : null;
  if (node && key === 'ArrowRight' && state.folded.has(node)) setFolded(node, false);
  else if (
    node &&
    inList &&
    key === 'ArrowLeft' &&
    node.children.length > 0 &&
    isOpen(state, node) &&
    state.query === ''
  )
    setFolded(node, true);
  else {
    const next = nodeTowards(key, node, inList);
    if (next) go.node(next);
  }
}

function moveCall(key, byTime) {
  const list = byTime
    ? calls.items.slice().sort((a, b) => a.start - b.start || a.index - b.index)
    : calls.items;
  if (list.length === 0) return;
  const at = list.indexOf(state.selected);
  const step = key === 'ArrowDown' || key === 'ArrowRight' ? 1 : -1;
  const next =
    key === 'Home'
      ? 0
      : key === 'End'
        ? list.length - 1
        : at < 0
          ? 0
          : Math.min(list.length - 1, Math.max(0, at + step));
  go.call(list[next]);
}

function openSelected() {
  if (!state.selected) return;
  change({ view: 'details' });
  byElementId('details-title').focus();
}
