--- Runs a policy that a stranger wrote, for `ponder run --untrusted`: in a process that may compute
--- and ask this one for what is allowed, and nothing else.
---
---     this process                          the policy's, confined by the kernel
---     keys, network, log, budget   <------  "these calls, these files; then I go on"
---     makes the calls              ------>  what came of them, and the time
---
--- Nothing that the policy's process says is believed: models by name are those of --allow-model,
--- calls have the fields below alone, files lie below a directory of --allow-read when all links
--- have been followed.

local confine = require "ponder.core.confine"
local host = require "ponder.core.host"
local json = require "ponder.json"
local log = require "ponder.log"
local model = require "ponder.model"
local options = require "ponder.options"
local scheduler = require "ponder.task.scheduler"

local untrusted = {}

--- The one argument with which the program is started as the process of a policy.
untrusted.ARGUMENT = "--confined"

local MEMORY_MB = 512
local CPU_SECONDS = 600
local MOST_REQUESTS = 100000 -- in one message, and unanswered
local MOST_FILE = 64 << 20 -- bytes
local WAIT = "the policy's calls"

-- What a policy may say of a call. Not where it goes, nor further fields of the request.
local CALL = { "messages", "system", "n", "temperature", "top_p", "max_tokens", "max_output_tokens",
    "stop", "seed", "response_format", "repair", "logprobs", "tools", "tool_choice",
    "reasoning_effort", "timeout_ms", "max_retries", "cache", "sample" }

-- What it learns of a reply: all but what the provider said besides.
local REPLY = { "text", "texts", "samples", "message", "json", "jsons", "usage", "model", "id",
    "finish_reason", "tool_calls", "reasoning", "refusal", "logprobs", "latency_ms", "attempts",
    "truncated", "cost", "cached", "scripted", "dropped" }

---@class ponder.untrusted.Options
---@field models string[] that may be called
---@field directories string[] that may be read
---@field memory_mb integer? default 512
---@field max_steps integer?
---@field cpu_seconds integer? default 600

local function pick(from, names)
    local fields = {}
    for _, name in ipairs(names) do
        fields[name] = from[name]
    end
    return fields
end

-------------------------------------------------------------------------------
-- What is asked

local function refuse(message)
    return { message = message, code = "DENIED" }
end

local function chat(self, what)
    local name = what.model
    local m = type(name) == "string" and self.models[name]
    if not m or type(what.call) ~= "table" then
        return refuse(("the model %s is not allowed (--allow-model)"):format(options.show(name)))
    end
    local ok, reply, message, code = pcall(m.chat, m, pick(what.call, CALL))
    if not ok then
        return { raised = tostring(reply) }
    end
    return reply and { reply = pick(reply, REPLY) } or { message = message, code = code }
end

local function is_below(path, directory)
    return directory == "/" or path:sub(1, #directory + 1) == directory .. "/"
end

local function read_file(path)
    local file <close>, message = io.open(path, "rb")
    if not file then
        return nil, message
    end
    local text = file:read(MOST_FILE + 1) or ""
    if #text > MOST_FILE then
        return nil, path .. ": the file is too large"
    end
    return text
end

local function read(self, what)
    local path = type(what.path) == "string" and host.absolute(what.path)
    for _, directory in ipairs(path and self.directories or {}) do
        if is_below(path, directory) then
            local text, message = log.record("read", { path = path }, read_file, path)
            return { text = text, message = message, code = not text and "NOT_FOUND" or nil }
        end
    end
    return refuse(("%s cannot be read: it is not there, or not below a directory of --allow-read")
        :format(options.show(what.path)))
end

local KINDS = { chat = chat, read = read }

local function perform(self, request)
    local what = type(request.what) == "string" and json.decode(request.what)
    local kind = KINDS[request.kind]
    local answer = kind and type(what) == "table" and kind(self, what)
        or refuse("the request is not one")
    answer.id = request.id
    self.answers[#self.answers + 1] = answer
    self.open = self.open - 1
    scheduler.wake(self.main, WAIT)
end

-------------------------------------------------------------------------------
-- The conversation

local function lost(self)
    local signal = self.child:why()
    return nil, signal and ("the policy's process was ended by signal %d"):format(signal)
        or "the policy's process has ended", "SANDBOX"
end

-- A message of the policy's process, of the types that are expected.
local function receive(self)
    local text = self.child:receive()
    local message = text and json.decode(text)
    if type(message) ~= "table" then
        return nil
    end
    local requests = message.requests
    if type(requests) ~= "table" or #requests + self.open > MOST_REQUESTS then
        requests = {}
    end
    return { requests = requests, more = message.more == true, done = message.done == true,
        output = type(message.output) == "string" and message.output or nil,
        wait = type(message.wait) == "number" and message.wait >= 0 and message.wait or nil,
        value = type(message.value) == "string" and json.decode(message.value) or nil,
        message = type(message.message) == "string" and message.message or nil,
        code = type(message.code) == "string" and message.code or "ERROR" }
end

local function begin_requests(self, requests)
    for _, request in ipairs(requests) do
        if type(request) == "table" and math.type(request.id) == "integer" then
            self.open = self.open + 1
            scheduler.spawn(nil, nil, perform, self, request)
        end
    end
end

-- Answers what is there, or waits for it.
local function answer(self, message)
    begin_requests(self, message.requests)
    if not self.answers[1] then
        scheduler.park_until(self.main, WAIT,
            message.wait and scheduler.now() + message.wait or math.huge)
    end
    local answers = json.array(self.answers)
    self.answers = {}
    return self.child:send(json.encode { now = scheduler.now(), time = os.time(),
        answers = answers })
end

local function converse(self)
    local message = receive(self)
    while message do
        if message.output then
            self.write(message.output)
        end
        if message.done and message.message then
            return nil, message.message, message.code
        elseif message.done then
            return message.value
        end
        message = (message.more or answer(self, message)) and receive(self)
    end
    return lost(self)
end

-------------------------------------------------------------------------------

---What the kernel lacks to confine a process.
---@return string[] names of its parts
function untrusted.missing()
    return confine.missing()
end

---Runs a policy; within a task.
---@param text string
---@param name string of the chunk
---@param arguments string[]
---@param write fun(text: string) gets what it prints
---@param opts ponder.untrusted.Options
---@return any value what it returned, as data; or nil
---@return string? message
---@return "ERROR"|"SYNTAX"|"STEPS"|"MEMORY"|"SANDBOX"|nil code SANDBOX: its process could not be
---  started, or was ended
function untrusted.run(text, name, arguments, write, opts)
    local self = { main = scheduler.check "untrusted.run", answers = {}, open = 0, write = write,
        models = {}, directories = {} }
    for _, allowed in ipairs(opts.models) do
        local ok, opened = pcall(model.open, allowed)
        if not ok then
            return nil, (opened:gsub("^.-model%.open: ", "")), "SANDBOX"
        end
        self.models[allowed] = opened
    end
    for i, directory in ipairs(opts.directories) do
        local path, problem = host.absolute(directory)
        if not path then
            return nil, problem, "SANDBOX"
        end
        self.directories[i] = path
    end
    local child <close>, problem = confine.spawn(untrusted.ARGUMENT)
    if not child then
        return nil, "cannot start the policy's process: " .. problem, "SANDBOX"
    end
    self.child = child
    child:send(json.encode { text = text, name = name, arguments = json.array(arguments),
        models = json.array(opts.models), seed = math.random(0), now = scheduler.now(),
        time = os.time(), memory_mb = opts.memory_mb or MEMORY_MB, max_steps = opts.max_steps,
        cpu_seconds = opts.cpu_seconds or CPU_SECONDS })
    return converse(self)
end

return untrusted
