--- Writes a run log like that of a run, row by row, for specs of code that reads logs:
---
---     sample_log.write(path)                  -- a finished run: 3 searches, 40 calls, a tool
---     sample_log.write(path, function(db)     -- the same, changed
---         db:execute "UPDATE runs SET status = NULL, ended_at = NULL"
---     end)
---     sample_log.fill(path, 100000)           -- one search with that many nodes and calls
---
--- It holds a beam search of 30 nodes, a tree and a graph of thoughts; calls that were answered,
--- failed, cancelled and never answered, from the server and from a cache, retried, with and
--- without a price; a tool that asked a model; events; and texts that are special for terminals,
--- HTML, dot and Mermaid. Everything in it is the same each time.

local json = require "ponder.json"
local merge = require("ponder.base.options").merge
local schema = require "ponder.run.log.schema"
local store = require "ponder.core.store"

local sample_log = {}

--- When the run began: 2025-10-09 08:53:20 UTC.
sample_log.STARTED_AT = 1760000000.0

--- A text with special characters of every output format.
sample_log.HOSTILE = 'red \27[31mtext\27[0m "quoted" <b>bold</b> </script> --> `#35;` [x]{y}|z|\n'
    .. "second line; \u{202E}turned\u{202C} 中文 \\n &amp; $$ end"

local SCRIPT = [[
local search = require "ponder.search"
return search.run { initial_state = "4 4 6 8", k = 3, search = "beam" }
]]

local PRICES = { -- USD for a million tokens in, out
    ["gpt-4o-mini"] = { 0.15, 0.60 }, ["claude-haiku-4-5"] = { 1.0, 5.0 }, ["qwen3:8b"] = { 0, 0 },
}

local PROVIDERS = { ["gpt-4o-mini"] = "openai", ["claude-haiku-4-5"] = "anthropic",
    ["qwen3:8b"] = "ollama", ["mystery-1"] = "openai" }

---@class spec.LogWriter
---@field db table
---@field at number when the next call is asked
---@field last integer calls.id of the last call
local Writer = {}
Writer.__index = Writer

local function must(ok, message)
    if not ok then
        error(message, 3)
    end
    return ok
end

---Inserts a row.
---@param where string a table
---@param row table<string, any> by column
function Writer:insert(where, row)
    local names = {}
    for name in pairs(row) do
        names[#names + 1] = name
    end
    table.sort(names)
    local marks, values = {}, {}
    for i, name in ipairs(names) do
        marks[i], values[i] = "?", row[name]
    end
    must(self.db:execute(("INSERT INTO %s (%s) VALUES (%s)"):format(where,
        table.concat(names, ", "), table.concat(marks, ", ")), table.unpack(values, 1, #names)))
end

local function request_of(model, question)
    local body = { model = model, temperature = 0.7, max_tokens = 400,
        messages = { { role = "user", content = question } } }
    if PROVIDERS[model] == "anthropic" then
        body.system = "You are terse."
    else
        table.insert(body.messages, 1, { role = "system", content = "You are terse." })
    end
    return json.encode(body)
end

local function reply_of(call)
    return json.encode { samples = { { text = call.text, finish_reason = call.finish or "stop",
        tool_calls = call.tool_calls } }, model = call.model .. "-2025", id = "reply-" .. call.id,
        attempts = call.attempts, latency_ms = call.latency_ms,
        usage = { input_tokens = call.input, output_tokens = call.output,
            total_tokens = call.input + call.output },
        raw = { id = "reply-" .. call.id, choices = { { message = { content = call.text } } } } }
end

-- The columns of an answer: those of a reply, or of an error.
local function answer(row, call)
    row.answered_at, row.status = row.asked_at + call.latency_ms / 1000, call.status
    row.attempts = call.attempts
    if call.status == "error" then
        row.code, row.message = call.code, call.message
    elseif call.status == "ok" then
        local price = PRICES[call.model]
        row.reply, row.latency_ms = reply_of(call), call.latency_ms
        row.time_to_first_ms = call.latency_ms / 4
        row.input_tokens, row.output_tokens = call.input, call.output
        row.total_tokens = call.input + call.output
        row.cost = price and (call.input * price[1] + call.output * price[2]) / 1e6
    end
end

---A call, 40 milliseconds after the last one was asked.
---@param call {model: string?, question: string?, text: string?, search: integer?, node: any,
---purpose: string?, status: string|false|nil, origin: string?, within: integer?}
---@return integer id
function Writer:call(call)
    self.last = self.last + 1
    local id = self.last
    self.at = self.at + 0.04
    call.id, call.model = id, call.model or "gpt-4o-mini"
    call.question = call.question or ("Question %d?"):format(id)
    call.text = call.text or ("Answer %d"):format(id)
    call.latency_ms, call.attempts = call.latency_ms or 300 + 37 * (id % 9), call.attempts or 1
    call.input, call.output = call.input or 90 + id, call.output or 20 + id % 7
    if call.status == nil then
        call.status = "ok"
    end
    local request = request_of(call.model, call.question)
    local row = { id = id, session = 1, occurrence = 1, provider = PROVIDERS[call.model],
        model = call.model, sample = 1, samples = 1, request = request,
        identity = store.sha256(("%s\n1\n%s"):format(PROVIDERS[call.model], request)),
        search = call.search, node = call.node, purpose = call.purpose, within = call.within,
        origin = call.origin or "live", asked_at = self.at }
    if call.status then
        answer(row, call)
    end
    self:insert("calls", row)
    return id
end

function Writer:node(search, id, parent, depth, score, text, extra)
    self:insert("nodes", merge({ search = search, id = id, parent = parent, depth = depth,
        score = score, text = text, terminal = 0 }, extra))
end

function Writer:event(search, name, data)
    self.events = (self.events or 0) + 1
    self:insert("events", { id = self.events, at = self.at,
        search = search, name = name, data = json.encode(data) })
end

-------------------------------------------------------------------------------
-- The parts of the run

local function write_run(w)
    local start = sample_log.STARTED_AT
    w:insert("runs", { id = 1, uid = "00c0ffee00c0ffee", command = "run",
        arguments = json.encode { "policy.lua", "4 4 6 8" }, script = "policy.lua",
        directory = "/home/ada/puzzles", seed = 42,
        options = json.encode { PONDER_MODEL = "openai:gpt-4o-mini" },
        versions = json.encode { ponder = "0.1.0", lua = "5.4.4", curl = "7.88.1",
            sqlite = "3.40.1" },
        started_at = start, ended_at = start + 12.5, status = "completed", exit_status = 0,
        answer = json.encode { answer = "(6 - 4) * (8 + 4) = 24", score = 1.0 } })
    w:insert("sessions", { id = 1, kind = "run", pid = 4242, host = "ada", started_at = start,
        ended_at = start + 12.5 })
    for path, file in pairs { ["policy.lua"] = { "script", SCRIPT },
        ["prompts/tot.lua"] = { "prompts", "return { generate = function() end }\n" } } do
        w:insert("files", { path = path, absolute = "/home/ada/puzzles/" .. path, kind = file[1],
            hash = store.sha256(file[2]), text = file[2] })
    end
end

local BEAM_WIDTH, BEAM_NODES = 3, 30

-- Three children for each of up to three nodes of a level; an expanding and a scoring call each.
local function write_beam(w)
    w:insert("searches", { id = 1, kind = "beam", question = "4 4 6 8", model = "gpt-4o-mini",
        options = json.encode { k = 3, beam_width = BEAM_WIDTH, max_depth = 4 },
        started_at = w.at, ended_at = w.at + 2.9, status = "completed", reason = "stop",
        best = 29, score = 1.0, answer = "(6 - 4) * (8 + 4) = 24",
        stats = json.encode { created = BEAM_NODES, expanded = 10 } })
    local path = { [1] = true, [2] = true, [7] = true, [17] = true, [29] = true }
    w:node(1, 1, nil, 0, 0.1, "4 4 6 8", { best = 1, status = "expanded" })
    local level, next_id, depth = { 1 }, 2, 1
    while next_id <= BEAM_NODES do
        local below = {}
        for _, parent in ipairs(level) do
            w:call { search = 1, node = parent, purpose = "expand",
                question = ("Expand node %d"):format(parent) }
            w:call { search = 1, node = parent, purpose = "evaluate", model = "claude-haiku-4-5",
                question = ("Score the children of node %d"):format(parent) }
            w:event(1, "expanded", { node_id = parent, created = 3 })
            for _ = 1, math.min(3, BEAM_NODES + 1 - next_id) do
                local text = next_id == 5 and sample_log.HOSTILE
                    or ("step %d of %d (left: %d %d)"):format(next_id, parent, next_id, depth)
                w:node(1, next_id, parent, depth, next_id == 29 and 1.0 or (next_id * 7 % 30) / 30,
                    text, { best = path[next_id] and 1 or nil,
                        terminal = next_id == 29 and 1 or 0,
                        status = next_id % 4 == 0 and "pruned" or "open" })
                below[#below + 1] = next_id
                next_id = next_id + 1
            end
        end
        local from = #below > BEAM_WIDTH and 2 or 1
        level, depth = table.move(below, from, from + BEAM_WIDTH - 1, 1, {}), depth + 1
    end
    w:event(1, "done", { reason = "stop", best = 29 })
end

local function write_tot(w)
    w:insert("searches", { id = 2, kind = "tot", question = "Use 4 4 6 8 to make 24",
        model = "openai:gpt-4o-mini", options = json.encode { branching_factor = 3 },
        started_at = w.at, ended_at = w.at + 2, status = "completed", reason = "threshold",
        best = "n6", score = 1.0, answer = "6 - 4 = 2, 8 + 4 = 12, 2 * 12 = 24" })
    w:event(2, "tot.start", { measurements = {}, metadata = { max_depth = 3 } })
    local thoughts = { { "n1", nil, 0, nil, "Use 4 4 6 8 to make 24", 1 },
        { "n2", "n1", 1, 0.4, "8 / 4 = 2 (left: 2 4 6)" },
        { "n3", "n1", 1, 0.8, "6 - 4 = 2 (left: 2 4 8)", 1 },
        { "n4", "n1", 1, 0.2, "4 + 8 = 12 (left: 4 6 12)" },
        { "n5", "n3", 2, 0.3, "8 - 4 = 4 (left: 2 4)" },
        { "n6", "n3", 2, 1.0, "8 + 4 = 12 (left: 2 12)", 1 } }
    for _, t in ipairs(thoughts) do
        w:node(2, t[1], t[2], t[3], t[4], t[5], { best = t[6] })
    end
    for _, id in ipairs { "n1", "n3" } do
        w:call { search = 2, node = id, purpose = "generate" }
        w:call { search = 2, node = id, purpose = "evaluate" }
        w:event(2, "tot.step", { measurements = { node_count = 4 }, metadata = { node_id = id } })
    end
    w:event(2, "tot.complete", { measurements = { best_score = 1.0 }, metadata = {} })
end

local function write_got(w)
    w:insert("searches", { id = 3, kind = "got", question = "How do cities reduce heat?",
        model = "ollama:qwen3:8b", options = json.encode { branching_factor = 3 },
        started_at = w.at, ended_at = w.at + 3, status = "completed", reason = "success",
        best = "n6", score = 0.9, answer = "Trees, light roofs and water together" })
    local thoughts = { { "n1", nil, 0, nil, "How do cities reduce heat?", 1 },
        { "n2", "n1", 1, 0.7, "Plant trees", 1 }, { "n3", "n1", 1, 0.6, "Paint roofs white" },
        { "n4", "n1", 1, 0.5, "Open up streams" },
        { "n5", "n2", 2, 0.8, "Trees along streams, light roofs", 1 },
        { "n6", "n5", 3, 0.9, "Trees, light roofs and water together", 1 } }
    for _, t in ipairs(thoughts) do
        w:node(3, t[1], t[2], t[3], t[4], t[5], { best = t[6] })
    end
    for _, edge in ipairs { { "n3", "n5", "aggregates" }, { "n4", "n5", "aggregates" },
        { "n2", "n4", "connects", 0.5 } } do
        w:insert("edges", { search = 3, source = edge[1], target = edge[2], kind = edge[3],
            score = edge[4] })
    end
    for _, purpose in ipairs { "generate", "generate", "generate", "score", "connect", "aggregate",
        "refine", "score" } do
        w:call { search = 3, node = "n1", purpose = purpose, model = "qwen3:8b" }
    end
    w:event(3, "got.complete", { measurements = { best_score = 0.9 }, metadata = {} })
end

-- Calls outside a search, with every outcome.
local function write_others(w)
    w:call { question = "Look it up", text = "", finish = "tool_calls",
        tool_calls = { { id = "t1", name = "lookup", arguments = { word = "heat" } } } }
    w:insert("effects", { id = 1, session = 1, kind = "tool", name = "lookup", key =
        json.encode { word = "heat" }, occurrence = 1, asked_at = w.at + 0.5,
        answered_at = w.at + 1.1, status = "ok", value = json.encode { "high temperature" } })
    w:call { question = "What is heat?", within = 1, model = "mystery-1" }
    w:insert("effects", { id = 2, session = 1, kind = "tool", name = "lookup", key =
        json.encode { word = "nothing" }, occurrence = 1, asked_at = w.at, answered_at = w.at + 0.1,
        status = "error", message = "no such word: nothing" })
    local id = w:call { question = "Again?", attempts = 3, latency_ms = 2100 }
    for attempt = 1, 2 do
        w:insert("attempts", { call = id, attempt = attempt, at = w.at + attempt / 2, status = 429,
            code = "RATE_LIMITED", message = "slow down", queue_ms = 1, total_ms = 20,
            retry_in_ms = 500 })
    end
    id = w:call { question = "Too much?", status = "error", attempts = 1, code = "RATE_LIMITED",
        message = "openai:gpt-4o-mini: quota \27[31mexceeded (status 429, 1 attempt)" }
    w:insert("attempts", { call = id, attempt = 1, at = w.at, status = 429, code = "RATE_LIMITED",
        message = "quota exceeded", queue_ms = 0, total_ms = 15 })
    w:call { question = "Never mind", status = "cancelled" }
    w:call { question = "Are you there?", status = false }
    w:call { question = "Expand node 1", origin = "cache", latency_ms = 0 }
    w:call { question = sample_log.HOSTILE, text = sample_log.HOSTILE }
end

local function write(path, fill)
    local db = must(store.open(path, { mode = "create", application_id = schema.APPLICATION_ID,
        version = schema.VERSION }))
    must(db:script(schema.SQL))
    must(db:begin())
    local w = setmetatable({ db = db, at = sample_log.STARTED_AT, last = 0 }, Writer)
    write_run(w)
    fill(w)
    must(db:commit())
    db:close()
    return path
end

---Writes the log; the file must not exist.
---@param path string
---@param change? fun(db: table, w: spec.LogWriter) changes the log
---@return string path
function sample_log.write(path, change)
    return write(path, function(w)
        write_beam(w)
        write_tot(w)
        write_got(w)
        write_others(w)
        if change then
            change(w.db, w)
        end
    end)
end

---Writes a log with one best-first search of many nodes, three below each, and a call for each.
---@param path string
---@param count integer
function sample_log.fill(path, count)
    write(path, function(w)
        w:insert("searches", { id = 1, kind = "best_first", question = "many", started_at = w.at,
            ended_at = w.at + count / 25, status = "completed", reason = "max_nodes", best = count,
            score = 1.0 })
        local path_of = {}
        local id = count
        while id > 0 do
            path_of[id] = true
            id = (id + 1) // 3
        end
        local depth = { [0] = -1 }
        for i = 1, count do
            local parent = (i + 1) // 3
            depth[i] = depth[parent] + 1
            w:node(1, i, parent > 0 and parent or nil, depth[i], i % 100 / 100, "thought " .. i,
                { best = path_of[i] and 1 or nil })
            w:call { search = 1, node = i, purpose = "evaluate" }
        end
    end)
end

return sample_log
