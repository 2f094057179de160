--- Keeps many calls of a model in flight at once, and prints what that costs.
---
---     ponder run scripts/in_flight.lua                  2,000 calls, each logged before it is used
---     ponder run --no-log scripts/in_flight.lua 500
---
--- The model is another ponder on this machine: over HTTP, it answers each call after a second. The
--- CPU time is that of this process, without the server's.

local args = require "ponder.args"
local model = require "ponder.model"
local process = require "ponder.process"
local task = require "ponder.task"

local SERVER = [[
    local task = require "ponder.task"
    local function policy()
        task.sleep(1)
        return "pong"
    end
    local server = require("ponder.serve").new { listen = "127.0.0.1:0", concurrency = 10000,
        policies = { slow = policy } }
    print((assert(server:start())))
    io.stdout:flush()
    server:wait()]]

local _, operands = args.script("in_flight", { ... }, {}, { operands = 1,
    usage = "in_flight [CALLS]",
    about = "Keeps so many calls in flight at once (default: 2000), and prints what that costs." })
local count = math.tointeger(tonumber(operands[1] or 2000))
if not count or count < 1 then
    io.stderr:write("in_flight: expected a number of calls, such as 2000\n")
    os.exit(2)
end

local first = -1
while arg[first - 1] do first = first - 1 end -- the executable
local server <close> = assert(process.open { command = { arg[first], "-e", SERVER } })
local m = model.open("openai:slow", { base_url = "http://" .. assert(server:read_line()) .. "/v1",
    api_key = "none", concurrency = count, max_output_tokens = 100 })

local calls, flying, most = {}, 0, 0
for i = 1, count do calls[i] = "ping " .. i end
local started, cpu = task.now(), os.clock()
local answers = task.map(calls, function(text)
    flying = flying + 1
    most = math.max(most, flying)
    local answer = assert(m:complete(text))
    flying = flying - 1
    return answer
end, { concurrency = count })
cpu = os.clock() - cpu
print(("%d calls, %d of them in flight at once: %.1f s, %.2f s of CPU time"):format(#answers, most,
    task.now() - started, cpu))
