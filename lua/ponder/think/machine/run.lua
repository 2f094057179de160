--- Run is the object behind a machine's handle (see ponder.machine). Its methods are what all
--- classes need: add directives and events, end the run, render the messages of a call.

local builtin = require "ponder.base.builtin"
local contexts = require "ponder.think.prompt.context"
local options = require "ponder.base.options"
local quote = require "ponder.quote"

---@class MachineCall
---@field id string
---@field kind string
---@field subject any what it is about
---@field number integer in the order of opening

---@class MachineRun
---@field class MachineClass
---@field options table<string, any> checked
---@field prompts table<string, function|string> the user's
---@field status string
---@field open table<string, MachineCall> the calls whose replies are awaited, by id
---@field closed MachineCall? the one that was closed last
---@field prompt string? the question, from `start`
---@field usage table<string, number>
---@field streams table<string, string[]> chunks by call id
---@field started number? milliseconds
---@field finished number?
---@field reason string? why the run ended
---@field error string? what failed, one safe line
local Run = {}
Run.__index = Run

---@param opts table checked options
function Run.new(class, opts)
    return setmetatable({ class = class, options = opts, prompts = opts.prompts or {},
        status = "idle", open = {}, call_count = 0, usage = {}, streams = {} }, Run)
end

---What users hold: a read-only view of the run.
function Run:handle()
    return setmetatable({ _run = self }, self.class.metatable)
end

-------------------------------------------------------------------------------
-- Calls: the first has the id that `start` was given, the others "c1", "c2"...

---Whether it has started and not ended.
function Run:is_busy()
    return self.status ~= "idle" and not self.reason
end

local function add_call(self, id, kind, subject)
    self.call_count = self.call_count + 1
    self.open[id] = { id = id, kind = kind, subject = subject, number = self.call_count }
    return id
end

---Leaves the status idle, with one open call.
function Run:start(status, msg, now, kind, subject)
    self.status, self.started, self.start_id, self.next_id = status, now, msg.call_id, 1
    add_call(self, msg.call_id, kind, subject)
end

---@return string id
function Run:open_call(kind, subject)
    if "c" .. self.next_id == self.start_id then
        self.next_id = self.next_id + 1
    end
    self.next_id = self.next_id + 1
    return add_call(self, "c" .. self.next_id - 1, kind, subject)
end

---@param id string of an open call
function Run:close_call(id)
    self.closed, self.open[id] = self.open[id], nil
end

---@return MachineCall[] the oldest first
function Run:open_calls()
    local calls = {}
    for _, call in pairs(self.open) do
        calls[#calls + 1] = call
    end
    table.sort(calls, function(a, b) return a.number < b.number end)
    return calls
end

---The oldest open call, else the one that was closed last.
function Run:current_call()
    return self:open_calls()[1] or self.closed
end

-- Closes all calls.
local function finish(self, status, reason, now)
    self.closed = self:current_call()
    self.status, self.reason, self.finished, self.open, self.streams = status, reason, now, {}, {}
end

-------------------------------------------------------------------------------
-- What an update returns

---Adds a directive to those that update returns.
function Run.add_directive(_, turn, directive)
    turn.directives[#turn.directives + 1] = directive
end

---Adds the event `CLASS.NAME`.
function Run:add_event(turn, name, measurements, metadata)
    turn.events[#turn.events + 1] = {
        name = self.class.name .. "." .. name,
        measurements = measurements,
        metadata = metadata,
    }
end

---Milliseconds since the start.
function Run:elapsed(now)
    return self.started and now - self.started or 0
end

---How long the run took, in ms; nil before its end.
function Run:duration()
    return self.finished and self:elapsed(self.finished)
end

---A copy of the token counts so far.
function Run:usage_copy()
    return options.merge({}, self.usage)
end

---The chunks of a reply received so far.
function Run:streamed(call_id)
    local chunks = self.streams[call_id]
    return chunks and table.concat(chunks) or ""
end

---Ends the run with status `completed`.
---@param call_id string the call whose reply ended the run
function Run:complete(turn, reason, call_id)
    finish(self, "completed", reason, turn.now)
    local measurements, metadata = self.class.complete_event(self, turn)
    measurements.duration_ms = self:duration()
    metadata.call_id = call_id
    metadata.termination_reason = reason
    metadata.usage = self:usage_copy()
    self:add_event(turn, "complete", measurements, metadata)
end

--- One line for the reason that a client gave: text, a number or an error table.
local function reason_line(reason)
    if type(reason) == "table" then
        reason = rawget(reason, "message") or rawget(reason, "reason") or rawget(reason, "code")
    end
    local kind = type(reason)
    if kind ~= "string" and kind ~= "number" and kind ~= "boolean" then
        return "unknown error"
    end
    local line = quote.line(tostring(reason))
    return line ~= "" and line or "unknown error"
end

---Ends the run with status `error`.
function Run:fail(turn, call_id, reason)
    finish(self, "error", "error", turn.now)
    self.error = reason_line(reason)
    self:add_event(turn, "error", {}, {
        call_id = call_id,
        error = self.error,
        usage = self:usage_copy(),
    })
end

---Renders the messages of one call.
---@param name string which prompt: a key of class.prompts
---@param fields table of the context for the prompt function
---@param node? table the node that the call is about, for env.context
---@return table[] list of {role, content}
function Run:render(turn, name, fields, node)
    local class, env = self.class, turn.env
    local prompt = env[class.prompts[name]] or env.prompts and env.prompts[name]
        or self.prompts[name]
    local context = contexts.new(fields, self.options.max_text_bytes, function(cut)
        self:add_event(turn, "text_cut", cut.measurements, cut.metadata)
    end)
    local messages = contexts.messages(prompt, builtin.prompts(class.name), name, context)
    local more = env.context and node and env.context(node)
    if more then
        local own = messages
        messages = table.move(own, 1, #own, 1, {})
        table.move(contexts.check(more, "env.context"), 1, #more, #own + 1, messages)
    end
    return messages
end

return Run
