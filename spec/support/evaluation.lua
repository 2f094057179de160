--- Evaluations for specs: in this process, and with the executable.

local eval = require "ponder.eval"
local merge = require("ponder.base.options").merge
local model = require "ponder.model"
local shell = require "shell"
local task = require "ponder.task"

local evaluation = {}

function evaluation.items(n)
    local list = {}
    for i = 1, n do
        list[i] = { id = ("%03d"):format(i), question = "q" .. i, target = i }
    end
    return list
end

function evaluation.run(definition, opts)
    return task.run(function()
        local result, message, code = eval.run(definition, opts)
        assert(result, message)
        return result, code
    end)
end

function evaluation.policy_of(result, name)
    for _, policy in ipairs(result.policies) do
        if policy.name == name then
            return policy
        end
    end
end

function evaluation.record_of(result, policy, id, epoch)
    for _, record in ipairs(result.records) do
        if record.policy == policy and record.id == id and record.epoch == (epoch or 1) then
            return record
        end
    end
end

-- A model whose prompts take 10 tokens and replies 1; `answer(number, sample)` gets the number in
-- the prompt. `all`: gives all samples of a request at once.
function evaluation.open(answer, all)
    -- USD a million tokens; a prompt has 10.
    local client = model.client { env = function() return nil end, config = {}, transport = {},
        prices = { ["eval-spec:*"] = { input = 1000, output = 0 } } }
    client.register("eval-spec", { call = function(request)
        local text = request.messages[#request.messages].content
        local reply = answer(tonumber(text:match "%d+"), request.sample, text)
        if not reply then
            return nil, "overloaded", "SERVER"
        end
        local texts = {}
        for i = 1, all and request.n or 1 do
            texts[i] = answer(tonumber(text:match "%d+"), request.sample + i - 1, text)
        end
        return { texts = texts, usage = { input_tokens = 10, output_tokens = 1 } }
    end })
    return client.open("eval-spec:m", { max_retries = 0 })
end

evaluation.MODEL = [[
return function(request)
    local n = tonumber(request.messages[1].content:match "%d+")
    if os.getenv "SLOW" then require("ponder.task").sleep(tonumber(os.getenv "SLOW")) end
    local file <close> = assert(io.open("asked", "a"))
    file:write(n, "\n")
    file:close()
    while os.getenv "WAITS" and not io.open "go" do require("ponder.task").sleep(0.02) end
    if n % 5 == 0 and os.getenv "BROKEN" then return nil, "overloaded", "BAD_REQUEST" end
    return { text = tostring(n <= (tonumber(os.getenv "SKILL") or 15) and n or 0),
        usage = { input_tokens = 10, output_tokens = 1 } }
end]]

evaluation.EVAL = [[
local flags = ...
local data = {}
for i = 1, 20 do data[i] = { id = "i" .. i, target = i } end
return { name = "sums", data = data, score = "numeric", baseline = "const", policies = {
    const = function(item, run) run:report(1) return 3 end,
    io = { model = flags.model or "script:model.lua", prompt = "Say {{target}}" },
} }]]

local ENV = { HOME = "/nonexistent", XDG_CONFIG_HOME = "/nonexistent" }

function evaluation.environment(more) return merge(merge({}, ENV), more) end

-- A directory with sums.lua and model.lua; functions that run `ponder eval`, and count the prompts
-- that the model got.
function evaluation.directory()
    local dir = shell.directory()
    dir:write("model.lua", evaluation.MODEL)
    dir:write("sums.lua", evaluation.EVAL)
    return dir, function(arguments, env)
        table.insert(arguments, 1, "eval")
        return shell.ponder(arguments, { cwd = dir.path, env = evaluation.environment(env) })
    end, function()
        local ok, text = pcall(dir.read, dir, "asked")
        return ok and text and select(2, text:gsub("\n", "")) or 0
    end
end

return evaluation
