/* Keyboard shortcuts. */

const HELP = [
  ['← → ↑ ↓', 'parent, child, neighbours; in lists, rows'],
  ['Home End', 'first and last'],
  ['Enter', 'open the selection'],
  ['Space', 'fold or unfold'],
  ['f', 'fold all but the best path, or unfold all'],
  ['b', 'end of the best path; again: along it from the root'],
  ['+ - 0', 'zoom in, zoom out, show everything'],
  ['/', 'find text; n N for the next and the previous match'],
  ['[ ]', 'previous and next search of the run'],
  ['t', 'dark or light'],
  ['j', 'details as JSON or as text'],
  ['Esc', 'close, clear, back to the run'],
  ['Wheel, pinch', 'zoom; drag to move, Shift + wheel to move sideways'],
];

function escape() {
  if (state.query !== '') {
    byElementId('query').value = '';
    change({ query: '' });
  } else if (state.selected) {
    change({ selected: null, view: state.view === 'details' ? 'drawing' : state.view });
  }
}

function zoomFocused(factor) {
  showTip('');
  if (document.activeElement === time.canvas || state.view === 'time') {
    if (factor === 0) fitTime(time);
    else zoomTime(time, factor);
  } else if (factor === 0) {
    fitTree(tree);
  } else {
    zoomTree(tree, factor);
  }
}

function stepSearch(by) {
  const at = run.searches.indexOf(state.search) + by;
  if (run.searches[at]) change({ search: run.searches[at], selected: null, folded: new Set() });
}

const KEYS = {
  '/': () => {
    byElementId('query').focus();
    byElementId('query').select();
  },
  n: () => stepMatch(1),
  N: () => stepMatch(-1),
  b: stepBest,
  f: foldAll,
  t: switchTheme,
  j: () => change({ json: !state.json }),
  '+': () => zoomFocused(1.4),
  '=': () => zoomFocused(1.4),
  '-': () => zoomFocused(1 / 1.4),
  0: () => zoomFocused(0),
  '[': () => stepSearch(-1),
  ']': () => stepSearch(1),
  '?': () => byElementId('help').showModal(),
  Escape: escape,
};

const MOVES = new Set(['ArrowUp', 'ArrowDown', 'ArrowLeft', 'ArrowRight', 'Home', 'End']);

/* Handles keys of the drawing, the lists and the timeline; returns whether it did. */
function moveKey(key, target) {
  const isNodes = target === tree.canvas || target === outline.box;
  const isCalls = target === time.canvas || target === calls.box;
  if (!isNodes && !isCalls) return false;
  if (MOVES.has(key)) {
    if (isNodes) moveNode(key, target === outline.box);
    else moveCall(key, target === time.canvas);
  } else if (key === 'Enter') {
    openSelected();
  } else if (key === ' ' && isNodes && state.selected?.kind === 'node') {
    setFolded(state.selected, !state.folded.has(state.selected));
  } else {
    return key === ' ';
  }
  return true;
}

function keyDown(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byElementId('help').open) return;
  const typing = event.target.matches('input, select, textarea');
  if (typing) {
    if (event.key === 'Escape') {
      escape();
      event.target.blur();
    }
    if (event.key === 'Enter' && event.target === byElementId('query')) {
      applyQuery();
      stepMatch(event.shiftKey ? -1 : 1);
    }
    return;
  }
  if (moveKey(event.key, event.target)) event.preventDefault();
  else if (Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
}
