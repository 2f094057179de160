--- What the process of a policy that runs under --untrusted asks of its parent.
---
--- The policy is a coroutine in a process of its own: it runs until all of its tasks wait, sends
--- what they ask for, and goes on with what has been answered. It has no clock: time is what the
--- last message says. So a run is the same each time that the answers are, and can be resumed.

local confine = require "ponder.core.confine"
local json = require "ponder.json"
local scheduler = require "ponder.task.scheduler"

local parent = {}

local WAIT = "an answer of the parent"
local MOST_OUTPUT = 1 << 16 -- bytes that are held back

local requests, waiting, last_id = {}, {}, 0
local output, output_size = {}, 0
local models, allowed = {}, {}
local now, time = 0, 0

local function receive()
    local text = confine.receive()
    if not text then
        confine.leave() -- the parent has gone
    end
    return json.decode(text)
end

local function take_output()
    local text = table.concat(output)
    output, output_size = {}, 0
    return text ~= "" and text or nil
end

---What is to be run: the first message.
---@return table start
function parent.start()
    local start = receive()
    models, now, time = start.models, start.now, start.time
    for _, name in ipairs(models) do
        allowed[name] = true
    end
    return start
end

---Asks for something; waits.
---@param kind "chat"|"read"
---@param request table data
---@return table answer
function parent.ask(kind, request)
    local t = scheduler.check("ponder." .. kind)
    last_id = last_id + 1
    local ok, text = pcall(json.encode, request)
    if not ok then
        error(("%s: %s"):format(kind, text:gsub("^.-json%.encode: ", "")), 3)
    end
    requests[#requests + 1] = { id = last_id, kind = kind, what = text }
    waiting[last_id] = t
    return scheduler.park_until(t, WAIT, math.huge)
end

---Waits for answers, or for so long: what the scheduler does when no task is ready.
---@param seconds number
function parent.wait(seconds)
    local message = { requests = json.array(requests), output = take_output(),
        wait = seconds < math.huge and seconds or nil }
    requests = {}
    confine.send(json.encode(message))
    local reply = receive()
    now, time = reply.now, reply.time
    for _, answer in ipairs(reply.answers) do
        local t = waiting[answer.id]
        waiting[answer.id] = nil
        scheduler.wake(t, WAIT, answer)
    end
end

---Writes to the standard output of the parent.
---@param text string
function parent.write(text)
    output[#output + 1] = text
    output_size = output_size + #text
    if output_size > MOST_OUTPUT then
        confine.send(json.encode { output = take_output(), more = true })
    end
end

---The end of the policy.
---@param outcome {value: string?, message: string?, code: string?}
function parent.finish(outcome)
    outcome.output, outcome.done = take_output(), true
    confine.send(json.encode(outcome))
    confine.leave()
end

---@return number seconds on the run's clock
function parent.now()
    return now
end

---@return integer seconds since 1970
function parent.time()
    return time
end

---@return string[]
function parent.models()
    return models
end

---@param name string
---@return boolean
function parent.allows(name)
    return allowed[name] or false
end

return parent
