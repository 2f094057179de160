/*
 * What all pages are made of. A page is one function that returns what to show, for preact; `mount`
 * shows it, and `refresh` shows it again after any change. It changes at once, not in the next task.
 */

const { h, render, Component, createRef } = preact;
const html = htm.bind(h);
preact.options.debounceRendering = (render) => render();

const data = JSON.parse(document.getElementById('data').textContent);

let page = null;
const refresh = () => render(page(), document.getElementById('app'));

function mount(view) {
  page = view;
  refresh();
}

/* A URL of the server, with the token that every request needs. */
function served(path, query = {}) {
  const token = new URLSearchParams(location.search).get('token') ?? '';
  return `${path}?${new URLSearchParams({ token, ...query })}`;
}

/* ---- light or dark: the system's choice or the user's ---- */

const systemIsDark = window.matchMedia('(prefers-color-scheme: dark)');
const THEME = 'ponder.theme';
let theme = 'auto';
try {
  theme = localStorage.getItem(THEME) ?? theme;
} catch { /* a page opened as a file may have no localStorage */ }
const systemTheme = () => (systemIsDark.matches ? 'dark' : 'light');
const shownTheme = () => (theme === 'auto' ? systemTheme() : theme);

function applyTheme() {
  document.documentElement.dataset.theme = theme;
  if (page) refresh();
}

systemIsDark.addEventListener('change', applyTheme);
applyTheme();

function switchTheme() {
  const next = shownTheme() === 'dark' ? 'light' : 'dark';
  theme = next === systemTheme() ? 'auto' : next;
  try {
    localStorage.setItem(THEME, theme);
  } catch { /* likewise */ }
  applyTheme();
}

/* Colours of kinds of calls and of policies, as CSS; the last one stands for all further ones. */
const hue = (i) => `light-dark(oklch(0.55 0.1 ${200 + 80 * Math.min(i, 8)}), oklch(0.76 0.1 ${
  200 + 80 * Math.min(i, 8)}))`;

/* ---- the frame of a page ---- */

let lost = false; // the connection to the server

function showConnection(connected) {
  if (lost === !connected) return;
  lost = !connected;
  refresh();
}

/* What the server has at a path; null: it does not answer. */
async function load(path, query) {
  const answer = await fetch(served(path, query)).catch(() => null);
  showConnection(answer?.ok ?? false);
  return answer?.ok ? answer.json() : null;
}

/* Calls act() at first, and whenever a log has changed. */
function watchLogs(act) {
  const source = new EventSource(served('/view/events'));
  for (const name of ['open', 'message']) source.addEventListener(name, act);
  source.addEventListener('error', () => showConnection(false));
}

/* The line at the top: what the page is, figures, and the controls in `children`. */
function Top({ home, title, hint, beside, totals, notice, children }) {
  const shown = shownTheme();
  return html`<header class="top">
      <div class="identity">
        ${home && html`<a id="home" href=${served('/')}>All runs</a>`}
        <h1 id="title" title=${hint ?? title}>${title}</h1>${beside}
      </div>
      ${totals && html`<dl id="totals" class="totals" aria-label="Totals">${
        totals.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`}
      <div class="controls">${children}
        <button id="theme" type="button" class="plain" onClick=${switchTheme}
          aria-label=${`Colours: ${shown}. Switch.`}
          title=${`Colours: ${shown}${theme === 'auto' ? ', as the system' : ''} (t)`}>
          ${shown === 'dark' ? '☾' : '☀'}</button>
      </div>
    </header>
    ${notice && html`<p id="notice" class="notice" role="note">${notice}</p>`}
    ${lost && html`<p id="lost" class="notice" role="status">Connection to the server lost: this page
      may be out of date.</p>`}`;
}

const Chip = ({ id, kind, children }) => html`<span id=${id} class="chip ${kind}">${children}</span>`;

/* A labelled choice; `options` is a list of [value, text]. */
function Choice({ id, label, name, value, options, onChange }) {
  return html`<label class="choice">${label && html`<span class="muted">${label}</span>`}
    <select id=${id} aria-label=${name} value=${value}
      class=${options[0]?.[0] === '' && value !== '' ? 'set' : ''}
      onInput=${(event) => onChange(event.target.value)}>${options.map(([of, text]) =>
        html`<option value=${of} selected=${of === value}>${text}</option>`)}</select>
    </label>`;
}

const queryOf = (field) => field.value.trim().toLowerCase();

/* The field that finds text, and what it found. */
const Find = ({ found, onInput }) => html`<div class="find" role="search">
  <input id="query" type="search" placeholder="Find text" aria-label="Find text" autocomplete="off"
    spellcheck=${false} aria-keyshortcuts="/" onInput=${({ target }) => onInput(queryOf(target))} />
  ${known(found) && html`<output id="matches" for="query" aria-live="polite">${found}</output>`}</div>`;

const hasModifier = (event) => event.ctrlKey || event.metaKey || event.altKey;

/* Calls keys[key] of a page, unless the user is typing. */
function watchKeys(keys) {
  document.addEventListener('keydown', (event) => {
    if (hasModifier(event) || event.defaultPrevented) return;
    if (event.target.matches('input, select, textarea')) {
      if (event.key === 'Enter' && event.target.id === 'query') keys.found?.(event);
      if (event.key !== 'Escape') return;
      event.target.blur();
    }
    const find = document.getElementById('query');
    const act = event.key === '/' && find ? () => [find.focus(), find.select()]
      : event.key === 't' ? switchTheme : Object.hasOwn(keys, event.key) ? keys[event.key] : null;
    if (!act || document.querySelector('dialog[open]')) return;
    event.preventDefault();
    act(event);
  });
}

/* A text with the match marked. */
function marked(text, query) {
  const at = query ? text.toLowerCase().indexOf(query) : -1;
  if (at < 0) return text;
  const from = at > 24 ? at - 12 : 0; // keeps the match visible
  return html`${from > 0 ? '…' : ''}${text.slice(from, at)}<mark>${
    text.slice(at, at + query.length)}</mark>${text.slice(at + query.length)}`;
}

const Swatch = ({ colour }) =>
  html`<span class="swatch" style=${{ background: colour }}></span>`;

/* ---- one table, and one list ---- */

/* `head` is a list of names, `rows` of lists of cells: a text, or { text, class }. */
function Table({ id, head, rows }) {
  const cell = (one, i) => html`<td key=${i} class=${one?.class}>${one?.text ?? one}</td>`;
  return html`<div class="scroller" tabindex="0"><table id=${id}>
    <thead><tr>${head.map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
    <tbody>${rows.map((cells, i) => html`<tr key=${i}>${cells.map(cell)}</tr>`)}</tbody>
    </table></div>`;
}

const ROW_HEIGHT = 28;
const SPARE_ROWS = 6; // above and below the visible ones

/*
 * A list of any length: only visible rows have elements. `row(item, i)` returns an object with the
 * properties of a row's element. The list has the focus and names the active row; keys move to
 * another (onMove), or are for onKey, which returns whether it knows them. `head` is a row above,
 * which stays; with `columns`, a CSS grid, rows are lines of a table, at least `wide` pixels.
 */
class List extends Component {
  box = createRef();
  state = { top: 0, height: window.innerHeight };

  componentDidMount() {
    const { current: box } = this.box;
    this.observer = new ResizeObserver(() => {
      if (box.clientHeight !== this.state.height) this.setState({ height: box.clientHeight });
    });
    this.observer.observe(box);
    this.reveal();
  }

  componentWillUnmount() {
    this.observer.disconnect();
  }

  componentDidUpdate(before) {
    const at = ({ items, active, of }) => (active >= 0 ? `${of ?? ''} ${items[active]?.id}` : '');
    if (at(before) !== at(this.props)) this.reveal();
  }

  /* Scrolls the active row into view. */
  reveal() {
    const { current: box } = this.box;
    const { active, head } = this.props;
    if (active < 0 || box.clientHeight === 0) return;
    const top = active * ROW_HEIGHT;
    const room = box.clientHeight - (head ? ROW_HEIGHT : 0);
    if (top < box.scrollTop) box.scrollTop = top - ROW_HEIGHT;
    else if (top + ROW_HEIGHT > box.scrollTop + room) box.scrollTop = top + 2 * ROW_HEIGHT - room;
  }

  render(props, { top, height }) {
    const { id, prefix, role, label, many, items, active, row, head, columns, wide } = props;
    const { onPick, onOpen, onMove, onKey } = props;
    const press = (event) => {
      if (hasModifier(event)) return;
      const to = stepKey(event.key, active, items.length, Math.floor(height / ROW_HEIGHT) - 2);
      if (to !== undefined) onMove(items[to], to);
      else if (!onKey?.(event.key)) return;
      event.preventDefault();
    };
    const first = Math.max(0, Math.floor(top / ROW_HEIGHT) - SPARE_ROWS);
    const last = Math.min(items.length, Math.ceil((top + height) / ROW_HEIGHT) + SPARE_ROWS);
    const shown = Array.from({ length: Math.max(0, last - first) }, (_, i) => first + i);
    if (items[active] && (active < first || active >= last)) shown.push(active);
    const lay = columns && { gridTemplateColumns: columns, minWidth: wide };
    const line = (i) => {
      const { class: kind, children, style, ...more } = row(items[i], i);
      return html`<div key=${i} id="${prefix}-${i}" role="option" aria-setsize=${items.length}
        aria-posinset=${i + 1} aria-selected=${i === active} ...${more}
        class="row ${columns ? 'grid' : ''} ${i === active ? 'active' : ''} ${kind ?? ''}"
        style=${{ top: i * ROW_HEIGHT, ...lay, ...style }}
        onClick=${(event) => onPick(items[i], event, i)}
        onDblClick=${() => onOpen?.(items[i])}>${children}</div>`;
    };
    return html`<div id=${id} ref=${this.box} class="list" role=${role ?? 'listbox'} tabindex="0"
      aria-label=${label} aria-multiselectable=${many} aria-activedescendant=${
        active >= 0 ? `${prefix}-${active}` : null}
      onScroll=${(event) => event.target === this.box.current
        && this.setState({ top: this.box.current.scrollTop })}
      onKeyDown=${press}>
      ${head && html`<div class="head grid" role="presentation" style=${lay}>${head}</div>`}
      <div class="rows" role="presentation"
        style=${{ height: items.length * ROW_HEIGHT, minWidth: wide }}>${shown.map(line)}</div>
    </div>`;
  }
}

/* Where a key leads to in a list of a length; undefined: nowhere. */
function stepKey(key, at, length, screen) {
  const page = Math.max(1, screen);
  const steps = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - page, PageDown: at + page,
    Home: 0, End: length - 1 };
  return key in steps && length > 0 ? Math.min(length - 1, Math.max(0, steps[key])) : undefined;
}

/* ---- texts ---- */

const titled = (title, ...parts) =>
  parts.flat(9).some(Boolean) ? html`<h3>${title}</h3>${parts}` : null;

const Facts = ({ pairs }) => html`<dl class="facts">${pairs
  .filter(([, value]) => known(value) && value !== '')
  .map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>`;

/* Copies a text to the clipboard and reports it on the button. */
async function copyText(text, button) {
  const words = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = 'Copied';
  } catch {
    button.textContent = 'Cannot copy';
  }
  setTimeout(() => (button.textContent = words), 1500);
}

/* A long text that scrolls, takes the focus and can be copied; `cut` bytes of it are not here. */
const LongText = ({ text, label, cut }) => html`<div class="text">
    <pre tabindex="0" aria-label=${label}>${visible(text)}</pre>
    <button type="button" class="copy" aria-label="Copy: ${label}" onClick=${(event) =>
      copyText(text, event.currentTarget)}>Copy</button></div>
  ${cut > 0 && html`<p class="small">${inGroups.format(cut)} more bytes are not in this page.</p>`}`;

/* A collapsible box, whose content is made when it is first opened. */
class Fold extends Component {
  render({ title, side, open, kind, children, ...more }, { opened }) {
    return html`<details class=${kind ?? 'fold'} open=${open} ...${more} onToggle=${(event) =>
      event.target.open && this.setState({ opened: true })}>
      <summary>${title}${side && html`<span class="muted">${side}</span>`}</summary>
      ${(open || opened) && html`<div class="inside">${children()}</div>`}</details>`;
  }
}

/* One message of a conversation. */
const Message = ({ role, children }) =>
  html`<div class="message ${role}"><span class="role">${role}</span>${children}</div>`;
