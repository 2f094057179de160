/*
 * Follows a running run on a served page. The server sends changes as events in the form of the
 * page's data; they are merged into the data, from which the page is drawn again.
 */

/* A URL of the server, with the token that every request needs. */
function served(path, query = {}) {
  const token = new URLSearchParams(location.search).get('token') ?? '';
  return `${path}?${new URLSearchParams({ token, ...query })}`;
}

/* Replaces items with known ids and appends the others. */
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

/* Merges changes of the run into the page's data. */
function mergeNews(raw, { searches, calls, texts, cut, ...rest }) {
  mergeById(raw.searches, searches, mergeSearch);
  mergeById(raw.calls, calls);
  for (const text of texts) raw.texts.push(text);
  Object.assign(raw, rest, { cut });
}

const RETRY_MS = 2000;

/*
 * Calls take(news) with changes of the run, take(whole, true) with all data if the page has missed
 * changes, and tell(connected) when the connection is lost or back.
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
