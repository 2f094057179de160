/* The details of the selection: a node, a call, or the run (that of run.js). */

/* ---- a node ---- */

const MAX_LINKS = 40;

const NodeLink = ({ node, note }) => html`<button type="button" class="link"
  onClick=${() => go(node)}><span class="score">${showScore(node.score) || '–'}</span>
  <span class="words">${firstLine(node.text) || `#${node.id}`}</span>
  ${note && html`<span class="muted">${note}</span>`}</button>`;

/* `pairs` is a list of [node, note]. */
const Links = ({ title, pairs }) => pairs.length > 0 && titled(title,
  pairs.slice(0, MAX_LINKS).map(([node, note]) => html`<${NodeLink} node=${node} note=${note} />`),
  pairs.length > MAX_LINKS && html`<p class="small">and ${
    inGroups.format(pairs.length - MAX_LINKS)} more</p>`);

/* Which of an optimization's items each of some candidates gets right: a row a candidate. */
function Scores({ search, nodes }) {
  return html`<table class="scores"><tbody>${nodes.map((node) => html`<tr><th><button type="button"
      class="link" onClick=${() => go(node)}>#${node.id}
      <span class="score">${showScore(node.score)}</span></button></th>
    ${node.scores.map((score, i) => {
      const [kind, mark] = score === false ? ['muted', '·'] : score >= 1 ? ['good', '✓']
        : score > 0 ? ['wait', '◐'] : ['bad', '✗'];
      return html`<td class=${kind} title="${search.items[i]}: ${
        score === false ? 'not run' : score}">${mark}</td>`;
    })}</tr>`)}</tbody></table>`;
}

function NodeDetails({ search, node }) {
  const figures = [
    ['Score', node.score === undefined ? 'none' : String(node.score)],
    ['Status', [node.status, node.terminal && 'terminal', node.best && 'on the best path']
      .filter(Boolean).join(', ')],
    ['Depth', node.depth ?? node.level],
    ['Below it', node.below === 0 ? 'nothing'
      : `${count(node.children.length, 'child', 'children')}, ${
      count(node.below, 'node')} in all`],
  ];
  const above = node.parent?.calls ?? [];
  const links = (from, to) => search.links.filter((link) => link[from] === node)
    .map((link) => [link[to], link.kind]);
  const boxes = (calls, open) => calls.map((call, i) => html`<${Fold} kind="call" key=${call.id}
    title=${callName(call)} side=${callFigures(call)} open=${open && i === 0}>${() =>
    html`<${CallDetails} call=${call} />`}<//>`);
  return html`<${LongText} text=${indentJson(node.text) || '(no text)'} label="Text of the node"
      cut=${node.more} />
    ${node.diff && titled('Changed since its parent', html`<${LongText} text=${node.diff}
      label="What changed" />`)}
    ${node.scores && titled('Items', html`<${Scores} search=${search}
      nodes=${[node.parent, node].filter((one) => one?.scores)} />`)}
    <h3>Figures</h3><${Facts} pairs=${figures} />
    ${titled('Calls for this node', ...boxes(node.calls, true))}
    ${titled('Calls for its parent', above.length > 0 && html`<p class="small">They proposed the node,
      and may have scored it.</p>`, ...boxes(above, node.calls.length === 0))}
    ${node.calls.length + above.length === 0
      && html`<p class="small">No model call belongs to this node.</p>`}
    <${Links} title="Children" pairs=${node.children.map((child) => [child])} />
    <${Links} title="Linked from" pairs=${links('to', 'from')} />
    <${Links} title="Links to" pairs=${links('from', 'to')} />`;
}

/* ---- a call ---- */

/* A text of the run by its number; -1: omitted. */
function TextAt({ place, label }) {
  if (place === undefined) return null;
  if (place < 0)
    return html`<p class="small">This text is not in this page: see the note at the top.</p>`;
  return html`<${LongText} text=${run.texts[place]} label=${label} cut=${run.cut?.[place]} />`;
}

const FoldedText = ({ title, text }) => text && text !== '{}' && text !== '[]' && html`<${Fold}
  title=${title}>${() => html`<${LongText} text=${indentJson(text)} label=${title} />`}<//>`;

const Prompt = ({ call }) => call.prompt.map(({ role, text }) => html`<${Message} role=${role}>
  <${TextAt} place=${text} label="Prompt, ${role}" /><//>`);

const Reply = ({ call, plain }) => (call.reply ?? []).map((sample, i) => {
  const role = [call.reply.length > 1 && `sample ${call.sample + i}`, !plain && sample.finish];
  return html`<${Message} role=${role.filter(Boolean).join(', ') || 'assistant'}>
    ${sample.reasoning !== undefined && html`<${Fold} title="Reasoning">${() => html`<${TextAt}
      place=${sample.reasoning} label="Reasoning" />`}<//>`}
    <${TextAt} place=${sample.text} label="Reply" />
    <${FoldedText} title="Tool calls" text=${sample.tools} /><//>`;
});

function CallDetails({ call, alone }) {
  const from = { log: 'from the log of the run it was forked from', cache: 'from the cache' };
  const tokens = (n) => (n === undefined ? '?' : inGroups.format(n));
  const waited = waitTime(call);
  const end = call.sample + call.samples - 1;
  const facts = [
    ['Model', modelOf(call)],
    ['Status', [call.status ?? 'no answer', from[call.origin]].filter(Boolean).join(', ')],
    ['Asked', `${showSeconds(call.asked_at - run.run.started_at) || '0'} after the start`],
    ['Waited', waited > 0 ? `${showSeconds(waited)} for a slot` : null],
    [waited > 0 ? 'In flight' : 'Time', showSeconds(callTime(call))
      + (known(call.time_to_first_ms)
        ? `, first words after ${showSeconds(call.time_to_first_ms / 1000)}` : '')],
    ['Tokens', call.status !== 'ok' && !known(plus(call.input_tokens, call.output_tokens)) ? null
      : `${tokens(call.input_tokens)} in, ${tokens(call.output_tokens)} out`],
    ['Cached', call.cache_read_tokens ? `${count(call.cache_read_tokens, 'token')} read` : null],
    ['Reasoning', call.reasoning_tokens ? count(call.reasoning_tokens, 'token') : null],
    ['Cost', callCost(call).replace('cost ', '')],
    ['Sample', end > 1 ? `${call.sample}${call.samples > 1 ? ` to ${end}` : ''}` : null],
  ];
  return html`${alone && call.node && titled('For', html`<${NodeLink} node=${call.node} />`)}
    <${Facts} pairs=${facts} />
    ${titled('Failed tries', (call.failed ?? []).map(({ attempt, status, code, message,
      retry_in_ms: pause }) => html`<p class="error">Try ${attempt}: ${[
      status && `HTTP ${status}`, code, message].filter(Boolean).join(', ')}${
      known(pause) && `; again after ${showSeconds(pause / 1000)}`}</p>`))}
    ${call.status === 'error' && html`<p class="error">${[call.code, call.message].filter(Boolean)
      .join(': ')}</p>`}
    ${call.reply?.length > 0 && titled('Reply', html`<${Reply} call=${call} />`)}
    ${call.prompt.length > 0 && titled('Prompt', html`<${Prompt} call=${call} />`)}
    <${FoldedText} title="Parameters" text=${call.parameters} />
    <${FoldedText} title="Metadata" text=${call.metadata} />`;
}

/* ---- the run ---- */

/* What a chat said so far: the prompt of its last answered call, and the reply. */
function Conversation() {
  const last = run.calls.findLast(({ reply }) => reply?.length > 0) ?? run.calls.at(-1);
  return last && titled('Conversation', html`<div class="conversation">
    <${Prompt} call=${last} /><${Reply} call=${last} plain /></div>`);
}

function RunDetails({ search }) {
  const lead = (title, text, kind) => text && titled(title, html`<p class="lead ${kind}">${text}</p>`);
  const ofSearch = search && [
    ['Name', search.name], ['Kind', search.kind], ['Model', search.model], ['Status', search.status],
    ['Ended because', search.reason],
    ['Best score', search.score === undefined ? null : String(search.score)],
    ['Nodes', inGroups.format(search.nodes.length)
      + (search.left_out ? ` of ${inGroups.format(search.nodes.length + search.left_out)}` : '')],
    ['Time', search.ended_at === undefined ? null : showSeconds(search.ended_at - search.started_at)],
  ];
  const { run: own, sessions, totals } = run;
  const ofRun = [
    ['Run', own.id], ['Name', own.name],
    ['Labels', Object.entries(own.labels ?? {}).map(([name, value]) => `${name}=${value}`).join(' ')],
    ['Command', commandLine(['ponder', own.command, ...own.arguments])],
    ['Directory', own.directory], ['Started', showDate(own.started_at)],
    ['Sessions', sessions.length > 1 ? sessions.map((session) => session.kind).join(', ') : null],
    ['Failed calls', totals.errors > 0 ? inGroups.format(totals.errors) : null],
    ['From caches', totals.reused > 0 ? count(totals.reused, 'call') : null],
    ['Forked from', own.source],
    ['Saved', own.saved_calls
      ? `${count(own.saved_calls, 'call')}, ${showMoney(own.saved_cost)}` : null],
    ['Seed', own.seed], ['ponder', own.versions?.ponder],
  ];
  return html`${run.run.command === 'chat' ? html`<${Conversation} />`
    : [lead('Question', run.run.question ?? search?.question, ''),
      lead('Answer', indentJson(search?.answer ?? run.run.answer ?? ''), 'answer')]}
    ${run.run.error && html`<p class="error">${run.run.error}</p>`}
    ${search && titled('Search', html`<${Facts} pairs=${ofSearch} />`)}
    ${search?.items && titled('Items by candidate', html`<${Scores} search=${search}
      nodes=${search.byScore.filter(({ scores }) => scores).slice(0, MAX_LINKS)} />`)}
    ${titled('Models', totals.models.length > 0 && html`<${Table}
      head=${['Model', 'Calls', 'In', 'Out', 'Cost']} rows=${totals.models.map((m) => [modelOf(m),
        inGroups.format(m.calls), showTokens(m, m.input_tokens), showTokens(m, m.output_tokens),
        showCost(m)])} />`)}
    ${titled('Run', html`<${Facts} pairs=${ofRun} />`, run.name && html`<p><a
      href=${served('/view/log', { run: run.name })}>The whole log as JSON</a></p>`)}
    <${FoldedText} title="Options" text=${search?.options} />
    <${FoldedText} title="Statistics" text=${search?.stats} />`;
}
