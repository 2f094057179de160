--- The model calls of a run: one line each, or one call with its whole request and reply.

local options = require "ponder.base.options"
local amount = require "ponder.show.amount"
local grid = require "ponder.show.grid"
local json = require "ponder.json"
local messages = require "ponder.show.messages"
local quote = require "ponder.quote"
local text = require "ponder.show.text"

local calls = {}

local COLORS = { error = "red", cancelled = "yellow" }

local function status_of(call)
    if call.status == "error" then
        return call.code or "error"
    elseif (call.attempts or 1) > 1 then
        return ("%s, %d tries"):format(call.status or "no answer", call.attempts)
    end
    return call.status or "no answer"
end

---What a call was for: "expand 7", "generate n3", "tool 2".
function calls.purpose(call)
    local words = { call.purpose }
    if call.node ~= nil then
        words[#words + 1] = tostring(call.node)
    end
    if call.within then
        words[#words + 1] = ("in tool %d"):format(call.within)
    end
    return table.concat(words, " ")
end

-- The time of a call, including failed attempts.
local function seconds(call)
    local s = call.answered_at and call.answered_at - call.asked_at
    if call.latency_ms and (call.attempts or 1) <= 1 then
        s = call.latency_ms / 1000
    end
    return s and ("%.2f"):format(s) or "-"
end

-- An amount of a call; "-" if there is none, since the call failed and is not billed.
local function shown(log, call, value, format)
    return not value and not log:is_billed(call.id) and "-" or format(value)
end

-- Writes a line for each row that `each(run, put)` puts, for a run and those within it; returns how
-- many. Columns have fixed widths, since a log may hold more than fits in memory; the first, the
-- run's name, is left out if no other run is within.
local function write_rows(log, style, write, columns, each)
    local count, first = 0, log:inner_totals() > 0 and 1 or 2
    local g = grid.new({ table.unpack(columns, first) }, {}, style)
    for run in log:with_inner() do
        local name = text.line(("#%d %s"):format(run.number, run:run().name or ""))
        each(run, function(...)
            if count == 0 then
                write(g:head())
            end
            count = count + 1
            write(g:line { table.unpack({ name, ... }, first) })
        end)
    end
    return count
end

---Writes a line for each call of a run and of those within it.
---@param write fun(line: string)
---@return integer count
function calls.list(log, style, write)
    local start, _, inner = log:run().started_at, log:inner_totals()
    local narrow = style.is_terminal and style:size() < 60
    return write_rows(log, style, write, { { "RUN", width = 16, least = 8 }, { "#", right = true,
        width = #("%d"):format(log:totals().calls + inner.calls) },
        { "ASKED", right = true, width = 8, drop = 3 }, { "TOOK", right = true, width = 6 },
        { "STATUS", width = 12, least = narrow and 9 or nil },
        { "IN", right = true, width = 5, drop = 5 }, { "OUT", right = true, width = 5, drop = 4 },
        { "COST", right = true, width = 9, drop = 2 }, { "ORIGIN", width = 6, drop = 6 },
        { "FOR", width = 14, least = narrow and 8 or 14 },
        { "MODEL", width = 26, least = 16, drop = 1 } }, function(run, put)
            for call in run:calls() do
                put(("%d"):format(call.id), amount.after(call.asked_at, start), seconds(call),
                    { text.line(status_of(call)), COLORS[call.status] },
                    shown(run, call, call.input_tokens, amount.count),
                    shown(run, call, call.output_tokens, amount.count),
                    shown(run, call, call.cost, amount.money), call.origin or "-",
                    text.line(calls.purpose(call)),
                    text.line(call.provider .. ":" .. call.model))
            end
        end)
end

---Writes a line for each call of a tool of a run and of those within it.
---@param write fun(line: string)
---@return integer count
function calls.list_tools(log, style, write)
    local start = log:run().started_at
    return write_rows(log, style, write, { { "RUN", width = 16, least = 8 },
        { "#", right = true, width = 4 }, { "ASKED", right = true, width = 8, drop = 3 },
        { "TOOK", right = true, width = 6, drop = 2 }, { "STATUS", width = 9 },
        { "TOOL", width = 16, least = 8 }, { "ARGUMENTS", width = 30, least = 10 },
        { "RESULT", width = 30, least = 10, drop = 1 } }, function(run, put)
            for effect in run:effects() do
                local value = type(effect.value) == "table" and effect.value[1]
                if effect.kind == "tool" then
                    put(("%d"):format(effect.id), amount.after(effect.asked_at, start),
                        seconds(effect), { effect.status or "no answer", COLORS[effect.status] },
                        text.line(tostring(effect.name)), text.line(json.encode(effect.key)),
                        text.line(effect.message and tostring(effect.message)
                            or type(value) == "string" and value or json.encode(value)))
                end
            end
        end)
end

-------------------------------------------------------------------------------
-- One call

local function facts_of(log, call, start)
    local facts = { ("%s:%s"):format(call.provider, call.model), status_of(call) }
    if call.answered_at then
        facts[#facts + 1] = seconds(call) .. " s"
    end
    if call.time_to_first_ms then
        facts[#facts + 1] = ("first after %.2f s"):format(call.time_to_first_ms / 1000)
    end
    facts[#facts + 1] = "asked at " .. amount.after(call.asked_at, start) .. " s"
    local cost = shown(log, call, call.cost, amount.money)
    if cost ~= "-" then
        facts[#facts + 1] = ("%s in, %s out"):format(call.input_tokens
            and quote.count(call.input_tokens, "token") or "? tokens", call.output_tokens or "?")
        facts[#facts + 1] = cost == "?" and "cost ?" or cost
    end
    facts[#facts + 1] = call.origin and call.origin ~= "live" and "from " .. call.origin or nil
    facts[#facts + 1] = (call.occurrence or 1) > 1
        and ("identical request no. %d"):format(call.occurrence) or nil
    return facts
end

local function add_request(add, request)
    add("")
    add("REQUEST", "dim")
    if type(request) ~= "table" then
        add(request == nil and "damaged" or json.encode(request))
        return
    end
    for _, name in ipairs(options.names(request, function(name)
        return name ~= "messages" and name ~= "system"
    end)) do
        local value = request[name]
        add(("%s: %s"):format(name, type(value) == "string" and value or json.encode(value)))
    end
    for _, message in ipairs(messages.prompt(request, tostring)) do
        add("[" .. text.line(message.role) .. "]", "bold")
        if message.text ~= "" then
            add(message.text)
        end
    end
end

local function add_sample(add, sample, i, count)
    if count > 1 then
        add(("[sample %d]"):format(i), "bold")
    end
    for _, part in ipairs { "reasoning", "refusal" } do
        if sample[part] then
            add("[" .. part .. "]", "bold")
            add(tostring(sample[part]))
        end
    end
    if sample.reasoning or sample.refusal then
        add("[text]", "bold")
    end
    add(tostring(sample.text or ""))
    if sample.tool_calls then
        add("tool calls: " .. json.encode(sample.tool_calls))
    end
    if sample.finish_reason and sample.finish_reason ~= "stop" then
        add("ended: " .. tostring(sample.finish_reason), "dim")
    end
end

local function add_reply(add, call)
    local reply = call.reply
    add("")
    if type(reply) ~= "table" then
        add("NO REPLY", "dim")
        if call.message then
            add(call.message, "red")
        end
        return
    end
    local about = {}
    for _, name in ipairs { "model", "id" } do
        about[#about + 1] = type(reply[name]) == "string" and reply[name] or nil
    end
    add("REPLY  " .. table.concat(about, ", "), "dim")
    local samples = type(reply.samples) == "table" and reply.samples or {}
    for i, sample in ipairs(samples) do
        add_sample(add, sample, i, #samples)
    end
    if call.message then
        add(call.message, "red")
    end
end

---The lines of one call with its whole request and reply.
---@param call table from log:call
function calls.lines(log, call, style)
    local lines = {}
    local function add(s, color)
        for line in (text.safe(s) .. "\n"):gmatch("(.-)\n") do
            lines[#lines + 1] = style:paint(line, color)
        end
    end
    local facts = facts_of(log, call, log:run().started_at)
    for i, fact in ipairs(facts) do
        facts[i] = text.line(fact)
    end
    facts[1] = ("call %d: %s"):format(call.id, facts[1])
    for _, line in ipairs(text.flow(facts, style:width(), "  ", style:mark())) do
        add(line)
    end
    local purpose = calls.purpose(call)
    if purpose ~= "" or call.search then
        add("  for " .. text.line(purpose .. (purpose ~= "" and call.search and ", " or "")
            .. (call.search and ("search %d"):format(call.search) or "")))
    end
    for _, failed in ipairs(call.failures) do
        add(("  attempt %d failed: %s %s%s"):format(failed.attempt, failed.code or "?",
            text.line(failed.message or ""), failed.retry_in_ms
            and (", retried after %.1f s"):format(failed.retry_in_ms / 1000) or ""), "yellow")
    end
    add_request(add, call.request)
    add_reply(add, call)
    return lines
end

return calls
