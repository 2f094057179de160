-- Measures the model client against a minimal C program on curl_multi and a server on this machine.
--
--     build/ponder run --no-log scripts/bench/model.lua        (`make bench`)
--
-- Pairs run one after the other: ours in the executable, which has its own memory limit and garbage
-- collector settings, without the run log. Figures are medians.

local json = require "ponder.json"
local model = require "ponder.model"
local search = require "ponder.search"
local task = require "ponder.task"
local transport = require "ponder.model.transport"
for _, name in ipairs { "calls", "shell" } do
    package.preload[name] = assert(loadfile(("spec/support/%s.lua"):format(name)))
end
local server = dofile "spec/support/server.lua"

local build = os.getenv("PONDER_BUILD") or "build"

local CALLS, IN_FLIGHT, DELAY_MS, PAIRS = 2000, 64, 50, 5
local STREAMS, DELTAS = 64, 2000
local SEARCH_MS = 100

local median = require("measure").median

local function resident_kb()
    local file <close> = assert(io.open("/proc/self/status"))
    return tonumber(file:read("a"):match("VmRSS:%s*(%d+)"))
end

local function numbers(n)
    local list = {}
    for i = 1, n do list[i] = i end
    return list
end

-- Runs a function with a client that has its own connections, so that each run opens new ones.
local function with_client(run)
    local wire = transport.new()
    local client = model.client { transport = wire, config = {}, env = function() return nil end }
    local results = table.pack(run(client, wire))
    wire:close()
    return table.unpack(results, 1, results.n)
end

local function open(client, s, steer)
    return client.open("openai:test-model", { api_key = "sk-0123456789abcdef", proxy = "",
        base_url = s.url .. "/s/" .. steer .. "/v1", concurrency = IN_FLIGHT, max_retries = 0 })
end

local function hello() return { messages = { { role = "user", content = "hello" } } } end

local function run_calls(s, steer, calls)
    return with_client(function(client, wire)
        local m = open(client, s, steer)
        local started, cpu = task.now(), os.clock()
        local replies = task.map(numbers(calls), function() return m:chat(hello()) end,
            { concurrency = 2 * IN_FLIGHT })
        local wall = (task.now() - started) * 1000
        cpu = (os.clock() - cpu) * 1000
        for i = 1, calls do assert(replies[i].text == "ok") end
        return { wall = wall, cpu = cpu, connections = wire:stats().connections }
    end)
end

local function run_c(s, steer, calls)
    local url = ("%s/s/%s/v1/chat/completions"):format(s.url, steer)
    local pipe <close> = assert(io.popen(("%s/curl_multi '%s' %d %d"):format(build, url, calls,
        IN_FLIGHT)))
    local wall, cpu, _, answered = pipe:read("n", "n", "n", "n")
    assert(answered == calls, "not every call of the C program was answered")
    return { wall = wall, cpu = cpu }
end

local function compare_calls(s)
    local steer = "delay=" .. DELAY_MS
    local ideal = math.ceil(CALLS / IN_FLIGHT) * DELAY_MS
    local walls, cpus, wall_ratios, cpu_ratios, connections = {}, {}, {}, {}, 0
    for i = 1, PAIRS do
        local ours, c = run_calls(s, steer, CALLS), run_c(s, steer, CALLS)
        walls[i], cpus[i] = ours.wall, ours.cpu
        wall_ratios[i], cpu_ratios[i] = ours.wall / c.wall, ours.cpu / c.cpu
        connections = math.max(connections, ours.connections)
    end
    print(("m:chat       %d at %d in flight, %d ms each, %d connections (<= %d)"):format(CALLS,
        IN_FLIGHT, DELAY_MS, connections, IN_FLIGHT))
    print(("  wall       %.0f ms: %.3f of ideal (<= 1.10), %.3f of the C program (<= 1.05)"):format(
        median(walls), median(walls) / ideal, median(wall_ratios)))
    print(("  cpu        %.0f us a call (<= 250), %.2f of the C program (<= 2.8)"):format(
        median(cpus) * 1000 / CALLS, median(cpu_ratios)))
end

local function check_memory(s)
    with_client(function(client)
        local m = open(client, s, "x=1")
        local function go(calls)
            task.map(numbers(calls), function() return (m:chat(hello())) ~= nil end,
                { concurrency = 2 * IN_FLIGHT })
            collectgarbage()
            collectgarbage()
            return resident_kb()
        end
        local after_thousand = go(1000)
        print(("  memory     %d KB resident after 1,000 calls, %d KB after 20,000"):format(
            after_thousand, go(19000)))
    end)
end

-- Each stream has its own task and on_delta.
local function run_streams(s)
    return with_client(function(client)
        local m = open(client, s, "deltas=" .. DELTAS)
        local deltas, bytes = 0, 0
        local started, cpu = task.now(), os.clock()
        task.map(numbers(STREAMS), function()
            local call = hello()
            function call.on_delta(text)
                deltas = deltas + 1
                bytes = bytes + #text
            end
            local reply = assert(m:chat(call))
            assert(#reply.text == DELTAS * #"word " and not reply.truncated)
        end)
        local wall = task.now() - started
        assert(deltas == STREAMS * DELTAS and bytes == deltas * #"word ")
        return deltas / wall, deltas / (os.clock() - cpu)
    end)
end

local function measure_streams(s)
    run_streams(s) -- the server makes its stream
    local by_wall, by_cpu = {}, {}
    for i = 1, PAIRS do by_wall[i], by_cpu[i] = run_streams(s) end
    print(("on_delta     %d streams of %d deltas"):format(STREAMS, DELTAS))
    print(("  deltas     %.0f a second of wall time (>= 300000), %.0f of CPU time"):format(
        median(by_wall), median(by_cpu)))
end

-- Expanding and scoring are each one call; 3 children. The critical path is the root's score, then
-- one expansion and one score a round.
local SEARCHES = {
    { name = "beam search  depth 4, width 5", rounds = 4, target = 1.15,
        search = "beam", beam_width = 5, max_depth = 4 },
    { name = "uct          batch of 8", rounds = 8, target = 1.05, -- of 1, 3, 8, 8... tickets
        search = "uct", batch = 8, max_iterations = 52 },
}

local function run_search(s, policy)
    return with_client(function(client)
        local m = open(client, s, "delay=" .. SEARCH_MS)
        local opts = {
            initial_state = 1,
            expand = function(state)
                assert(m:chat(hello()))
                return { state * 3 + 1, state * 3 + 2, state * 3 + 3 }
            end,
            evaluate = function(state)
                assert(m:chat(hello()))
                return state * 2654435761 % 4294967296
            end,
            is_terminal = function() return false end,
            k = 3, concurrency = IN_FLIGHT,
        }
        for _, name in ipairs { "search", "beam_width", "max_depth", "batch", "max_iterations" } do
            opts[name] = policy[name]
        end
        local started = task.now()
        assert(search.run(opts).best_node)
        return (task.now() - started) * 1000
    end)
end

local function measure_search(s)
    for _, policy in ipairs(SEARCHES) do
        local walls, critical = {}, SEARCH_MS * (1 + policy.rounds * 2)
        for i = 1, PAIRS do walls[i] = run_search(s, policy) end
        print(("%s, %d ms a call: %.0f ms, %.3f of the critical path (<= %.2f)"):format(policy.name,
            SEARCH_MS, median(walls), median(walls) / critical, policy.target))
    end
end

-- The overhead of the client: no network, a transport that answers at once.
local function measure_client()
    local body = json.encode { choices = { { message = { content = "ok" },
        finish_reason = "stop" } }, usage = { prompt_tokens = 10, completion_tokens = 5,
        total_tokens = 15 } }
    local result = { status = 200, headers = {}, body = body, total_ms = 1, queue_ms = 0 }
    local client = model.client { config = {}, env = function() return nil end,
        transport = { send = function() return result end, limit = function() end } }
    local m = client.open("openai:test-model", { api_key = "sk-0123456789abcdef" })
    local cpus = {}
    for i = 1, PAIRS do
        local cpu = os.clock()
        for _ = 1, 2000 do m:chat(hello()) end
        cpus[i] = (os.clock() - cpu) * 1e6 / 2000
    end
    print(("client       %.1f us of CPU a call besides the transport"):format(median(cpus)))
end

local s <close> = server.start()
assert(os.execute("make -s B=" .. build .. " " .. build .. "/curl_multi"))
measure_client()
compare_calls(s)
check_memory(s)
measure_streams(s)
measure_search(s)
