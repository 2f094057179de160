/*
 * A served page, and a run that is going on. The server sends what is new of the run as events of
 * the form of the page's data; they are merged into that, and the page is drawn from it as it was
 * from the whole.
 */

/* The URL of something that the server has: every request carries the token. */
function served(path, query = {}) {
  const token = new URLSearchParams(location.search).get('token') ?? '';
  return `${path}?${new URLSearchParams({ token, ...query })}`;
}

/* What has an id that was there takes its place; the rest is appended. */
function mergeById(list, news, merge = (_, item) => item) {
  const places = new Map(list.map((item, i) => [item.id, i]));
  for (const item of news) {
    const at = places.get(item.id);
    if (at === undefined) list.push(item);
    else list[at] = merge(list[at], item);
  }
}

function mergeSearch(before, news) {
  mergeById(before.nodes, news.nodes);
  return { ...news, nodes: before.nodes, edges: news.edges ?? before.edges };
}

/* Takes into the data of a page what is new of its run. */
function mergeNews(raw, { searches, calls, texts, cut, ...rest }) {
  mergeById(raw.searches, searches, mergeSearch);
  mergeById(raw.calls, calls);
  for (const text of texts) raw.texts.push(text);
  Object.assign(raw, rest, { cut });
}

const RETRY_MS = 2000;

/*
 * Calls take(news) for what is new of the run, take(whole, true) where the page has missed
 * something, and tell(connected) when the server is gone or back.
 */
function followRun(raw, take, tell) {
  const source = new EventSource(served('/view/events', { follow: raw.follow }));
  const again = () => {
    source.close();
    setTimeout(() => reload(raw.name, take, tell), RETRY_MS);
  };
  source.addEventListener('message', (event) => {
    tell(true);
    take(JSON.parse(event.data), false);
  });
  source.addEventListener('lost', again);
  source.addEventListener('error', () => {
    tell(false);
    again();
  });
}

async function reload(name, take, tell) {
  try {
    const answer = await fetch(served('/view/data', { run: name }));
    if (!answer.ok) throw new Error(answer.statusText);
    const whole = await answer.json();
    tell(true);
    take(whole, true);
    followRun(whole, take, tell);
  } catch {
    tell(false);
    setTimeout(() => reload(name, take, tell), RETRY_MS);
  }
}
