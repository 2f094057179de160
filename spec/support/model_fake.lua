-- A model client with a fake transport, clock, randomness and environment.
--
--     local client, transport = fake.client { answers... }
--     fake.run(function() local m = client.open("openai:m") ... end)
--
-- An answer is a table {status, headers, body}, {code, error}, or {stream = bytes}; or a function
-- from the transfer to one. Each call takes the next; the last one serves all that follow.

local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local shell = require "shell"
local task = require "ponder.task"
local within = require "within"

shell.build "streams.so"
local streams = require "streams"

local fake = { now = 0, wall = 1700000000 }

local KEYS = {
    OPENAI_API_KEY = "sk-0123456789abcdefghij",
    ANTHROPIC_API_KEY = "sk-ant-0123456789abcdef",
}

local Transport = {}
Transport.__index = Transport

local function play_stream(format, bytes, on_event)
    local reader <close> = streams.reader(format)
    local function hand_over(events)
        for i = 1, #events, 2 do
            if on_event(events[i], events[i + 1]) then return true end
        end
    end
    local stopped = hand_over(assert(reader:feed(bytes))) or hand_over(assert(reader:finish()))
    return stopped, reader:done()
end

function Transport:send(opts, on_event)
    self.sent[#self.sent + 1] = opts
    self.times[#self.times + 1] = fake.now
    local answer = self.answers[math.min(#self.sent, #self.answers)]
    if type(answer) == "function" then answer = answer(opts) end
    local result = { status = answer.status or 200, headers = answer.headers or {},
        body = answer.body, total_ms = 5, queue_ms = 1, first_byte_ms = 2 }
    task.sleep(answer.delay or 0.005)
    if answer.stream and opts.stream then
        local stopped, done = play_stream(opts.stream, answer.stream, on_event)
        if stopped then return { headers = {} } end
        result.streamed, result.done, result.first_event_ms = true, done, 3
    end
    if answer.code then
        result.code, result.error, result.status = answer.code, answer.error, answer.status
    end
    return result
end

function Transport:limit(url, n) self.limits[#self.limits + 1] = { url, n } end

--- A client, and its transport, which records requests (`sent`), their times and `limits`.
---@param answers table[]
---@param parts? table over the defaults
function fake.client(answers, parts)
    local transport = setmetatable({ answers = answers, sent = {}, times = {}, limits = {} },
        Transport)
    return model.client(merge({ transport = transport, config = {},
        random = function() return 0 end, env = function(name) return KEYS[name] end,
        now_s = function() return fake.wall end }, parts)), transport
end

--- Runs a function as the main task, on a clock that moves only when all tasks wait.
function fake.run(f)
    fake.now = 0
    return task.run_with({ clock = function() return fake.now end,
        wait = function(seconds) fake.now = fake.now + (seconds or 0) end }, f)
end

--- A spec within `fake.run`.
fake.in_task = within(fake.run)

--- An OpenAI reply with these texts.
function fake.reply(...)
    local choices = {}
    for i, text in ipairs { ... } do
        choices[i] = ('{"index":%d,"message":{"content":"%s"},"finish_reason":"stop"}')
            :format(i - 1, text)
    end
    return { body = '{"choices":[' .. table.concat(choices, ",") .. '],"usage":{"prompt_tokens":10,'
        .. '"completion_tokens":5,"total_tokens":15}}' }
end

return fake
