/*
 * The command that runs a run again from a node or a call, with a thought, a reply or a prompt
 * edited: `ponder fork` writes it, a person pastes it into a shell.
 */

/* A word for a shell. */
const shellWord = (word) =>
  /^[\w@%+=:,./#-]+$/.test(word) ? word : `'${String(word).replaceAll("'", "'\\''")}'`;

/* What ends a text that does not hold it as a line. */
function endMark(text) {
  const lines = new Set(text.split('\n'));
  let mark = 'END';
  for (let i = 1; lines.has(mark); i++) mark = `END${i}`;
  return mark;
}

/* A text that a terminal takes as it is: characters that control one are left out. */
const harmless = (text) =>
  text.replace(/\r\n?/g, '\n').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '');

/* The shell's lines: the text into a file, and the fork that reads it. */
function forkCommand(path, words, flag, text) {
  const clean = harmless(text);
  const mark = endMark(clean);
  const file = 'edited.txt';
  const command = ['ponder', 'fork', path, ...words, flag, file].map(shellWord).join(' ');
  return `cat >${file} <<'${mark}'\n${clean}\n${mark}\n${command}`;
}

/* A box that folds: a text to edit, and the command for it. */
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

/* Commands that can be run again from their logs. */
const canFork = ({ path, run }) =>
  path !== undefined && /^(run|tot|got|trm|cot|ask|chat|eval)$/.test(run.command);

/* For a node: its text, in the reply that it came from. */
function forkNode(run, node) {
  if (!canFork(run) || !node.parent) return [];
  const words = ['--search', node.searchId, '--node', node.id];
  return [forkBox(run, 'Fork from here, with another thought', words, '--text', node.text)];
}

/* For a call: its reply, or what it asked. */
function forkCall(run, call) {
  if (!canFork(run)) return [];
  const at = (place) => (place >= 0 ? run.texts[place] : '');
  const words = ['--call', call.id];
  const reply = call.reply?.[0];
  const prompt = call.prompt.at(-1);
  return [
    reply ? forkBox(run, 'Fork with another reply', words, '--text', at(reply.text)) : null,
    prompt ? forkBox(run, 'Fork with another prompt', words, '--ask', at(prompt.text)) : null,
  ].filter(Boolean);
}
