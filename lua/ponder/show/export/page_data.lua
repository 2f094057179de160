--- The data of a run's page, as one table for JSON (lua/ponder/show/page/data.js reads it).
---
---     run, sessions, totals       from the log, with the run's state
---     searches[i].nodes[k]        {id, up: the parent's id, score, status, text, best...}
---     searches[i].items           of ponder.optimize: the items; its nodes have `scores`, one an
---                                 item or false, and `diff`, from the parent's text
---     calls[i]                    times, tokens, cost, `prompt` and `reply`
---     texts[n]                    each distinct text of prompts and replies; calls give its
---                                 number, counted from 0, or -1 if it was omitted
---     cut                         bytes cut off the end of a text, by its number
---     notice                      what the page omits, and how to get it
---
--- A log may hold far more than a page can: by default long texts are truncated, and texts beyond a
--- total size and nodes and calls beyond a number are omitted.

local changed = require "ponder.show.changed"
local json = require "ponder.json"
local messages = require "ponder.show.messages"
local options = require "ponder.base.options"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"
local standalone = require "ponder.show.standalone"

local page_data = {}

local as_text = messages.as_text

local MAX_TEXT = 100000 -- bytes of one text
local MAX_TEXTS = 32 << 20 -- bytes of all texts together
local MAX_NODES, MAX_CALLS = 50000, 50000
local STEPS = 500 -- rows between two pauses

-- The columns of calls that the page shows, besides prompts and replies.
local CALL = { "id", "search", "node", "purpose", "provider", "model", "sample", "samples",
    "origin", "asked_at", "queued_at", "sent_at", "answered_at", "status", "code", "message",
    "latency_ms", "time_to_first_ms", "attempts", "input_tokens", "output_tokens",
    "cache_read_tokens", "reasoning_tokens", "cost" }

---@class ponder.show.PageTexts distinct texts by number
---@field private all boolean
local Texts = {}
Texts.__index = Texts

---The number of a text, counted from 0; -1: omitted for lack of space.
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

local function call_of(row, texts, failed)
    local call = options.pick(row, CALL)
    call.prompt = messages.prompt(row.request, function(text) return texts:add(text) end)
    local rest = type(row.request) == "table" and options.merge({}, row.request) or {}
    rest.messages, rest.system, rest.model = nil, nil, nil
    call.parameters = next(rest) ~= nil and json.encode(rest) or nil
    call.reply = json.array()
    for i, sample in ipairs(type(row.reply) == "table" and row.reply.samples or {}) do
        local reasoning = as_text(sample.reasoning)
        call.reply[i] = { text = texts:add(as_text(sample.text) or ""),
            finish = as_text(sample.finish_reason), tools = as_text(sample.tool_calls),
            reasoning = reasoning and texts:add(reasoning) }
    end
    call.failed, call.metadata = failed, as_text(row.metadata)
    return call
end

-- The first calls, and how many more there are.
local function calls_of(log, texts, pause)
    local calls, failed, lost = json.array(), log:attempts_by_call(), 0
    for row in log:contents() do
        if not texts.all and #calls >= MAX_CALLS then
            lost = lost + 1
        else
            calls[#calls + 1] = call_of(row, texts, failed[row.id])
        end
        pause()
    end
    return calls, lost
end

-- Adds what an optimization's candidates scored on its items, and how their texts differ.
local function add_candidates(log, search)
    local texts, candidates = {}, {}
    for event in log:events "optimize.begin" do
        search.items = event.data.develop
    end
    for event in log:events "optimize.candidate" do
        candidates[event.data.id] = event.data
    end
    for _, node in ipairs(search.nodes) do
        local candidate, before = candidates[node.id], texts[node.up]
        texts[node.id], node.scores = node.text, candidate and candidate.scores
        node.diff = before and changed.unified(before, node.text, "#" .. node.up, "#" .. node.id)
    end
end

-- The searches with the first nodes and those of the best path, and how many more there are.
local function searches_of(log, all, pause)
    local searches, count, lost = json.array(), 0, 0
    for row in log:searches() do
        local nodes, left_out = json.array(), 0
        for node in log:nodes(row.id) do
            if not all and count >= MAX_NODES and node.best ~= 1 then
                left_out = left_out + 1
            else
                local text = node.text or ""
                local kept = all and text or quote.head(text, MAX_TEXT)
                count, nodes[#nodes + 1] = count + 1, { id = node.id, up = node.parent,
                    depth = node.depth, score = number(node.score), status = node.status,
                    text = kept, more = #kept < #text and #text - #kept or nil,
                    terminal = node.terminal == 1 or nil, best = node.best == 1 or nil }
            end
            pause()
        end
        row.options, row.stats, row.score = as_text(row.options), as_text(row.stats),
            number(row.score)
        row.nodes, row.edges = nodes, reader.list(log:edges(row.id))
        row.left_out = left_out > 0 and left_out or nil
        if (row.options or ""):find('"name":"optimize ', 1, true) then
            add_candidates(log, row)
        end
        searches[#searches + 1], lost = row, lost + left_out
    end
    return searches, lost
end

-------------------------------------------------------------------------------
-- The run

-- The answer as text; the result of a strategy has it in `answer`.
local function answer_text(answer)
    if type(answer) == "table" and type(answer.answer) == "string" then
        return answer.answer
    end
    return as_text(answer)
end

local function read_run(log)
    local row = log:run()
    return options.merge(options.pick(row, { "id", "labels", "command", "script", "directory",
        "versions", "started_at", "ended_at", "error", "source", "saved_calls", "saved_cost" }),
        { name = row.name and tostring(row.name), question = log:question(),
            arguments = json.array(row.arguments or {}), status = log:state(),
            seed = tostring(row.seed), -- too large for JavaScript's numbers
            answer = answer_text(row.answer) })
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

---The data of a run. It has ended when its status is not "running".
---@param opts? {all: boolean?, without_calls: boolean?, pause: fun()?} all: omit nothing, however
---  large; pause: called every 500 rows, to let other tasks run
function page_data.read(log, opts)
    opts = opts or {}
    local steps = 0
    local function pause()
        steps = steps + 1
        if opts.pause and steps % STEPS == 0 then
            opts.pause()
        end
    end
    local texts = setmetatable({ all = opts.all, list = json.array(), number = {},
        cut = json.object(), bytes = 0, shortened = 0, left_out = 0 }, Texts)
    local searches, lost_nodes = searches_of(log, opts.all, pause)
    local calls, lost_calls = json.array(), 0
    if not opts.without_calls then
        calls, lost_calls = calls_of(log, texts, pause)
    end
    local totals = log:totals()
    totals.models = json.array(totals.models)
    return { searches = searches, calls = calls, run = read_run(log),
        sessions = reader.list(log:sessions()), totals = totals, texts = texts.list,
        cut = texts.cut, notice = notice(texts, lost_calls, lost_nodes) }
end

---Writes the page of a run: `ponder export FILE --format html`.
---@param out {write: fun(self, ...)} as of file.replace
---@param opts {full: boolean?} full: omit nothing
function page_data.write(log, out, opts)
    local data = page_data.read(log, { all = opts.full })
    data.path = ("%s#%d"):format(log.path, log.number)
    out:write(standalone.page("run", data))
end

return page_data
