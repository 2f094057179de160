--- `--verbose`: shows every request and reply when it happens, redacted, with timing.
---
---     > 3 openai:gpt-6-luna POST https://api.openai.com/v1/chat/completions
---     > 3   {"messages":[...],"model":"gpt-6-luna"}
---     < 3 200 in 812 ms (queued 40 ms, first after 210 ms), 34 + 120 tokens
---     < 3   Hello
---     ! 3 attempt 1: 429 RATE_LIMITED after 95 ms: slow down; again in 500 ms

local options = require "ponder.base.options"
local quote = require "ponder.quote"

local verbose = {}

local MAX_MESSAGE_BYTES = 1000

local function milliseconds(ms) return ms and ("%.0f ms"):format(ms) or "? ms" end

local function tokens(usage)
    if not usage or not (usage.input_tokens or usage.output_tokens) then return "" end
    return (", %s + %s tokens"):format(usage.input_tokens or "?", usage.output_tokens or "?")
end

local function waits(event)
    local parts = {}
    if event.queue_ms and event.queue_ms >= 1 then
        parts[#parts + 1] = "queued " .. milliseconds(event.queue_ms)
    end
    if event.time_to_first_ms then
        parts[#parts + 1] = "first after " .. milliseconds(event.time_to_first_ms)
    end
    return #parts > 0 and " (" .. table.concat(parts, ", ") .. ")" or ""
end

local function indent(mark, id, text)
    return (quote.terminal(text):gsub("[^\n]+", ("%s %d   %%0"):format(mark, id)))
end

local show = {}

function show.request(event)
    local where = event.url and (" %s %s"):format(event.method, event.url) or ""
    local lines = { ("> %d %s%s"):format(event.id, event.model, where) }
    for _, header in ipairs(options.names(event.headers or {})) do
        lines[#lines + 1] = indent(">", event.id, header .. ": " .. event.headers[header])
    end
    if event.body then lines[#lines + 1] = indent(">", event.id, event.body) end
    return table.concat(lines, "\n")
end

function show.reply(event)
    local lines = { ("< %d %s in %s%s%s"):format(event.id, event.status or "answered",
        milliseconds(event.total_ms), waits(event), tokens(event.usage)) }
    for _, text in ipairs(event.texts) do lines[#lines + 1] = indent("<", event.id, text) end
    return table.concat(lines, "\n")
end

function show.failure(event)
    return ("! %d attempt %d: %s %s after %s: %s%s"):format(event.id, event.attempt,
        event.status or "-", event.code, milliseconds(event.total_ms),
        quote.line(event.message, MAX_MESSAGE_BYTES),
        event.retry_in_ms and "; again in " .. milliseconds(event.retry_in_ms) or "")
end

--- An observer for ponder.model.observe that writes to a file.
---@param out file* default standard error
---@return fun(event: table)
function verbose.observer(out)
    out = out or io.stderr
    return function(event)
        local text = show[event.type]
        if text then out:write(text(event), "\n") end
    end
end

--- Shows every request and reply of this process from now on.
---@param out? file* default standard error
---@return table shown to be closed, which ends it
function verbose.start(out)
    return setmetatable({}, { __close = require("ponder.model").observe(verbose.observer(out)) })
end

return verbose
