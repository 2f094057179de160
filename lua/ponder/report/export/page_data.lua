--- What the page of a run shows, as one table for JSON (lua/ponder/report/page/state.js reads it).
---
---     run, sessions, totals       as the log has them, with the run's state
---     searches[i].nodes[k]        {id, up: the parent's id, score, status, text, best...}
---     calls[i]                    times, tokens, cost, `prompt` and `reply`
---     texts[n]                    every text of prompts and replies once; calls give its number,
---                                 counted from 0, or -1 where it was left out
---     cut                         bytes left out at the end of a text, by its number
---     notice                      what was left out of the page, and how to have it
---
--- A log may hold far more than a page can: unless asked for everything, long texts lose their end,
--- texts beyond a size in all are left out, and so are nodes and calls beyond a number.

local json = require "ponder.json"
local messages = require "ponder.report.messages"

local page_data = {}

local MOST_TEXT = 100000 -- bytes of one text
local MOST_TEXTS = 32 << 20 -- bytes of all texts together
local MOST_NODES, MOST_CALLS = 50000, 50000

-- Columns of calls by their names in the page.
local CALL = {
    id = "id", search = "search", node = "node", purpose = "purpose", provider = "provider",
    model = "model", sample = "sample", samples = "samples", origin = "origin",
    asked = "asked_at", answered = "answered_at", status = "status", code = "code",
    message = "message", latency = "latency_ms", first = "time_to_first_ms",
    attempts = "attempts", input = "input_tokens", output = "output_tokens",
    cache_read = "cache_read_tokens", reasoning = "reasoning_tokens", cost = "cost",
}

---@class ponder.report.PageTexts texts by number
---@field private all boolean
local Texts = {}
Texts.__index = Texts

local function new_texts(all)
    return setmetatable({ all = all, list = {}, number = {}, cut = {}, bytes = 0, shortened = 0,
        left_out = 0 }, Texts)
end

-- The beginning of a text that does not end amid a character.
local function beginning(text, bytes)
    while bytes > 0 and (text:byte(bytes + 1) or 0) & 0xC0 == 0x80 do
        bytes = bytes - 1
    end
    return text:sub(1, bytes)
end

---The number of a text, counted from 0; -1: there was no room for it.
---@param text string
---@return integer
function Texts:add(text)
    local known = self.number[text]
    if known then
        return known
    end
    local kept = not self.all and #text > MOST_TEXT and beginning(text, MOST_TEXT) or text
    if not self.all and self.bytes + #kept > MOST_TEXTS then
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

-- Text as it is, anything else as JSON; nil for null, and for what cannot be JSON.
local function as_text(value)
    if value == nil or value == json.null or type(value) == "string" then
        return value ~= json.null and value or nil
    end
    local ok, text = pcall(json.encode, value)
    return ok and text or nil
end

-- JSON has no infinities: their names, which the page knows.
local function number(x)
    local infinite = x == math.huge and "Infinity" or x == -math.huge and "-Infinity"
    return infinite or x
end

-------------------------------------------------------------------------------
-- Requests and replies

-- The parts of a message as one text; what a tool was asked is its name and JSON.
local function parts_text(parts)
    local lines = {}
    for i, part in ipairs(parts) do
        if part.type == "text" or part.type == "reasoning" then
            lines[i] = part.content
        elseif part.type == "tool_call" then
            lines[i] = ("%s %s"):format(part.name, as_text(part.arguments) or "")
        elseif part.type == "tool_call_response" then
            lines[i] = as_text(part.response) or ""
        else
            lines[i] = json.encode(part)
        end
    end
    return table.concat(lines, "\n")
end

local function prompt_of(request, texts)
    local prompt = json.array()
    local input, system = messages.input(request)
    if system then
        prompt[1] = { role = "system", text = texts:add(parts_text(system)) }
    end
    for _, message in ipairs(input or {}) do
        prompt[#prompt + 1] = { role = message.role, text = texts:add(parts_text(message.parts)) }
    end
    return prompt
end

-- What a request says besides its messages, as JSON.
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

local function failures(log)
    local by_call = {}
    for row in log:attempts() do
        local list = by_call[row.call] or {}
        by_call[row.call] = list
        list[#list + 1] = { attempt = row.attempt, at = row.at, status = row.status,
            code = row.code, message = row.message, retry_in = row.retry_in_ms }
    end
    return by_call
end

local function read_calls(log, texts, all)
    local calls, failed, left_out = json.array(), failures(log), 0
    for row in log:contents() do
        if not all and #calls >= MOST_CALLS then
            left_out = left_out + 1
        else
            local call = {}
            for name, column in pairs(CALL) do
                call[name] = row[column]
            end
            call.prompt = prompt_of(row.request, texts)
            call.parameters = parameters_of(row.request)
            call.reply, call.failed = reply_samples(row.reply, texts), failed[row.id]
            call.metadata = as_text(row.metadata)
            calls[#calls + 1] = call
        end
    end
    return calls, left_out
end

-------------------------------------------------------------------------------
-- Searches

-- The nodes in order, as many as there is room for, and always those of the best path.
local function read_nodes(log, search, room)
    local nodes, left_out = json.array(), 0
    for row in log:nodes(search) do
        local best = row.best == 1
        if #nodes >= room and not best then
            left_out = left_out + 1
        else
            local text = row.text or ""
            local kept = #text > MOST_TEXT and room < math.huge and beginning(text, MOST_TEXT)
                or text
            nodes[#nodes + 1] = { id = row.id, up = row.parent, depth = row.depth,
                score = number(row.score), terminal = row.terminal == 1 or nil, status = row.status,
                text = kept, more = #kept < #text and #text - #kept or nil, best = best or nil }
        end
    end
    return nodes, left_out
end

local function read_edges(log, search)
    local edges = json.array()
    for row in log:edges(search) do
        edges[#edges + 1] = { source = row.source, target = row.target, kind = row.kind }
    end
    return edges
end

local function read_searches(log, all)
    local searches, room, lost = json.array(), all and math.huge or MOST_NODES, 0
    for row in log:searches() do
        local nodes, left_out = read_nodes(log, row.id, room)
        room, lost = math.max(0, room - #nodes), lost + left_out
        row.options, row.stats = as_text(row.options), as_text(row.stats)
        row.score = number(row.score)
        row.nodes, row.edges = nodes, read_edges(log, row.id)
        row.left_out = left_out > 0 and left_out or nil
        searches[#searches + 1] = row
    end
    return searches, lost
end

-------------------------------------------------------------------------------
-- The run

local function sums(row)
    return { model = row.model and row.provider .. ":" .. row.model, calls = row.calls,
        input = row.input_tokens or 0, output = row.output_tokens or 0, cost = row.cost,
        unpriced = row.unpriced, failed = row.errors, cached = row.reused }
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

-- The answer in words: what --json prints has it under a name.
local function answer_text(answer)
    if type(answer) == "table" and type(answer.answer) == "string" then
        return answer.answer
    end
    return as_text(answer)
end

local function read_run(log)
    local row = log:run()
    return { id = row.id, command = row.command, arguments = json.array(row.arguments or {}),
        script = row.script, directory = row.directory,
        seed = tostring(row.seed), versions = row.versions, -- JavaScript has no such integers
        started_at = row.started_at, ended_at = row.ended_at, status = log:state(),
        answer = answer_text(row.answer), error = row.error, source = row.source,
        saved_calls = row.saved_calls, saved_cost = row.saved_cost }
end

-- What the reader of a page must know that it does not show: nil if it shows everything.
local function notice(texts, calls, nodes)
    local missing = {}
    local function miss(n, one, many)
        if n > 0 then
            missing[#missing + 1] = ("%d %s"):format(n, n == 1 and one or many)
        end
    end
    miss(nodes, "node", "nodes")
    miss(calls, "call", "calls")
    miss(texts.left_out, "text of calls", "texts of calls")
    miss(texts.shortened, "end of a long text", "ends of long texts")
    if #missing == 0 then
        return nil
    end
    return ("Left out to keep this page small: %s. ponder export --format html --full puts "
        .. "everything in."):format(table.concat(missing, ", "))
end

---Everything that the page shows.
---@param log ponder.log.Reader
---@param all? boolean leave nothing out, however large
---@return table
function page_data.read(log, all)
    local texts = new_texts(all)
    local searches, lost_nodes = read_searches(log, all)
    local calls, lost_calls = read_calls(log, texts, all)
    return { run = read_run(log), sessions = read_sessions(log), totals = read_totals(log),
        searches = searches, calls = calls, texts = json.array(texts.list),
        cut = json.object(texts.cut), notice = notice(texts, lost_calls, lost_nodes) }
end

return page_data
