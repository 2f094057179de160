-- Measures the run log: its overhead in a run of 2,000 calls of 50 ms with 64 in flight, the time
-- to replay a run of 10,000 calls, and the Lua calls of one logged call of a model, with how often
-- they enter another module.
--
--     lua5.4 scripts/bench/log.lua        (`make bench` sets the paths)

local measure = require "measure"
local server = require "server"
local shell = require "shell"

local CALLS, IN_FLIGHT, DELAY_MS, PAIRS = 2000, 64, 50, 7
local REPLAYED, REPLAYS = 10000, 5

local SCRIPT = [[
local model, task = require "ponder.model", require "ponder.task"
local m, numbers = model.open(nil, { concurrency = tonumber(arg[2]) }), {}
for i = 1, tonumber(arg[1]) do
    numbers[i] = i
end
local replies = task.map(numbers, function(i)
    local question = ("Number %d: is it the sum of two primes, and of which? %s"):format(i, arg[3])
    return m:chat { messages = { { role = "user", content = question } } }
end, { concurrency = 2 * tonumber(arg[2]) })
for i = 1, #numbers do
    assert(replies[i].text:find "sum of two primes")
end
]]

local ANSWER = ("It is the sum of two primes, as far as anybody knows. "):rep(10)

local s <close> = server.start()
local dir <close> = shell.directory { ["script.lua"] = SCRIPT }

-- Wall and CPU seconds of a command, measured by bash.
local function seconds(delay, ...)
    local words = { shell.quote(shell.executable) }
    for _, word in ipairs { ... } do
        words[#words + 1] = shell.quote(word)
    end
    local url = ("%s/s/delay=%d&text=%s/v1"):format(s.url, delay, server.encode(ANSWER))
    local result = shell.run(("cd %s; export OPENAI_API_KEY=sk-0123456789abcdef no_proxy=127.0.0.1 "
        .. "PONDER_MODEL=openai:test-model OPENAI_BASE_URL=%s; exec bash -c %s 2>$ERR"):format(
        shell.quote(dir.path), shell.quote(url), shell.quote(
            "TIMEFORMAT='times %R %U %S'; time " .. table.concat(words, " "))))
    local wall, user, system = result.err:match "^times ([%d.]+) ([%d.]+) ([%d.]+)\n$"
    assert(wall and result.status == 0, result.err)
    return tonumber(wall), user + system
end

local QUESTION = ("and why? "):rep(30)

local function run(calls, delay, ...)
    local words = table.pack("run", ...)
    for _, word in ipairs { "script.lua", calls, IN_FLIGHT, QUESTION } do
        words[#words + 1] = tostring(word)
    end
    os.remove(dir.path .. "/run.db")
    return seconds(delay, table.unpack(words))
end

local function compare()
    local cpu_with, cpu_without = {}, {}
    local ratio, with, without = measure.pairs(function()
        local wall, cpu = run(CALLS, DELAY_MS, "--log", "run.db")
        cpu_with[#cpu_with + 1] = cpu
        return wall
    end, function()
        local wall, cpu = run(CALLS, DELAY_MS, "--no-log")
        cpu_without[#cpu_without + 1] = cpu
        return wall
    end, PAIRS)
    local added = {}
    for i = 1, PAIRS do
        added[i] = cpu_with[i] / cpu_without[i] - 1
    end
    print(("run          %d calls of %d ms at %d in flight: %.0f ms logged, %.0f ms not"):format(
        CALLS, DELAY_MS, IN_FLIGHT, with * 1000, without * 1000))
    measure.report("wall with a log / without", ratio, "<=", 1.05)
    measure.report("CPU that the log adds / CPU of a call", measure.median(added), "<=", 1)
    print(("  CPU of a call that is not logged: %.0f us"):format(
        measure.median(cpu_without) * 1e6 / CALLS))
end

local function replay()
    run(REPLAYED, 0, "--log", "run.db")
    local walls = {}
    for i = 1, REPLAYS do
        walls[i] = seconds(0, "replay", "run.db")
    end
    print(("replay       %d calls"):format(REPLAYED))
    measure.report("wall", measure.median(walls), "<=", 1, "s")
end

compare()
replay()

local COUNTED = [[
local model = require "ponder.model"
local m = model.open "script:model.lua"
local function ask(text)
    assert(m:chat { messages = { { role = "user", content = text } } })
end
for i = 1, 5 do
    ask("warm " .. i)
end
local calls, entered = 0, 0
debug.sethook(function()
    local callee, caller = debug.getinfo(2, "S"), debug.getinfo(3, "S")
    if callee.what ~= "C" then
        calls = calls + 1
        entered = entered + (caller and caller.short_src == callee.short_src and 0 or 1)
    end
end, "c")
ask "counted"
debug.sethook()
print(calls, entered)
]]

local function count_calls()
    local counted <close> = shell.directory { ["script.lua"] = COUNTED,
        ["model.lua"] = 'return function() return { text = "yes", usage = { input_tokens = 9, '
            .. 'output_tokens = 1 } } end' }
    local result = shell.run(("cd %s; %s run --log run.db script.lua >$OUT 2>$ERR"):format(
        shell.quote(counted.path), shell.quote(shell.executable)))
    local calls, entered = result.out:match "^(%d+)\t(%d+)\n$"
    assert(calls, result.err)
    measure.report("Lua calls of a logged m:chat", tonumber(calls), "<=", 70, "calls")
    measure.report("  that enter another module", tonumber(entered), "<=", 35, "calls")
end

count_calls()
