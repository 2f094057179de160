/* Redraws the page of a running run after each update (live.js). */

/* The present object for a node or call of the previous data. */
function current(thing) {
  if (!thing) return null;
  if (thing.kind === 'call') return run.calls.find(({ id }) => id === thing.id) ?? null;
  return run.searches.find(({ id }) => id === thing.searchId)?.byId.get(thing.id) ?? null;
}

const firstSearch = () =>
  run.searches.find((search) => search.nodes.length > 0) ?? run.searches[0] ?? null;

/* Reads the changed data and shows it. */
function showNews() {
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
    news: state.news + 1,
  });
}

const MIN_PAUSE_MS = 200;
const REST = 5; // the pause is at least this many times as long as a redraw took
let newsTimer = 0,
  newsTook = 0;

function drawNewsSoon() {
  if (newsTimer !== 0) return;
  newsTimer = setTimeout(() => {
    newsTimer = 0;
    const began = performance.now();
    showNews();
    newsTook = performance.now() - began;
  }, Math.max(MIN_PAUSE_MS, REST * newsTook));
}

function takeNews(news, isWhole) {
  if (isWhole) raw = news;
  else mergeNews(raw, news);
  drawNewsSoon();
}

function tellConnection(connected) {
  const box = byElementId('lost');
  box.hidden = connected;
  box.textContent = connected ? '' : 'Connection to the server lost: this page may be out of date.';
}

/* Redraws each second, since the bars of calls in flight grow. */
function tick() {
  if (run.run.status === 'running' && newsTook < 50) drawNewsSoon();
}

function startFollowing() {
  if (raw.follow === undefined) return;
  byElementId('home').hidden = false;
  byElementId('home').href = served('/');
  followRun(raw, takeNews, tellConnection);
  setInterval(tick, 1000);
}
