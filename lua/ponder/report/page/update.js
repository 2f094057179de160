/* Redraws the page of a running run after each update (live.js). */

/* The new object for a node or call of the previous data. */
function current(thing) {
  if (!thing) return null;
  if (thing.kind === 'call') return run.calls.find(({ id }) => id === thing.id) ?? null;
  return run.searches.find(({ id }) => id === thing.searchId)?.byId.get(thing.id) ?? null;
}

const firstSearch = () =>
  run.searches.find((search) => search.nodes.length > 0) ?? run.searches[0] ?? null;

/* Reads the changed data and shows it. */
function showUpdate() {
  const hadSearch = run.searches.length > 0;
  run = readRun(raw);
  showRun(time, run);
  for (const view of [tree, time]) view.hovered = current(view.hovered);
  showFixed();
  showTop();
  const search = run.searches.find(({ id }) => id === state.search?.id) ?? firstSearch();
  change({
    search,
    folded: new Set([...state.folded].map(current).filter(Boolean)),
    selected: current(state.selected),
    list: hadSearch || !search ? state.list : 'outline',
    updates: state.updates + 1,
  });
}

const MIN_PAUSE_MS = 200;
const PAUSE_FACTOR = 5; // the pause is at least this many times as long as a redraw took
let redrawTimer = 0,
  redrawTook = 0;

function redrawSoon() {
  if (redrawTimer !== 0) return;
  redrawTimer = setTimeout(() => {
    redrawTimer = 0;
    const began = performance.now();
    showUpdate();
    redrawTook = performance.now() - began;
  }, Math.max(MIN_PAUSE_MS, PAUSE_FACTOR * redrawTook));
}

function applyUpdate(update, isWhole) {
  if (isWhole) raw = update;
  else mergeUpdate(raw, update);
  redrawSoon();
}

/* Redraws each second, since the bars of calls in flight grow. */
function tick() {
  if (run.run.status === 'running' && redrawTook < 50) redrawSoon();
}

function startFollowing() {
  if (raw.follow === undefined) return;
  byElementId('home').hidden = false;
  byElementId('home').href = served('/');
  followRun(raw, applyUpdate);
  setInterval(tick, 1000);
}
