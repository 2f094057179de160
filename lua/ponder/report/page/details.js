/* The details of the selection: a node, a call, or the run. Functions return elements for page.js;
 * go.node(node) and go.call(call) change the selection. */

function facts(pairs) {
  const list = element('dl', { class: 'facts' });
  for (const [name, value] of pairs) {
    if (value === null || value === undefined || value === '') continue;
    list.append(element('dt', null, name), element('dd', null, value));
  }
  return list;
}

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

/* `text` is a string or a function that returns one. */
function copyButton(text, label) {
  return element(
    'button',
    {
      type: 'button',
      class: 'copy',
      'aria-label': `Copy: ${label}`,
      onclick: (event) => copyText(typeof text === 'function' ? text() : text, event.currentTarget),
    },
    'Copy',
  );
}

/* A long text that scrolls, takes the focus and can be copied; `cut` is the number of bytes
 * that the page omits. */
function longText(text, label, cut) {
  const parts = [
    element(
      'div',
      { class: 'text' },
      element('pre', { tabindex: '0', 'aria-label': label }, visible(text)),
      copyButton(text, label),
    ),
  ];
  if (cut > 0)
    parts.push(
      element('p', { class: 'cut' }, `${inGroups.format(cut)} more bytes are not in this page.`),
    );
  return parts;
}

/* A text of the run by its number; -1: omitted. */
function textAt(run, place, label) {
  if (place === undefined) return [];
  if (place < 0)
    return [
      element('p', { class: 'cut' }, 'This text is not in this page: see the note at the top.'),
    ];
  return longText(run.texts[place], label, run.cut?.[place] ?? 0);
}

function titled(title, ...parts) {
  const kept = parts.flat().filter((part) => part !== null && part !== undefined);
  return kept.length > 0 ? [element('h3', null, title), ...kept] : [];
}

function foldedText(title, text) {
  if (!text || text === '{}' || text === '[]') return null;
  return element(
    'details',
    { class: 'fold' },
    element('summary', null, title),
    ...longText(indentJson(text), title),
  );
}

/* ---- links to nodes ---- */

function nodeLink(node, go, note) {
  return element(
    'button',
    { type: 'button', class: 'link', onclick: () => go.node(node) },
    element('span', { class: 'score' }, showScore(node.score) || '–'),
    element('span', { class: 'words' }, firstLine(node.text) || `#${node.id}`),
    note ? element('span', { class: 'muted' }, note) : null,
  );
}

const MAX_LINKS = 40;

function linkList(nodes, go, noteOf = () => null) {
  if (nodes.length === 0) return null;
  const list = element(
    'div',
    { class: 'trail' },
    ...nodes.slice(0, MAX_LINKS).map((node) => nodeLink(node, go, noteOf(node))),
  );
  if (nodes.length > MAX_LINKS)
    list.append(
      element('p', { class: 'cut' }, `and ${inGroups.format(nodes.length - MAX_LINKS)} more`),
    );
  return list;
}

function pathTo(node) {
  const path = [];
  for (let up = node.parent; up && path.length < 12; up = up.parent) path.unshift(up);
  return path;
}

/* ---- a node ---- */

function nodeTitle(node) {
  return `${node.parent ? 'Node' : 'Root'} ${node.id}`;
}

function nodeFacts(node) {
  const sum = sumCalls(node.calls);
  return facts([
    ['Score', node.score === undefined ? 'none' : String(node.score)],
    [
      'Status',
      [node.status, node.terminal ? 'terminal' : '', node.best ? 'on the best path' : '']
        .filter(Boolean)
        .join(', '),
    ],
    ['Depth', node.depth ?? node.level],
    [
      'Below it',
      node.below > 0
        ? `${count(node.children.length, 'child', 'children')}, ${count(node.below, 'node')} in all`
        : 'nothing',
    ],
    ['Calls', node.calls.length > 0 ? inGroups.format(sum.calls) : null],
    [
      'Tokens',
      node.calls.length > 0
        ? `${showTokens(sum, sum.input)} in, ${showTokens(sum, sum.output)} out`
        : null,
    ],
    ['Cost', node.calls.length > 0 ? showCost(sum) : null],
    ['Time in calls', node.calls.length > 0 ? showSeconds(sum.seconds) : null],
  ]);
}

function linksOf(node, search, go) {
  const out = search.links.filter((link) => link.from === node),
    back = search.links.filter((link) => link.to === node);
  const kind = (links, end) => (other) => links.find((link) => link[end] === other).kind ?? '';
  return [
    ...titled(
      'Linked from',
      linkList(
        back.map((link) => link.from),
        go,
        kind(back, 'from'),
      ),
    ),
    ...titled(
      'Links to',
      linkList(
        out.map((link) => link.to),
        go,
        kind(out, 'to'),
      ),
    ),
  ];
}

function nodeDetails(run, search, node, go) {
  const own = node.calls,
    above = node.parent?.calls ?? [];
  return [
    ...longText(indentJson(node.text) || '(no text)', 'Text of the node', node.more ?? 0),
    element('h3', null, 'Figures'),
    nodeFacts(node),
    ...forkNode(run, node),
    ...titled('Calls for this node', ...own.map((call, i) => callBox(run, call, i === 0))),
    ...titled(
      'Calls for its parent',
      above.length > 0
        ? element('p', { class: 'cut' }, 'They proposed the node, and may have scored it.')
        : null,
      ...above.map((call, i) => callBox(run, call, own.length === 0 && i === 0)),
    ),
    own.length + above.length === 0
      ? element('p', { class: 'cut' }, 'No model call belongs to this node.')
      : null,
    ...titled('Path from the root', linkList(pathTo(node), go)),
    ...titled('Children', linkList(node.children, go)),
    ...linksOf(node, search, go),
  ];
}

/* ---- a call ---- */

/* A collapsible call; its content is created when it is first opened. */
function callBox(run, call, open) {
  const side = [
    callOutcome(call),
    showSeconds(callTime(call)),
    callCost(call),
    call.attempts > 1 ? count(call.attempts, 'try', 'tries') : '',
  ]
    .filter(Boolean)
    .join(' · ');
  const inside = element('div', { class: 'inside' });
  const fill = () => {
    if (inside.childElementCount === 0) inside.append(...callParts(run, call));
  };
  if (open) fill();
  return element(
    'details',
    { class: 'call', open, ontoggle: fill, 'data-call': call.id },
    element('summary', null, callName(call), element('span', { class: 'muted' }, side)),
    inside,
  );
}

function callFacts(run, call) {
  const from = { log: 'from the log of the run it was forked from', cache: 'from the cache' };
  const tokens = (n) => (n === undefined ? '?' : inGroups.format(n));
  return facts([
    ['Model', [call.provider, call.model].filter(Boolean).join(':')],
    ['Status', [call.status ?? 'no answer', from[call.origin]].filter(Boolean).join(', ')],
    ['Asked', `${showSeconds(call.asked - run.run.started_at) || '0'} after the start`],
    ['Waited', waitTime(call) > 0 ? `${showSeconds(waitTime(call))} for a slot` : null],
    [
      waitTime(call) > 0 ? 'In flight' : 'Time',
      showSeconds(callTime(call)) +
        (call.first === undefined ? '' : `, first words after ${showSeconds(call.first / 1000)}`),
    ],
    [
      'Tokens',
      call.input === undefined && call.output === undefined && call.status !== 'ok'
        ? null
        : `${tokens(call.input)} in, ${tokens(call.output)} out`,
    ],
    ['Cached', call.cache_read ? `${inGroups.format(call.cache_read)} tokens read` : null],
    ['Reasoning', call.reasoning ? count(call.reasoning, 'token') : null],
    ['Cost', callCost(call).replace('cost ', '')],
    [
      'Sample',
      call.sample > 1 || call.samples > 1
        ? `${call.sample}${call.samples > 1 ? ` to ${call.sample + call.samples - 1}` : ''}`
        : null,
    ],
  ]);
}

function failedAttempts(call) {
  return (call.failed ?? []).map(({ attempt, status, code, message, retry_in_ms: pause }) => {
    const what = [status && `HTTP ${status}`, code, message].filter(Boolean).join(', ');
    const then = pause === undefined ? '' : `; again after ${showSeconds(pause / 1000)}`;
    return element('p', { class: 'error' }, `Try ${attempt}: ${what}${then}`);
  });
}

function promptOf(run, call) {
  return call.prompt.map(({ role, text }) =>
    element(
      'div',
      { class: 'message' },
      element('span', { class: 'role' }, role),
      ...textAt(run, text, `Prompt, ${role}`),
    ),
  );
}

function replyOf(run, call) {
  return (call.reply ?? []).map((sample, i) =>
    element(
      'div',
      { class: 'message' },
      element(
        'span',
        { class: 'role' },
        [call.reply.length > 1 ? `sample ${call.sample + i}` : '', sample.finish ?? '']
          .filter(Boolean)
          .join(', ') || 'assistant',
      ),
      ...(sample.reasoning === undefined
        ? []
        : [
            element(
              'details',
              { class: 'fold' },
              element('summary', null, 'Reasoning'),
              ...textAt(run, sample.reasoning, 'Reasoning'),
            ),
          ]),
      ...textAt(run, sample.text, 'Reply'),
      sample.tools ? foldedText('Tool calls', sample.tools) : null,
    ),
  );
}

function callParts(run, call) {
  return [
    callFacts(run, call),
    ...titled('Failed tries', ...failedAttempts(call)),
    call.status === 'error'
      ? element('p', { class: 'error' }, [call.code, call.message].filter(Boolean).join(': '))
      : null,
    ...titled('Reply', ...replyOf(run, call)),
    ...titled('Prompt', ...promptOf(run, call)),
    foldedText('Parameters', call.parameters),
    foldedText('Metadata', call.metadata),
    ...forkCall(run, call),
  ].filter(Boolean);
}

function callDetails(run, call, go) {
  return [...(call.node ? titled('For', nodeLink(call.node, go)) : []), ...callParts(run, call)];
}

/* ---- the run ---- */

function tableOf(head, rows) {
  return element(
    'table',
    { class: 'table' },
    element('thead', null, element('tr', null, ...head.map((name) => element('th', { scope: 'col' }, name)))),
    element(
      'tbody',
      null,
      ...rows.map((cells) => element('tr', null, ...cells.map((cell) => element('td', null, cell)))),
    ),
  );
}

function modelTable(totals) {
  if (totals.models.length === 0) return null;
  const rows = totals.models.map((m) => [
    m.model,
    inGroups.format(m.calls),
    showTokens(m, m.input),
    showTokens(m, m.output),
    showCost(m),
  ]);
  return tableOf(['Model', 'Calls', 'In', 'Out', 'Cost'], rows);
}

/* Percentiles of the time of calls that were sent, by purpose. */
function latencyTable(calls) {
  const byPurpose = new Map();
  for (const call of calls) {
    if (call.status !== 'ok' || (call.origin ?? 'live') !== 'live') continue;
    for (const name of ['all', call.purpose ?? 'no purpose']) {
      if (!byPurpose.has(name)) byPurpose.set(name, []);
      byPurpose.get(name).push(callTime(call));
    }
  }
  if (byPurpose.size === 0) return null;
  if (byPurpose.size === 2) byPurpose.delete('all');
  const rows = [...byPurpose].map(([name, times]) => {
    times.sort((a, b) => a - b);
    const figures = [0.5, 0.95, 0.99].map((share) => showSeconds(percentile(times, share)));
    return [name, inGroups.format(times.length), ...figures];
  });
  return tableOf(['Latency', 'Calls', 'p50', 'p95', 'p99'], rows);
}

function searchFacts(search) {
  return facts([
    ['Name', search.name],
    ['Kind', search.kind],
    ['Model', search.model],
    ['Status', search.status],
    ['Ended because', search.reason],
    ['Best score', search.score === undefined ? null : String(search.score)],
    [
      'Nodes',
      inGroups.format(search.nodes.length) +
        (search.left_out ? ` of ${inGroups.format(search.nodes.length + search.left_out)}` : ''),
    ],
    [
      'Time',
      search.ended_at === undefined ? null : showSeconds(search.ended_at - search.started_at),
    ],
  ]);
}

function runFacts({ run, sessions, totals }) {
  return facts([
    ['Run', run.id],
    ['Name', run.name],
    ['Labels', Object.entries(run.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(' ')],
    ['Command', commandLine(run)],
    ['Directory', run.directory],
    ['Started', showDate(run.started_at)],
    ['Sessions', sessions.length > 1 ? sessions.map((session) => session.kind).join(', ') : null],
    ['Failed calls', totals.failed > 0 ? inGroups.format(totals.failed) : null],
    ['From caches', totals.cached > 0 ? count(totals.cached, 'call') : null],
    ['Forked from', run.source],
    [
      'Saved',
      run.saved_calls ? `${count(run.saved_calls, 'call')}, ${showMoney(run.saved_cost)}` : null,
    ],
    ['Seed', run.seed],
    ['ponder', run.versions?.ponder],
  ]);
}

function commandLine(run) {
  return ['ponder', run.command, ...run.arguments]
    .map((word) => (/\s/.test(word) ? JSON.stringify(word) : word))
    .join(' ');
}

function lead(text, kind) {
  return text ? element('p', { class: `lead ${kind}` }, text) : null;
}

function runDetails(run, search) {
  const answer = search?.answer ?? run.run.answer;
  const parts = [
    ...titled('Question', lead(run.run.question ?? search?.question, '')),
    ...titled('Answer', lead(answer === undefined ? '' : indentJson(answer), 'answer')),
    run.run.error ? element('p', { class: 'error' }, run.run.error) : null,
    ...(search ? titled('Search', searchFacts(search)) : []),
    ...titled('Models', modelTable(run.totals), latencyTable(run.calls)),
    ...titled('Run', runFacts(run)),
    search ? foldedText('Options', search.options) : null,
    search ? foldedText('Statistics', search.stats) : null,
  ];
  return parts.filter(Boolean);
}

/* ---- as JSON ---- */

/* A call with its texts instead of their numbers. */
function wholeCall(run, { id, prompt, reply, ...rest }) {
  const at = (place) => (place === undefined ? undefined : (run.texts[place] ?? null));
  const own = ['index', 'kind', 'node', 'searchObject', 'lane', 'until', 'start', 'stop', 'inFlightFrom'];
  const fields = Object.entries(rest).filter(([name]) => !own.includes(name));
  return {
    id,
    node: rest.node?.id,
    ...Object.fromEntries(fields),
    prompt: prompt.map(({ role, text }) => ({ role, text: at(text) })),
    reply: reply?.map(({ text, reasoning, ...more }) => ({
      ...more,
      text: at(text),
      reasoning: at(reasoning),
    })),
  };
}

const NODE_FIELDS = ['id', 'searchId', 'up', 'depth', 'score', 'status', 'terminal', 'best', 'text'];

/* The selection as data. */
function asData(run, search, selected) {
  if (!selected) {
    const { nodes, byId, roots, links, range, bestPath, byScore, ...about } = search ?? {};
    return { run: run.run, sessions: run.sessions, totals: run.totals, search: search ? about : null };
  }
  if (selected.kind === 'call') return wholeCall(run, selected);
  const node = Object.fromEntries(NODE_FIELDS.map((name) => [name, selected[name]]));
  return { ...node, calls: selected.calls.map((call) => wholeCall(run, call)) };
}

function jsonDetails(run, search, selected) {
  const whole = run.follow
    ? element('p', null, element('a', { href: served('/view/log', { run: run.name }) }, 'The whole log'))
    : null;
  const text = JSON.stringify(asData(run, search, selected), null, 2);
  return [whole, ...longText(text, 'JSON')].filter(Boolean);
}
