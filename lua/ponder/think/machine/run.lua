--- Run is the object behind a machine's handle (see ponder.machine). Its methods are what all
--- classes need: add directives and events, end the run, render the messages of a call.

local builtin = require "ponder.base.builtin"
local options = require "ponder.base.options"
local quote = require "ponder.quote"

local show = options.show

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

---The rule of the option `max_text_bytes`.
---@type OptionRule
Run.MAX_TEXT_BYTES = { type = "integer", min = 100, max = 10000000, default = 20000,
    help = "truncate each quoted text except the question to N bytes" }

---@param opts table checked options
function Run.new(class, opts)
    return setmetatable({ class = class, options = opts, prompts = opts.prompts or {},
        status = "idle", open = {}, call_count = 0, usage = {}, streams = {} }, Run)
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

-------------------------------------------------------------------------------
-- Prompts

--- Methods of all prompt contexts: they quote text that others wrote.
-- Prompt files are untrusted: they can reach this table neither by a field nor by getmetatable.
local methods = {}
local Context = { __index = methods }

-- Context -> the turn of a machine or the function that reports truncated texts.
local listeners = setmetatable({}, { __mode = "k" })

local function report_cut(context, tag, bytes, max)
    local listener = listeners[context]
    local measurements, metadata = { bytes = bytes, max_bytes = max }, { tag = tag }
    if type(listener) == "table" then
        listener.run:add_event(listener, "text_cut", measurements, metadata)
    elseif listener then
        listener { name = "text_cut", measurements = measurements, metadata = metadata }
    end
end

---Quotes text between tags that it cannot close. Truncates it to `max_text_bytes`, with a note of
---how much is missing; never truncates the question.
---@param name string letters and underscores
function methods:quote(name, text)
    local max = self.max_text_bytes
    if #text > max and (text == self.prompt or text == self.question) then
        max = #text
    elseif #text > max then
        report_cut(self, name, #text, max)
    end
    return quote.tagged(name, text, max)
end

---Truncates a text to `max` bytes, with a note of how much is missing.
function methods:cut(text, max)
    if #text > max then
        report_cut(self, "text", #text, max)
    end
    return quote.cut(text, max)
end

local function check_messages(messages, what)
    if type(messages) ~= "table" then
        error(("%s must return a list of {role=, content=} (got %s)")
            :format(what, show(messages)), 0)
    end
    for i = 1, #messages do
        local message = messages[i]
        if type(message) ~= "table" or type(message.role) ~= "string"
            or type(message.content) ~= "string" then
            error(("%s: message %d must be {role=, content=}, both strings"):format(what, i), 0)
        end
    end
    return messages
end

---A context for prompt functions that no machine calls.
---@param on_cut? fun(event: MachineEvent) called for each truncated text
---@return table context
function Run.context(fields, max_text_bytes, on_cut)
    fields.max_text_bytes, listeners[fields] = max_text_bytes, on_cut
    return setmetatable(fields, Context)
end

---Renders the messages of one call.
---@param name string which prompt: a key of class.prompts
---@param context table for the prompt function; `quote`, `instructions` and `max_text_bytes` are
---added
---@param node? table the node that the call is about, for env.context
---@return table[] list of {role, content}
function Run:render(turn, name, context, node)
    local class, env = self.class, turn.env
    local prompt = env[class.prompts[name]] or env.prompts and env.prompts[name]
        or self.prompts[name]
    setmetatable(context, Context)
    context.max_text_bytes = self.options.max_text_bytes
    turn.run, listeners[context] = self, turn
    -- A string replaces only the instructions.
    context.instructions = type(prompt) == "string" and prompt or false
    local messages
    if type(prompt) == "function" then
        messages = check_messages(prompt(context), "prompts." .. name)
    else
        messages = (class.own_prompts or builtin.prompts(class.name))[name](context)
    end
    local more = env.context and node and env.context(node)
    if more then
        local own = messages
        messages = table.move(own, 1, #own, 1, {})
        table.move(check_messages(more, "env.context"), 1, #more, #own + 1, messages)
    end
    return messages
end

---What is wrong with a table of prompts, or nil. Ignores the key `instructions` of prompt files.
---@param known table<string, any> their names
---@param any_name boolean? ignore unknown names
function Run.prompt_problem(known, prompts, any_name)
    for name, prompt in pairs(prompts or {}) do
        if known[name] ~= nil and type(prompt) ~= "function" and type(prompt) ~= "string" then
            return ("prompts.%s must be a function or a string (got %s)"):format(name, show(prompt))
        elseif known[name] == nil and name ~= "instructions" and not any_name then
            local names = options.names(known)
            return ("unknown prompt %s%s; there are: %s"):format(show(name),
                options.hint(name, names), table.concat(names, ", "))
        end
    end
end

return Run
