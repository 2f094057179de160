--- The data of a run's page, as one table for JSON (lua/ponder/show/page/data.js reads it).
---
---     run, sessions, totals       from the log, with the run's state
---     searches[i].nodes[k]        {id, up: the parent's id, score, status, text, best...}
---     calls[i]                    times, tokens, cost, `prompt` and `reply`
---     texts[n]                    each distinct text of prompts and replies; calls give its
---                                 number, counted from 0, or -1 if it was omitted
---     cut                         bytes cut off the end of a text, by its number
---     notice                      what the page omits, and how to get it
---
--- A log may hold far more than a page can: by default long texts are truncated, and texts beyond a
--- total size and nodes and calls beyond a number are omitted.
---
--- While a run continues, each `update` returns the changes since the last one in the same form:
--- searches, nodes and calls replace those with the same id, texts are appended.

local json = require "ponder.json"
local messages = require "ponder.show.messages"
local quote = require "ponder.quote"

local page_data = {}

local as_text = messages.as_text

local MAX_TEXT = 100000 -- bytes of one text
local MAX_TEXTS = 32 << 20 -- bytes of all texts together
local MAX_NODES, MAX_CALLS = 50000, 50000
local STEPS = 500 -- rows between two pauses
local MAX_OPEN = 1000 -- calls without a reply that the next update reads again

-- The page's names for columns of calls.
local CALL = {
    id = "id", search = "search", node = "node", purpose = "purpose", provider = "provider",
    model = "model", sample = "sample", samples = "samples", origin = "origin",
    asked = "asked_at", queued = "queued_at", sent = "sent_at", answered = "answered_at",
    status = "status", code = "code",
    message = "message", latency = "latency_ms", first = "time_to_first_ms",
    attempts = "attempts", input = "input_tokens", output = "output_tokens",
    cache_read = "cache_read_tokens", reasoning = "reasoning_tokens", cost = "cost",
}

---@class ponder.show.PageTexts distinct texts by number
---@field private all boolean
local Texts = {}
Texts.__index = Texts

---The number of a text, counted from 0; -1: omitted for lack of space.
---@param text string
---@return integer
function Texts:add(text)
    local known = self.number[text]
    if known then
        return known
    end
    local kept = self.all and text or quote.head(text, MAX_TEXT)
    if not self.all and self.bytes + #kept > MAX_TEXTS then
        self.left_out = self.left_out + 1
        return -1
    end
    local number = #self.list
    self.list[number + 1], self.number[text] = kept, number
    self.bytes = self.bytes + #kept
    if #kept < #text then
        self.shortened = self.shortened + 1
        self.cut[tostring(number)] = #text - #kept
    end
    return number
end

-- JSON has no infinities; the page knows their names.
local function number(x)
    local infinite = x == math.huge and "Infinity" or x == -math.huge and "-Infinity"
    return infinite or x
end

-------------------------------------------------------------------------------
-- Requests and replies

local function prompt_of(request, texts)
    local prompt = json.array()
    local input, system = messages.input(request)
    if system then
        prompt[1] = { role = "system", text = texts:add(messages.text(system)) }
    end
    for _, message in ipairs(input or {}) do
        prompt[#prompt + 1] = { role = message.role,
            text = texts:add(messages.text(message.parts)) }
    end
    return prompt
end

-- The fields of a request besides its messages and model, as JSON.
local function parameters_of(request)
    local rest = {}
    for key, value in pairs(type(request) == "table" and request or {}) do
        if key ~= "messages" and key ~= "system" and key ~= "model" then
            rest[key] = value
        end
    end
    return next(rest) ~= nil and json.encode(rest) or nil
end

local function reply_samples(reply, texts)
    local samples = json.array()
    for i, sample in ipairs(type(reply) == "table" and reply.samples or {}) do
        local reasoning = as_text(sample.reasoning)
        samples[i] = { text = texts:add(as_text(sample.text) or ""),
            finish = as_text(sample.finish_reason), tools = as_text(sample.tool_calls),
            reasoning = reasoning and texts:add(reasoning) }
    end
    return samples
end

local function call_of(row, texts, failed)
    local call = {}
    for name, column in pairs(CALL) do
        call[name] = row[column]
    end
    call.prompt = prompt_of(row.request, texts)
    call.parameters = parameters_of(row.request)
    call.reply, call.failed = reply_samples(row.reply, texts), failed
    call.metadata = as_text(row.metadata)
    return call
end

---@class ponder.show.PageData what a page knows about a run
---@field private all boolean
---@field private texts ponder.show.PageTexts
---@field private open integer[] calls without a reply so far
---@field private searches table<integer, ponder.show.PageSearch>
local Data = {}
Data.__index = Data

-- New calls, and those that had no reply in the last update.
function Data:calls(log)
    local calls, failed, open = json.array(), log:attempts_by_call(), {}
    local function add(row)
        local call = call_of(row, self.texts, failed[row.id])
        calls[#calls + 1] = call
        if call.status ~= "ok" and #open < MAX_OPEN then
            open[#open + 1] = call.id
        end
        self.last_call = math.max(self.last_call, call.id)
        self.pause()
    end
    for _, id in ipairs(self.open) do
        add(log:call(id))
    end
    for row in log:contents(self.last_call) do
        if not self.all and self.count_calls >= MAX_CALLS then
            self.lost_calls = self.lost_calls + 1
            self.last_call = math.max(self.last_call, row.id)
        else
            self.count_calls = self.count_calls + 1
            add(row)
        end
    end
    self.open = open
    return calls
end

-------------------------------------------------------------------------------
-- Searches

---@class ponder.show.PageSearch
---@field seen table<any, string> the fingerprint of each node sent
---@field edges integer how many were sent
---@field ended boolean?

function Data:node(row)
    local text = row.text or ""
    local kept = self.all and text or quote.head(text, MAX_TEXT)
    return { id = row.id, up = row.parent, depth = row.depth, score = number(row.score),
        terminal = row.terminal == 1 or nil, status = row.status, text = kept,
        more = #kept < #text and #text - #kept or nil, best = row.best == 1 or nil }
end

-- New and changed nodes in order, up to a maximum, but always those of the best path.
function Data:nodes(log, id, search)
    local nodes = json.array()
    for row in log:nodes(id) do
        local before, now = search.seen[row.id], ("%s %s %s %s %d"):format(row.score, row.status,
            row.best, row.terminal, #(row.text or "")) -- what can change
        if not before and not self.all and self.count_nodes >= MAX_NODES and row.best ~= 1 then
            search.left_out = search.left_out + 1
            search.seen[row.id] = ""
        elseif before ~= now and before ~= "" then
            self.count_nodes = self.count_nodes + (before and 0 or 1)
            search.seen[row.id] = now
            nodes[#nodes + 1] = self:node(row)
        end
        self.pause()
    end
    return nodes
end

-- All edges, if there are more than before.
local function edges_of(log, id, search)
    local edges = json.array()
    for row in log:edges(id) do
        edges[#edges + 1] = { source = row.source, target = row.target, kind = row.kind }
    end
    local known = search.edges
    search.edges = #edges
    return #edges ~= known and edges or nil
end

-- The searches that had not ended before, with their changes.
function Data:changed_searches(log)
    local searches = json.array()
    for row in log:searches() do
        local search = self.searches[row.id] or { seen = {}, edges = 0, left_out = 0 }
        self.searches[row.id] = search
        if not search.ended then
            search.ended = row.ended_at ~= nil
            row.options, row.stats = as_text(row.options), as_text(row.stats)
            row.score = number(row.score)
            row.nodes, row.edges = self:nodes(log, row.id, search), edges_of(log, row.id, search)
            row.left_out = search.left_out > 0 and search.left_out or nil
            searches[#searches + 1] = row
        end
    end
    return searches
end

-------------------------------------------------------------------------------
-- The run

local function sums(row)
    return { model = row.model and row.provider .. ":" .. row.model, calls = row.calls,
        input = row.input_tokens, output = row.output_tokens, unmetered = row.unmetered,
        cost = row.cost, unpriced = row.unpriced, failed = row.errors, cached = row.reused }
end

local function read_totals(log)
    local row = log:totals()
    local totals = sums(row)
    totals.models = json.array()
    for i, model in ipairs(row.models) do
        totals.models[i] = sums(model)
    end
    return totals
end

local function read_sessions(log)
    local sessions = json.array()
    for row in log:sessions() do
        sessions[#sessions + 1] = { kind = row.kind, started_at = row.started_at,
            ended_at = row.ended_at }
    end
    return sessions
end

-- The answer as text; the result of a strategy has it in `answer`.
local function answer_text(answer)
    if type(answer) == "table" and type(answer.answer) == "string" then
        return answer.answer
    end
    return as_text(answer)
end

local function read_run(log)
    local row = log:run()
    return { id = row.id, name = row.name and tostring(row.name), labels = row.labels,
        question = log:question(), command = row.command,
        arguments = json.array(row.arguments or {}),
        script = row.script, directory = row.directory,
        seed = tostring(row.seed), versions = row.versions, -- too large for JavaScript's numbers
        started_at = row.started_at, ended_at = row.ended_at, status = log:state(),
        answer = answer_text(row.answer), error = row.error, source = row.source,
        saved_calls = row.saved_calls, saved_cost = row.saved_cost }
end

-- Says what the page omits; nil if it shows everything.
local function notice(texts, calls, nodes)
    local missing = {}
    local function miss(n, one, many)
        if n > 0 then
            missing[#missing + 1] = quote.count(n, one, many)
        end
    end
    miss(nodes, "node")
    miss(calls, "call")
    miss(texts.left_out, "text of calls", "texts of calls")
    miss(texts.shortened, "end of a long text", "ends of long texts")
    if #missing == 0 then
        return nil
    end
    return ("Omitted to keep this page small: %s. ponder export --format html --full includes "
        .. "everything."):format(table.concat(missing, ", "))
end

---The changes of a run since the last call; the first returns everything. The run has ended when
---its status is not "running".
---@param log ponder.log.Reader
---@param without_calls? boolean
---@return table
function Data:update(log, without_calls)
    local texts = self.texts
    local first = #texts.list
    local result = { searches = self:changed_searches(log),
        calls = without_calls and json.array() or self:calls(log),
        run = read_run(log), sessions = read_sessions(log), totals = read_totals(log) }
    result.texts = json.array(table.move(texts.list, first + 1, #texts.list, 1, {}))
    result.cut = json.object(texts.cut)
    local lost_nodes = 0
    for _, search in pairs(self.searches) do
        lost_nodes = lost_nodes + search.left_out
    end
    result.notice = notice(texts, self.lost_calls, lost_nodes)
    return result
end

---@param opts? {all: boolean?, pause: fun()?} all: omit nothing, however large; pause: called every
---  500 rows, to let other tasks run
---@return ponder.show.PageData
function page_data.new(opts)
    opts = opts or {}
    local steps = 0
    local texts = setmetatable({ all = opts.all, list = {}, number = {}, cut = {}, bytes = 0,
        shortened = 0, left_out = 0 }, Texts)
    return setmetatable({ all = opts.all or false, texts = texts, open = {},
        searches = {}, last_call = 0, count_calls = 0, lost_calls = 0, count_nodes = 0,
        pause = function()
            steps = steps + 1
            if opts.pause and steps % STEPS == 0 then
                opts.pause()
            end
        end }, Data)
end

return page_data
