/*
 * Follows a running run on a served page. The server sends changes as events in the form of the
 * page's data; they are merged into the data, from which the page is drawn again.
 */

/* A URL of the server, with the token that every request needs. */
function served(path, query = {}) {
  const token = new URLSearchParams(location.search).get('token') ?? '';
  return `${path}?${new URLSearchParams({ token, ...query })}`;
}

function showConnection(connected) {
  const box = byElementId('lost');
  box.hidden = connected;
  box.textContent = connected ? '' : 'Connection to the server lost: this page may be out of date.';
}

/* Replaces items with known ids and appends the others. */
function mergeById(list, update, merge = (_, item) => item) {
  const places = new Map(list.map((item, i) => [item.id, i]));
  for (const item of update) {
    const at = places.get(item.id);
    if (at === undefined) list.push(item);
    else list[at] = merge(list[at], item);
  }
}

function mergeSearch(before, update) {
  mergeById(before.nodes, update.nodes);
  return { ...update, nodes: before.nodes, edges: update.edges ?? before.edges };
}

/* Merges changes of the run into the page's data. */
function mergeUpdate(raw, { searches, calls, texts, cut, ...rest }) {
  mergeById(raw.searches, searches, mergeSearch);
  mergeById(raw.calls, calls);
  for (const text of texts) raw.texts.push(text);
  Object.assign(raw, rest, { cut });
}

const RETRY_MS = 2000;

/*
 * Calls onUpdate(changes) with changes of the run, or onUpdate(whole, true) with all data if the page
 * has missed changes.
 */
function followRun(raw, onUpdate) {
  const source = new EventSource(served('/view/events', { follow: raw.follow }));
  const reconnect = () => {
    source.close();
    setTimeout(() => reload(raw.name, onUpdate), RETRY_MS);
  };
  source.addEventListener('message', (event) => {
    showConnection(true);
    onUpdate(JSON.parse(event.data), false);
  });
  source.addEventListener('lost', reconnect);
  source.addEventListener('error', () => {
    showConnection(false);
    reconnect();
  });
}

async function reload(name, onUpdate) {
  try {
    const answer = await fetch(served('/view/data', { run: name }));
    if (!answer.ok) throw new Error(answer.statusText);
    const whole = await answer.json();
    showConnection(true);
    onUpdate(whole, true);
    followRun(whole, onUpdate);
  } catch {
    showConnection(false);
    setTimeout(() => reload(name, onUpdate), RETRY_MS);
  }
}
