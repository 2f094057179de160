--- The requests of a script under --untrusted to its parent process.
---
--- The parent calls functions of the script (ponder.serve.untrusted.child). A call is a group of
--- tasks that runs until all of them wait; then it sends its requests and continues with the
--- answers. Other calls may run meanwhile: each has its own random numbers, timers and output.
--- There is no clock: the time is that of the last message. So a call depends only on its answers,
--- and can be resumed.

local confine = require "ponder.core.confine"
local core = require "ponder.core.task"
local json = require "ponder.json"
local random = require "ponder.core.random"
local scheduler = require "ponder.run.task.scheduler"

local parent = {}

local WAIT = "an answer of the parent"
local MAX_OUTPUT = 1 << 16 -- bytes buffered
local MAX_BYTES = 24 << 20 -- in one message

---@class ponder.untrusted.Call
---@field requests table[] to be sent
---@field waiting table<integer, ponder.task.Handle> by the number of the request
---@field events table[] to be sent
---@field output string[] to be sent
---@field outcome table? set at its end

local calls, running = {}, nil -- by id; the one that the parent waits for
local root -- the group of all calls
local now, time = 0, 0
local functions -- of the script, by name

-- Raises when the parent has exited.
local function receive()
    return json.decode(confine.receive())
end

local function take_output(call)
    local text = table.concat(call.output)
    call.output, call.output_size = {}, 0
    return text ~= "" and text or nil
end

-------------------------------------------------------------------------------
-- Within a call

---The call that the current task belongs to.
local function current()
    return calls[scheduler.current().group] or running
end

-- Encodes data as JSON; raises at the caller of its caller.
local function encode(call, name, data)
    local ok, text = pcall(json.encode, data)
    if ok and call.size + #text > MAX_BYTES then
        ok, text = false, ("more than %d MiB at once"):format(MAX_BYTES >> 20)
    end
    if not ok then
        error(("%s: %s"):format(name, text:gsub("^.-json%.encode: ", "")), 4)
    end
    call.size = call.size + #text
    return text
end

---Sends a request to the parent and waits for the answer.
---@param kind "chat"|"read"|"fetch"|"tool"|"process"
function parent.ask(kind, request)
    local t, call = scheduler.check("ponder." .. kind), current()
    local text = encode(call, kind, request)
    local id = call.last_request + 1
    call.last_request = id
    call.requests[#call.requests + 1] = { id = id, kind = kind, what = text }
    call.waiting[id] = t
    return scheduler.park_until(t, WAIT, math.huge)
end

---Sends an event to the parent; does not wait.
function parent.send_event(name, ...)
    local call = current()
    local text = encode(call, name, json.array { ... })
    call.events[#call.events + 1] = { name = name, what = text }
end

---Writes to the parent's standard output.
function parent.write(text)
    local call = current()
    call.output[#call.output + 1] = text
    call.output_size = call.output_size + #text
    if call.output_size > MAX_OUTPUT then
        confine.send(json.encode { output = take_output(call), more = true })
    end
end

---Has the parent run a program of ponder.sandbox, and waits for it, whatever this task may do; see
---ponder.run.sandbox.program.
function parent.perform(payload, memory_mb, seconds, max_bytes)
    confine.send(("\0" .. string.pack("<I8dI8", memory_mb, seconds, max_bytes) .. payload))
    local text = confine.receive()
    if not text then
        confine.leave() -- the parent has exited
    elseif text:byte() == 0 then
        return nil, text:sub(2)
    end
    return text:sub(2)
end

---Seconds since 1970.
function parent.time()
    return time
end

---@return number seconds on the parent's clock
function parent.now()
    return now
end

-------------------------------------------------------------------------------
-- Calls

-- The script's own part of a traceback.
local function describe(err)
    local text = type(err) == "string" and err or ("a %s value was raised"):format(type(err))
    local message, trace = text:match "^(.-)\n(stack traceback:.*)$"
    local lines = {}
    for line in (trace or ""):gsub("\n(stack traceback:.*)$", ""):gmatch "\n(\t[^\n]*)" do
        if not (line:find "^\t%[C%]" or line:find "^\tponder/" or line:find "^\t%(%.%.%.") then
            lines[#lines + 1] = line
        end
    end
    return (message or text) .. (lines[1] and "\nstack traceback:\n" .. table.concat(lines, "\n")
        or "")
end

local function failure(err)
    if core.stop_reason() == "steps" then
        return { message = "the budget of steps is spent", code = "STEPS" }
    elseif tostring(err):find "^not enough memory" then
        return { message = "the policy exceeded its memory (--max-memory-mb)",
            code = "MEMORY" }
    end
    return { message = describe(err), code = "ERROR" }
end

local function success(results)
    local list = {}
    for i = 1, results.n do
        list[i] = results[i] == nil and json.null or results[i]
    end
    local encoded, text = pcall(json.encode, json.array(list))
    if encoded and #text > MAX_BYTES then
        encoded, text = false, ("more than %d MiB"):format(MAX_BYTES >> 20)
    end
    if not encoded then
        return { message = "cannot send what the policy returned: "
            .. text:gsub("^.-json%.encode: ", ""), code = "ERROR" }
    end
    return { results = text }
end

local function outcome_of(main)
    if main.state == "done" then
        return success(main.results or { n = 0 })
    elseif main.state == "failed" then
        return failure(type(main.error) == "string" and main.failure.message or main.error)
    end
    return { message = "the call was cancelled", code = "CANCELLED" }
end

-- The tape of a call's tasks: its clock is the parent's.
local Tape = {}
Tape.__index = Tape
function Tape.reading() return parent.now() end
function Tape.turn() return false end
function Tape.pass_over() return false end
function Tape.note_timers() end
function Tape.event() end
Tape.writer = { discards = true }

local function begin(id, what)
    local call = { id = id, requests = {}, waiting = {}, last_request = 0, events = {}, output = {},
        output_size = 0, size = 0 }
    calls[id], running = call, call
    local f = functions[what.name]
    local arguments = json.decode(what.arguments)
    local n = #arguments
    for i = 1, n do
        if arguments[i] == json.null then
            arguments[i] = nil
        end
    end
    call.group = scheduler.begin(root, false, random.new(what.seed), function(group)
        calls[group] = nil
        call.outcome = outcome_of(group.main)
    end, f, table.unpack(arguments, 1, n))
    calls[call.group] = call
    call.group.tape = Tape
    call.group.plays = true
end

-- Reports the running call: all its tasks wait or have ended.
local function reply(call)
    local timers = call.group.timers
    local first = timers and timers.heap[1] and timers.heap[1].deadline
    local message = call.outcome or {}
    message.requests, message.events = json.array(call.requests), json.array(call.events)
    message.output, message.done = take_output(call), call.outcome ~= nil
    message.wait = first and first < math.huge and math.max(first - now, 0) or nil
    call.requests, call.events, call.size = {}, {}, 0
    if message.done then
        calls[call.id] = nil
    end
    confine.send(json.encode(message))
end

-- Called by the scheduler when no task is ready.
local function wait()
    if running then
        reply(running)
    end
    local message = receive()
    now, time, running = message.now, message.time, nil
    if message.begin then
        begin(message.call, message.begin)
    elseif message.cancel then
        running = calls[message.call]
        scheduler.abort(running.group)
    else
        running = calls[message.call]
        for _, answer in ipairs(message.answers) do
            local t = running.waiting[answer.id]
            running.waiting[answer.id] = nil
            scheduler.wake(t, WAIT, answer)
        end
        scheduler.fire_timers(running.group, now)
    end
end

---Receives the first message: what may be called, and where.
function parent.start()
    return receive()
end

---Serves calls until the process is ended.
---@param by_name table<string, function> may grow later
function parent.serve(by_name)
    functions = by_name
    local ok, err = pcall(scheduler.run, { clock = parent.now, wait = wait }, function()
        local t = scheduler.check "ponder.serve.untrusted"
        root = t.group
        while true do
            scheduler.park_until(t, "calls", math.huge)
        end
    end)
    local outcome = failure(not ok and err or "the scheduler has ended")
    outcome.output, outcome.done = running and take_output(running), true
    confine.send(json.encode(outcome))
end

---Reports that the process cannot be confined; nothing runs.
function parent.refuse(message)
    receive()
    confine.send(json.encode { message = message, code = "SANDBOX", done = true })
end

return parent
