--- Runs untrusted scripts, for --untrusted, in a process that may only compute and send requests to
--- this one.
---
---     this process                          the script's process, confined by the kernel
---     keys, network, log, budget   <------  requests: calls, files
---     makes the calls              ------>  their results, and the time
---
--- One process runs any number of calls of the script's functions. They take turns: this process
--- waits while one computes, but no longer than `patience`; then that process is killed, its calls
--- fail with SANDBOX, and the next call starts a new one.
---
--- Everything that the script's process sends is checked: models must be in --allow-model, calls
--- have only the fields below, files must be below a directory of --allow-read after all links are
--- resolved, hosts and tools must be named.

local confine = require "ponder.core.confine"
local foreign = require "ponder.serve.http.foreign"
local json = require "ponder.json"
local options = require "ponder.base.options"
local program = require "ponder.run.sandbox.program"
local requests = require "ponder.serve.untrusted.requests"
local scheduler = require "ponder.run.task.scheduler"
local waiters = require "ponder.run.task.waiters"

local untrusted = {}

local MEMORY_MB = 512
local CPU_SECONDS = 600
local MAX_REQUESTS = 100000 -- unanswered, of a call
local MAX_BYTES = 32 << 20 -- of unanswered requests; of an answer
local EXCHANGE_MB = 1024
local TOO_MUCH = { message = "too many requests at once", code = "DENIED" }
local TOO_LONG = { message = ("the answer is longer than %d MiB"):format(MAX_BYTES >> 20),
    code = "TOO_LARGE" }
local WAIT = "the policy's calls"

---@class ponder.untrusted.Options
---@field models? string[] allowed models
---@field directories? string[] readable directories
---@field hosts? string[] allowed servers, HOST or HOST:PORT
---@field tools? table<string, function> allowed tools
---@field memory_mb? integer default 512
---@field max_steps? integer
---@field cpu_seconds? integer default 600
---@field exchange_mb? integer limit of what a call may print, request and receive; default 1024
---@field patience? number seconds that the script may compute between two waits; default: no limit
---@field write? fun(text: string) receives the script's output

---@class ponder.untrusted.Box a script and its process
---@field about any description of the script by its form: see ponder.serve.untrusted.forms
---@field private child userdata? nil: not running
---@field private last integer number of the last call
---@field private is_talking boolean? a message awaits its answer
local Box = {}
Box.__index = Box
Box.__name = "ponder.untrusted.Box"

-------------------------------------------------------------------------------
-- Messages

local function lost(self)
    local child = self.child
    self.child = nil
    local signal = child and child:why()
    return { done = true, code = "SANDBOX", message = signal
        and ("the policy's process was ended by signal %d"):format(signal)
        or "the policy's process has ended" }
end

local function string_of(value)
    return type(value) == "string" and value or nil
end

local function list_of(value)
    return type(value) == "table" and value or {}
end

local function finish(self, message)
    self.child:kill()
    self.child = nil
    return { done = true, code = "SANDBOX", message = message }
end

local function too_slow(self)
    return finish(self, ("the policy computed for longer than %g s"):format(self.opts.patience))
end

-- Runs a program of ponder.sandbox, which the script's process cannot start, as a part of what it
-- computes.
local function perform_program(self, call, text, left)
    local ok, memory_mb, seconds, max_bytes, at = pcall(string.unpack, "<I8dI8", text, 2)
    local reply, message = nil, "malformed request"
    if ok and memory_mb > 0 and seconds > 0 and max_bytes > 0 then
        reply, message = program.perform(text:sub(at), math.min(memory_mb, self.opts.memory_mb
            or MEMORY_MB), math.min(seconds, left or seconds), math.min(max_bytes, MAX_BYTES), true)
    end
    call.exchanged = call.exchanged + #(reply or message)
    return self.child:send((reply and "\1" or "\0") .. (reply or message), left)
end

-- Receives a message of the script's process; fields of wrong types are nil.
local function receive(self, call, deadline)
    local text, problem, left
    repeat
        left = deadline and deadline - scheduler.clock()
        text, problem = nil, "TIMEOUT"
        if not left or left > 0 then -- a script that prints all the time may use up its patience
            text, problem = self.child:receive(left)
        end
        call.exchanged = call.exchanged + #(text or "")
    until not text or text:byte() ~= 0 or not perform_program(self, call, text, left)
    local message, wrong = nil, nil
    if text then
        message, wrong = foreign.decode(text)
    end
    local max = self.opts.exchange_mb or EXCHANGE_MB
    if problem == "TIMEOUT" then
        message = too_slow(self)
    elseif call.exchanged > max << 20 then
        message = finish(self, ("the policy's output, requests and answers exceed %d MiB")
            :format(max))
    elseif text and type(message) ~= "table" then
        message = finish(self, "the policy's process sent what cannot be read: " .. tostring(wrong))
    elseif not text then
        message = lost(self)
    end
    return { requests = list_of(message.requests), events = list_of(message.events),
        more = message.more == true, done = message.done == true,
        output = string_of(message.output),
        wait = type(message.wait) == "number" and message.wait >= 0 and message.wait or nil,
        results = string_of(message.results), message = string_of(message.message),
        code = string_of(message.code) or "ERROR" }
end

-- Sends a message about a call, and waits for the next message. `answers` are JSON.
local function exchange(self, call, message, answers)
    local child = call.child
    if child ~= self.child then
        return lost { child = nil }
    end
    message.call, message.now, message.time = call.id, scheduler.now(), os.time()
    self.is_talking = true
    local text = json.encode(message)
    if answers then
        text = ('%s,"answers":[%s]}'):format(text:sub(1, -2), table.concat(answers, ","))
    end
    local patience = self.opts.patience
    local deadline = patience and scheduler.clock() + patience
    local sent, problem = child:send(text, patience)
    if not sent then
        self.is_talking = false
        return problem == "TIMEOUT" and too_slow(self) or lost(self)
    end
    local reply = receive(self, call, deadline)
    while reply.more and reply.output do
        self.write(reply.output)
        reply = receive(self, call, deadline)
    end
    self.is_talking = false
    if reply.output then
        self.write(reply.output)
    end
    return reply
end

-------------------------------------------------------------------------------
-- Calls

local function queue_answer(call, id, answer)
    local text = json.encode(options.merge({ id = id }, answer))
    call.exchanged = call.exchanged + #text
    text = #text <= MAX_BYTES and text or json.encode(options.merge({ id = id }, TOO_LONG))
    call.answers[#call.answers + 1], call.answer_bytes = text, call.answer_bytes + #text
end

-- Waits until the script's process has taken most answers.
local function await_room(call)
    while call.answer_bytes > MAX_BYTES do
        call.room:wait()
    end
end

local function perform(self, call, request, size)
    local ok, answer = pcall(requests.perform, self, request, await_room, call)
    queue_answer(call, request.id, ok and answer or { message = tostring(answer), code = "ERROR" })
    call.open[request.id] = nil
    call.count, call.bytes = call.count - 1, call.bytes - size
    scheduler.wake(call.task, WAIT)
end

local function begin_requests(self, call, list)
    for _, request in ipairs(list) do
        local id = type(request) == "table" and math.type(request.id) == "integer" and request.id
        local size = id and type(request.what) == "string" and #request.what or 0
        if id and (call.count >= MAX_REQUESTS or call.bytes + size > MAX_BYTES) then
            queue_answer(call, id, TOO_MUCH)
        elseif id and not call.open[id] then
            call.count, call.bytes = call.count + 1, call.bytes + size
            call.open[id] = scheduler.spawn(nil, nil, perform, self, call, request, size)
        end
    end
end

local function dispatch(on_event, events)
    for _, event in ipairs(on_event and events or {}) do
        local arguments = type(event) == "table" and string_of(event.what)
            and foreign.decode(event.what)
        if type(arguments) == "table" then
            on_event(event.name, table.unpack(arguments, 1, math.min(#arguments, 8)))
        end
    end
end

-- Waits for answers, at most until the call's wait ends; returns as many as fit in one message.
local function answers_of(call, wait)
    if not call.answers[1] then
        scheduler.park_until(call.task, WAIT, wait and scheduler.now() + wait or math.huge)
    end
    local list, count, size = call.answers, 0, 0
    repeat
        count = count + 1
        size = size + #(list[count] or "")
    until not list[count + 1] or size + #list[count + 1] > MAX_BYTES
    local answers = table.move(list, 1, count, 1, {})
    call.answers = table.move(list, count + 1, #list, 1, {})
    call.answer_bytes = call.answer_bytes - size
    call.room:wake()
    return answers
end

local function results_of(reply)
    local list = reply.results and foreign.decode(reply.results)
    if type(list) ~= "table" then
        return nil, reply.message or "cannot read the policy's results", reply.code
    end
    local n = #list
    for i = 1, n do
        if list[i] == json.null then
            list[i] = nil
        end
    end
    return table.unpack(list, 1, n)
end

local Ending = {}

-- Cancels the requests of a call that has ended or was cancelled.
function Ending.__close(ending)
    local self, call = ending.box, ending.call
    for _, t in pairs(call.open) do
        scheduler.cancel(t)
    end
    if self.is_talking then -- Ctrl-C or a timeout while the script computes
        self:close()
    elseif not call.done and self.child == call.child then
        exchange(self, call, { cancel = true })
    end
end

local function make_call(self, name, arguments, on_event)
    self.last = self.last + 1
    local call = { id = self.last, child = self.child, task = scheduler.current(), answers = {},
        open = {}, count = 0, bytes = 0, answer_bytes = 0, exchanged = 0,
        room = waiters.new "room for an answer" }
    local _ <close> = setmetatable({ box = self, call = call }, Ending)
    local reply = exchange(self, call, { begin = { name = name, seed = math.random(0),
        arguments = json.encode(json.array(arguments)) } })
    while true do
        call.done = reply.done
        dispatch(on_event, reply.events)
        if reply.done then
            return results_of(reply)
        end
        begin_requests(self, call, reply.requests)
        reply = exchange(self, call, {}, answers_of(call, reply.wait))
    end
end

-- Starts the process and loads the script.
local function start(self)
    local child, problem = confine.spawn()
    if not child then
        return nil, "cannot start the policy's process: " .. problem, "SANDBOX"
    end
    local opts, script = self.opts, self.script
    self.child, self.last = child, 0
    child:send(json.encode { text = script.text, name = script.name, form = script.form,
        models = json.array(opts.models or {}), memory_mb = opts.memory_mb or MEMORY_MB,
        max_steps = opts.max_steps, cpu_seconds = opts.cpu_seconds or CPU_SECONDS })
    local about, message, code = make_call(self, "load", { script.arguments or json.null })
    if about == nil then
        self:close()
        return nil, message or "the policy's process does not say what the script has",
            code or "SANDBOX"
    end
    return about
end

---Calls a function of the script, within a task, whose budget, log and run apply to its calls.
---@param name string in the script's form
---@param on_event? fun(name: string, ...) called for events of the function
---@return any ... its results, as data; or nil
---@return "ERROR"|"STEPS"|"MEMORY"|"SANDBOX"|string|nil code SANDBOX: its process could not be
---  started, or has ended
function Box:call(name, arguments, on_event)
    scheduler.check "untrusted.call"
    if not self.child then
        local about, message, code = start(self)
        if about == nil then
            return nil, message, code
        end
    end
    return make_call(self, name, arguments, on_event)
end

---Kills the process.
function Box:close()
    self.is_talking = false
    if self.child then
        self.child:kill()
        self.child = nil
    end
end
Box.__close = Box.close

-------------------------------------------------------------------------------

---The kernel features missing to confine a process.
function untrusted.missing()
    return confine.missing()
end

---Loads a script in its own process; call it within a task.
---@return "SYNTAX"|"ERROR"|"STEPS"|"MEMORY"|"SANDBOX"|string|nil code
function untrusted.open(script, opts)
    scheduler.check "untrusted.open"
    local self = setmetatable({ script = script, opts = opts, last = 0,
        write = opts.write or function() end }, Box)
    local ok, message = requests.prepare(self, opts)
    if not ok then
        return nil, message, "SANDBOX"
    end
    local about, problem, code = start(self)
    if about == nil then
        return nil, problem, code
    end
    self.about = about
    return self
end

return untrusted
