-- Measures ponder.core.net against a minimal C program on curl_multi and a server on this machine.
--
--     lua5.4 scripts/bench/net.lua        (`make bench` sets the paths)
--
-- Pairs run one after the other; figures are medians.

local poll = require("calls").poll
local json = require "ponder.json"
local net = require "ponder.core.net"
local server = require "server"

local build = os.getenv("PONDER_BUILD") or "build"

local CALLS, IN_FLIGHT, DELAY_MS, PAIRS = 2000, 64, 50, 5
local STREAMS, DELTAS = 64, 2000
local BODY = '{"messages":[{"content":"hello","role":"user"}],"model":"test-model"}'
local STREAM_BODY = '{"messages":[{"content":"hello","role":"user"}],"model":"m","stream":true}'

local median = require("measure").median

--- Wall time in ms; stock Lua has no clock that is fine enough.
local function wall_ms()
    local file <close> = assert(io.open("/proc/uptime"))
    return file:read("n") * 1000
end

local function resident_kb()
    local file <close> = assert(io.open("/proc/self/status"))
    return tonumber(file:read("a"):match("VmRSS:%s*(%d+)"))
end

--- Runs calls through a pump; `wall` is the time from the first submit to the last result.
local function run_calls(url, calls)
    local cpu, wall = os.clock(), 0
    local pump <close> = assert(net.open { proxy = "", max_in_flight_per_host = IN_FLIGHT })
    local headers, answered, batch = { ["content-type"] = "application/json" }, 0, {}
    for _ = 1, calls do
        pump:submit { url = url, headers = headers, body = BODY }
    end
    while pump:pending() > 0 do
        for i = 1, poll(pump, 1000, batch), 3 do
            local result = batch[i + 2]
            answered = answered + (result.status == 200 and #result.body > 0 and 1 or 0)
            wall = math.max(wall, result.queue_ms + result.total_ms)
        end
    end
    assert(answered == calls, "not every call was answered")
    return { wall = wall, cpu = (os.clock() - cpu) * 1000, connections = pump:stats().connections }
end

local function run_c(url, calls)
    local command = ("%s/curl_multi '%s' %d %d"):format(build, url, calls, IN_FLIGHT)
    local pipe <close> = assert(io.popen(command))
    local wall, cpu, connections, answered = pipe:read("n", "n", "n", "n")
    assert(answered == calls, "not every call of the C program was answered")
    return { wall = wall, cpu = cpu, connections = connections }
end

local function compare_calls(s)
    local url = s.url .. "/s/delay=" .. DELAY_MS .. "/v1/chat/completions"
    local ideal = math.ceil(CALLS / IN_FLIGHT) * DELAY_MS
    local ours, wall_ratios, cpu_ratios = {}, {}, {}
    local walls, cpus, connections = {}, {}, 0
    for i = 1, PAIRS do
        ours[i] = run_calls(url, CALLS)
        local c = run_c(url, CALLS)
        walls[i], cpus[i] = ours[i].wall, ours[i].cpu
        wall_ratios[i], cpu_ratios[i] = ours[i].wall / c.wall, ours[i].cpu / c.cpu
        connections = math.max(connections, ours[i].connections)
    end
    print(("calls        %d at %d in flight, %d ms each, %d connections"):format(CALLS, IN_FLIGHT,
        DELAY_MS, connections))
    local wall = median(walls)
    print(("  wall       %.0f ms: %.3f of ideal (<= 1.10), %.3f of the C program (<= 1.05)"):format(
        wall, wall / ideal, median(wall_ratios)))
    print(("  cpu        %.0f us a call (<= 250), %.2f of the C program (<= 2.5)"):format(
        median(cpus) * 1000 / CALLS, median(cpu_ratios)))
end

local function check_memory(s)
    local url = s.url .. "/v1/chat/completions"
    local pump <close> = assert(net.open { proxy = "" })
    local batch, answered = {}, 0
    local function go(calls)
        for i = 1, calls do
            pump:submit { url = url, body = BODY }
            while pump:pending() >= (i < calls and 2 * IN_FLIGHT or 1) do
                answered = answered + poll(pump, 1000, batch) // 3
            end
        end
        collectgarbage()
        collectgarbage()
        return resident_kb()
    end
    local after_thousand = go(1000)
    local after_all = go(19000)
    assert(answered == 20000)
    print(("  memory     %d KB resident after 1,000 calls, %d KB after 20,000"):format(
        after_thousand, after_all))
end

local function check_queue(s)
    local pump <close> = assert(net.open { proxy = "" })
    local before, cpu = resident_kb(), os.clock()
    for _ = 1, 10000 do
        pump:submit { url = s.url .. "/v1/chat/completions", body = BODY }
    end
    print(("queue        10,000 waiting: %.1f us and %.0f bytes each"):format(
        (os.clock() - cpu) * 100, (resident_kb() - before) * 1024 / 10000))
end

--- One run of all streams: deltas a second of wall time, and of this process's CPU time.
local function run_streams(s)
    local pump <close> = assert(net.open { proxy = "", max_in_flight_per_host = STREAMS })
    local url = ("%s/s/deltas=%d/v1/chat/completions"):format(s.url, DELTAS)
    local get, batch, deltas, bytes = json.get, {}, 0, 0
    local cpu, wall = os.clock(), 0
    for _ = 1, STREAMS do
        pump:submit { url = url, body = STREAM_BODY, stream = "sse" }
    end
    while pump:pending() > 0 do
        for i = 1, poll(pump, 1000, batch), 3 do
            local value = batch[i + 2]
            if batch[i + 1] then
                local text = get(value, "choices", 1, "delta", "content")
                if text then
                    deltas = deltas + 1
                    bytes = bytes + #text
                end
            else
                wall = math.max(wall, value.queue_ms + value.total_ms)
            end
        end
    end
    assert(deltas == STREAMS * DELTAS and bytes == deltas * #"word ")
    return deltas / wall * 1000, deltas / (os.clock() - cpu)
end

local function measure_streams(s)
    run_streams(s) -- the server makes its stream
    local by_wall, by_cpu = {}, {}
    for i = 1, PAIRS do
        by_wall[i], by_cpu[i] = run_streams(s)
    end
    print(("streams      %d of %d deltas"):format(STREAMS, DELTAS))
    print(("  deltas     %.0f a second of wall time (>= 300000), %.0f of CPU time"):format(
        median(by_wall), median(by_cpu)))
end

local function measure_server(s)
    local calls = 20000
    local run = run_c(s.url .. "/v1/chat/completions", calls)
    print(("server       %.0f answers a second to the C program"):format(calls / run.wall * 1000))
end

local started = wall_ms()
local s <close> = server.start()
measure_server(s)
check_queue(s)
compare_calls(s)
check_memory(s)
measure_streams(s)
print(("took %.0f s"):format((wall_ms() - started) / 1000))
