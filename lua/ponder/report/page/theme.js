/* Light or dark colours: the system's choice or the user's. */

const systemIsDark = window.matchMedia('(prefers-color-scheme: dark)');
const THEME = 'ponder.theme';
let theme = 'auto';

const shownTheme = () => (theme === 'auto' ? (systemIsDark.matches ? 'dark' : 'light') : theme);

/* A page opened as a file may have no localStorage. */
function remembered(action) {
  try {
    return action(window.localStorage);
  } catch {
    return null;
  }
}

function applyTheme() {
  document.documentElement.dataset.theme = theme;
  const shown = shownTheme();
  const button = byElementId('theme');
  button.textContent = shown === 'dark' ? '☾' : '☀';
  button.setAttribute('aria-label', `Colours: ${shown}. Switch.`);
  button.title = `Colours: ${theme === 'auto' ? `${shown}, as the system` : shown} (t)`;
}

let themeChanged = () => {};

function switchTheme() {
  const next = shownTheme() === 'dark' ? 'light' : 'dark';
  theme = next === (systemIsDark.matches ? 'dark' : 'light') ? 'auto' : next;
  remembered((place) => place.setItem(THEME, theme));
  applyTheme();
  themeChanged(next);
}

/* Applies the theme now and whenever it changes; then calls changed('dark') or changed('light'). */
function watchTheme(changed) {
  const before = remembered((place) => place.getItem(THEME));
  if (before === 'dark' || before === 'light') theme = before;
  themeChanged = changed;
  applyTheme();
  byElementId('theme').addEventListener('click', switchTheme);
  systemIsDark.addEventListener('change', () => {
    applyTheme();
    changed(shownTheme());
  });
}
