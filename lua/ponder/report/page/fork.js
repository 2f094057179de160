/*
 * Commands to paste into a shell: `ponder fork` from a node or a call, with an edited thought,
 * reply or prompt.
 */

/* Quotes a word for a shell. */
const shellWord = (word) =>
  /^[\w@%+=:,./#-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`;

/* An end mark for a here-document: a line that the text does not contain. */
function endMark(text) {
  const lines = new Set(text.split('\n'));
  let mark = 'END';
  for (let i = 1; lines.has(mark); i++) mark = `END${i}`;
  return mark;
}

/* Removes characters that would control a terminal. */
const withoutControls = (text) =>
  text.replace(/\r\n?/g,
'\n').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '');

/* The lines for the shell: write the text to a file, and fork with it. */
function forkCommand(path, words, flag, text) {
  const clean = withoutControls(text);
  const mark = endMark(clean);
  const file = 'edited.txt';
  const command = ['ponder', 'fork', path, ...words, flag, file].map(shellWord).join(' ');
  return `cat >${file} <<'${mark}'\n${clean}\n${mark}\n${command}`;
}

/* A collapsible box with a text to edit and its command. */
function forkBox(run, title, words, flag, text) {
  const shown = element('pre', { tabindex: '0', 'aria-label': 'Command' });
  const edited = element('textarea', { 'aria-label': title, spellcheck: 'false' });
  const command = () => forkCommand(run.path, words, flag, edited.value);
  const show = () => (shown.textContent = command());
  edited.value = text;
  edited.addEventListener('input', show);
  show();
  return element(
    'details',
    { class: 'fold fork' },
    element('summary', null, title),
    edited,
    element(
      'div',
      { class: 'text' },
      shown,
      copyButton(command, 'the command'),
    ),
  );
}

/* Whether a run can be forked from its log. */
const canFork = ({ path, run }) =>
  path !== undefined && /^(run|tot|got|trm|cot|ask|chat|eval)$/.test(run.command);

/* Forks with another text of a node. */
function forkNode(run, node) {
  if (!canFork(run) || !node.parent) return [];
  const words = ['--search', node.searchId, '--node', node.id];
  return [forkBox(run, 'Fork from here with a different thought', words, '--text', node.text)];
}

/* Forks with another reply or prompt of a call. */
function forkCall(run, call) {
  if (!canFork(run)) return [];
  const at = (place) => (place >= 0 ? run.texts[place] : '');
  const words = ['--call', call.id];
  const reply = call.reply?.[0];
  const prompt = call.prompt.at(-1);
  return [
    reply ? forkBox(run, 'Fork with a different reply', words, '--text', at(reply.text)) : null,
    prompt ? forkBox(run, 'Fork with a different prompt', words, '--ask', at(prompt.text)) : null,
  ].filter(Boolean);
}
