--- Makes commands of strategies: `ponder tot`, `got`, `trm`, `cot` and `ask`.
---
--- | output          | on a terminal                          | elsewhere                       |
--- |-----------------|----------------------------------------|---------------------------------|
--- | standard error  | the live view, then the tree of        | a line for each step            |
--- |                 | thoughts and a line of totals          |                                 |
--- | standard output | the answer; with --json one object; with --jsonl events, then that object |
---
--- Ctrl-C prints the best answer so far. Exit status: 0; 1 when the run failed (a partial answer is
--- still printed); 2 for a usage error; 124 after a timeout; 130 after Ctrl-C.

local args = require "ponder.args"
local cli = require "ponder.cli.shared.main"
local closing = require "ponder.show.closing"
local core = require "ponder.core.task"
local failures = require "ponder.run.task.failures"
local flags = require "ponder.cli.shared.flags"
local host = require "ponder.core.host"
local limits = require "ponder.cli.shared.limits"
local logging = require "ponder.cli.shared.logging"
local logged = require "ponder.run.log.command"
local model_name = require "ponder.model.name"
local options = require "ponder.base.options"
local progress = require "ponder.show.progress"
local notice = require "ponder.base.notice"
local quote = require "ponder.quote"
local style = require "ponder.show.style"
local scheduler = require "ponder.run.task.scheduler"
local strategy = require "ponder.strategy"
local task = require "ponder.task"
local text = require "ponder.show.text"
local toolbox = require "ponder.cli.shared.toolbox"
local tree = require "ponder.show.tree"
local view = require "ponder.show.terminal"

local command = {}

local REDRAW_S = 0.1

local OWN = args.collect {
    flags.PROMPTS,
    limits.RULES.cache,
    limits.RULES.max_steps,
    limits.BATCHES,
    toolbox.OPTIONS,
    { "json", help = "print one JSON object" },
    { "jsonl", help = "print each event as a line of JSON, then the object of --json" },
    { "quiet", help = "print only the answer" },
    cli.VERBOSE,
    logging.OPTIONS,
}

-------------------------------------------------------------------------------
-- The command line

local USAGE = [[
ponder %s [OPTION...] QUESTION...
ponder %s [OPTION...] < FILE

%s

The question is piped standard input, then the arguments; - reads it from a terminal, too. The
answer goes to standard output, everything else to standard error. Ctrl-C prints the best answer so
far.]]

-- The strategy that the flags describe.
local function make_strategy(self, given, tools)
    local opts = cli.expect(flags.options(given, self.rules, limits.is_resumed()))
    opts.tools = tools
    if opts.search and opts.search:find "%.lua$" then
        opts.search = cli.need(strategy.load_policy(opts.search))
    end
    cli.refuse(flags.use_prompts(given))
    if given.quiet then
        notice.listen(function() end)
    end
    local ok, made = pcall(self.strategy.new, opts)
    if not ok then -- names options as flags
        failures.pass_stop(ok, made)
        local message = tostring(made):gsub("^.-strategy%.%w+%.new: ", "")
        cli.refuse((message:gsub("opts%.budget", "opts"):gsub("opts%.([%w_]+)", flags.flag)))
    end
    return made
end

-------------------------------------------------------------------------------
-- A run

---@class ponder.show.Session one run of a command
---@field name string
---@field given table the flags
---@field s ponder.strategy.Strategy
---@field style ponder.show.Style of standard error
---@field progress ponder.show.Progress
---@field view ponder.show.View?
local Session = {}
Session.__index = Session

function Session:on_event(event, running)
    self.progress:take(event, running)
    if self.given.jsonl then
        cli.print_json { type = "event", name = event.name, measurements = event.measurements,
            metadata = event.metadata }
    end
    if self.says_steps and event.name:match "step$" then
        io.stderr:write("ponder ", self.name, ": ",
            table.concat(self.progress:facts(), ", "), "\n")
        io.stderr:flush()
    end
end

-- Runs the strategy. Ctrl-C and timeouts, raised in this task, end it; other errors propagate.
function Session:ask(question)
    local _ <close> = self.view and self.view:start(REDRAW_S) or nil
    local ok, outcome, message, code, partial = xpcall(self.s.run, cli.with_traceback, self.s,
        question, { on_event = function(...) self:on_event(...) end })
    if ok then
        return outcome, message, code, partial
    elseif not task.stop_reason() then
        error(outcome, 0)
    end
    core.stop_obeyed()
    partial = self.s:outcome() or { status = "error" }
    if task.interrupted() then
        partial.stop_reason = "interrupted"
        return nil, "interrupted", "INTERRUPTED", partial
    end
    message, code = limits.stopped(self.given)
    partial.stop_reason = code:lower()
    return nil, message, code, partial
end

-------------------------------------------------------------------------------
-- The outcome

-- Writes a line on standard error, wrapped on a terminal.
local function write_line(session, message)
    io.stderr:write(table.concat(text.wrap(message, session.style:width()), "\n"), "\n")
end

function Session:note(message)
    write_line(self, ("ponder %s: %s"):format(self.name, text.line(message)))
end

local HINT = "name one: --model openai:gpt-6-luna (hosted), ollama:qwen3:8b, "
    .. "openai:NAME --base-url URL (llama.cpp), script:FILE; see ponder doctor"

local NO_MODEL = { NO_MODEL = true, CONNECT = true, AUTH = true }

function Session:explain(message, code)
    message = message:gsub("\nstack traceback:.*", "")
    local is_advised = message:find(model_name.ADVICE, 1, true) -- a broken file of settings
    if code ~= "NO_MODEL" then
        message = ("%s [%s]"):format(message, code)
    elseif not message:find("^no model") and not is_advised then
        message = "no model: " .. message
    end
    self:note(message)
    if NO_MODEL[code] and not is_advised then
        write_line(self, HINT)
    end
end

function Session:show(outcome, message, code, partial)
    local last, given, on = outcome or partial, self.given, self.style
    local object = options.merge({ status = "error" }, last)
    object.error = code and { code = code, message = message } or nil
    logged.answer(object)
    if code and code ~= "INTERRUPTED" then
        logged.failure(("%s [%s]"):format(message, code))
    end
    if last and last.answer and not given.quiet and not given.jsonl then
        local root = on.live and not given.json and tree.of(self.s:look())
        for _, line in ipairs(root and tree.lines(root, on) or {}) do
            io.stderr:write(line, "\n")
        end
        local facts, reason = self.progress:facts(), tostring(last.stop_reason):gsub("_", " ")
        local saved = type(last.result) == "table" and last.result.saved or 0
        facts[#facts + 1] = saved > 0 and ("%d of %d samples saved"):format(saved, last.result.n)
            or nil
        table.insert(facts, 1, ("ponder %s: %s"):format(self.name, text.line(reason)))
        facts[#facts + 1] = text.line(tostring(last.model))
        facts[#facts + 1] = last.scripted and "scripted" or nil
        table.move(closing.of(reason == "interrupted"), 1, 2, #facts + 1, facts)
        io.stderr:write(table.concat(text.flow(facts, on:width(), "  ", on:mark()), "\n"), "\n")
    end
    if code == "INTERRUPTED" then
        self:note(task.stop_reason() == "detach" and table.concat({
            "detached: the run waits for its batches", table.unpack(closing.of(true)) }, ", ")
            or last.answer and "the best so far:" or "interrupted")
    elseif code then
        self:explain(message, code)
    end
    if given.json or given.jsonl then
        object.type = given.jsonl and "result" or nil
        cli.print_json(object)
    elseif last and type(last.answer) == "string" and last.answer ~= "" then
        io.stdout:write((text.safe(last.answer):gsub("\n*$", "\n")))
    end
    return outcome and 0 or code == "INTERRUPTED" and host.stop_status() or 1
end

local function run(self, given, operands, arguments)
    if given.json and given.jsonl then
        return nil, "--json or --jsonl, not both"
    end
    cli.refuse(given.in_flight and not (given.max_calls or given.max_total_tokens or given.max_cost)
        and "--in-flight needs a limit: --max-calls, --max-total-tokens or --max-cost")
    for i, word in ipairs(self.rules.round_size and given.batch and arguments or {}) do
        cli.refuse(arguments[i - 1] == "--batch" and word:find "^%d+$"
            and "--batch takes no number: it sends calls in batches, at half the price; "
            .. "--round-size " .. word .. " expands so many thoughts at the same time")
    end
    local question, input = logging.prompt(operands)
    logging.begin(given, { command = self.name, arguments = arguments, input = input })
    local box <close> = toolbox.open(given)
    local s = make_strategy(self, given, box.tools)
    question = quote.trim(question)
    cli.expect(question ~= "",
        ('expected a question: ponder %s "QUESTION"'):format(self.name))
    local _ <close> = limits.cache(given.cache)
    limits.begin(given)
    local session = setmetatable({ name = self.name, given = given, s = s, style = style.of(2),
        progress = progress.new(s.kind.name, scheduler.clock) }, Session)
    local silent = given.quiet or given.jsonl
    if session.style.live and not silent and not given.verbose then
        session.view = view.new(io.stderr, session.style, session.progress)
    end
    session.says_steps = not silent and not session.view
    return session:show(session:ask(question))
end

-------------------------------------------------------------------------------

---Makes the command of a strategy.
---@param name string the command's
---@param texts {summary: string, about: string, call: string?} summary: a line for `ponder --help`;
---  about: for `ponder NAME --help`; call: the synopsis, default NAME
---@param own table<string, ArgumentRule>? flags of this command only
---@return table command see ponder.cli.shared.main
function command.of(name, library, texts, own)
    local self = { name = name, summary = texts.summary, strategy = library }
    self.rules, self.sections = flags.of(library.options(), options.merge(own or {}, OWN))
    self.rules.models.help = "other models by role: " .. table.concat(library.roles(), ", ")
    local call = texts.call or name
    self.about = USAGE:format(call, call, texts.about)
    self.run = limits.with_models(function(...)
        return run(self, ...)
    end)
    return self
end

---Makes the command of a built-in strategy.
---@param name string one of ponder.strategy.names
---@return table command see ponder.cli.shared.main
function command.new(name)
    local library = strategy.named(name)
    return command.of(name, library, { summary = library.summary, about = library.about })
end

return command
