--- The machine of the strategy cot: a single call. It has the interface of the reasoning machines
--- (ponder.machine), so that the baseline runs by the same rules as the strategies it is compared
--- with, but no C core.
---
--- | from      | to        | on                                            |
--- |-----------|-----------|-----------------------------------------------|
--- | idle      | answering | start                                         |
--- | answering | completed | llm_result                                    |
--- | answering | error     | llm_result that failed or holds nothing       |

local answers = require "ponder.parse.answer"
local options = require "ponder.options"
local prompt_run = require "ponder.machine.run"
local quote = require "ponder.quote"
local tally = require "ponder.tally"
local core = require "ponder.core.machine"

local single_call = {
    ---The rules of its options.
    option_rules = { max_text_bytes = prompt_run.MAX_TEXT_BYTES },
    ---Its prompts: name -> the option that overrides only that one.
    prompt_names = { generate = "generation_prompt" },
    ---A call id, unique in this process.
    generate_call_id = function()
        return core.unique_id("call_")
    end,
}

local CLASS = { name = "cot", prompts = single_call.prompt_names }

---@class ponder.strategy.SingleCall
---@field status "idle"|"answering"|"completed"|"error"
---@field prompt string?
---@field reply string? all that the model wrote
---@field result string? the answer in it
---@field current_call_id string?
---@field usage table<string, number>
---@field streaming_text string
---@field termination_reason "success"|"error"|nil
---@field error string?
---@field started_at number? ms
local SingleCall = {}
SingleCall.__index = SingleCall

local FIELDS = { "status", "prompt", "reply", "result", "current_call_id", "usage",
    "streaming_text", "termination_reason", "error", "started_at", "duration_ms" }

local function finish(self, now, status, reason)
    self.status, self.termination_reason, self.current_call_id = status, reason, nil
    self.streaming_text = ""
    self.duration_ms = now - (self.started_at or now)
end

local function fail(self, now, call_id, problem)
    self.error = quote.line(tostring(problem or "unknown error"))
    finish(self, now, "error", "error")
    return {}, { { name = "cot.error", measurements = {}, metadata = { call_id = call_id,
        error = self.error, usage = self.usage } } }
end

local function start(self, msg, env, now)
    if self.status ~= "idle" then
        local busy = self.status == "answering"
        return { { type = "request_error", call_id = msg.call_id,
            reason = busy and "busy" or "finished",
            message = ("Agent is %s (status: %s)"):format(busy and "busy" or "finished",
                self.status) } }, {}
    elseif type(msg.prompt) ~= "string" then
        error("cot.update: msg.prompt must be a string (got " .. options.show(msg.prompt) .. ")", 3)
    end
    self.status, self.prompt, self.started_at = "answering", quote.utf8(msg.prompt), now
    self.current_call_id = msg.call_id
    local rendering = prompt_run.new(CLASS, { max_text_bytes = self.max_text_bytes })
    local turn = { env = env, events = {} }
    local context = rendering:render(turn, "generate", { prompt = self.prompt })
    table.insert(turn.events, { name = "cot.start", measurements = {},
        metadata = { call_id = msg.call_id, prompt_length = #self.prompt } })
    return { { type = "answer", call_id = msg.call_id, context = context } }, turn.events
end

local function handle_reply(self, msg, now)
    local text = msg.text
    if text == nil or text == "" then
        text = self.streaming_text
    end
    tally.add(self.usage, msg.usage)
    if msg.ok == false then
        return fail(self, now, msg.call_id, msg.reason)
    elseif not text:find("%S") then
        return fail(self, now, msg.call_id, "the reply is empty")
    end
    self.reply = quote.utf8(text)
    self.result = answers.read(self.reply)
    finish(self, now, "completed", "success")
    return {}, { { name = "cot.complete", measurements = { duration_ms = self.duration_ms },
        metadata = { call_id = msg.call_id, termination_reason = "success", usage = self.usage } } }
end

---Handles a message: `start`, `llm_partial` or `llm_result`; ignores others.
---@param msg table
---@param env? MachineEnv
---@return MachineDirective[] directives
---@return MachineEvent[] events
function SingleCall:update(msg, env)
    env = env or {}
    local now = env.now_ms or core.clock_ms()
    if msg.type == "start" then
        local directives, events = start(self, msg, env, now)
        return directives, events
    elseif self.current_call_id == nil or msg.call_id ~= self.current_call_id then
        return {}, {}
    elseif msg.type == "llm_partial" and type(msg.delta) == "string"
        and (msg.chunk_type or "content") == "content" then
        self.streaming_text = self.streaming_text .. quote.utf8(msg.delta)
    elseif msg.type == "llm_result" then
        return handle_reply(self, msg, now)
    end
    return {}, {}
end

---The machine as a plain table.
---@return table
function SingleCall:to_map()
    local map = { max_text_bytes = self.max_text_bytes }
    for _, field in ipairs(FIELDS) do
        map[field] = self[field]
    end
    map.usage = {}
    options.merge(map.usage, self.usage)
    return map
end

---An idle machine.
---@param opts? {max_text_bytes: integer?}
---@return ponder.strategy.SingleCall
function single_call.new(opts)
    local checked = options.check("cot.new", opts, single_call.option_rules)
    return setmetatable({ status = "idle", usage = {}, streaming_text = "",
        max_text_bytes = checked.max_text_bytes }, SingleCall)
end

local MAP = {
    status = { type = "string", enum = { "idle", "answering", "completed", "error" },
        required = true },
    prompt = { type = "string" }, reply = { type = "string" }, result = { type = "string" },
    current_call_id = { type = "string" }, usage = { type = "table", required = true },
    streaming_text = { type = "string", required = true },
    termination_reason = { type = "string" }, error = { type = "string" },
    started_at = { type = "number", finite = true },
    duration_ms = { type = "number", finite = true },
    max_text_bytes = prompt_run.MAX_TEXT_BYTES,
}

---The machine that `to_map` saved; an invalid field raises.
---@param map table
---@return ponder.strategy.SingleCall
function single_call.from_map(map)
    return setmetatable(options.check("cot.from_map", map, MAP), SingleCall)
end

return single_call
