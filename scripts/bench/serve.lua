-- Measures ponder serve: requests per second compared to a minimal libmicrohttpd server, the
-- overhead of a request, 1,000 concurrent streams, and memory growth over 100,000 requests.
--
--     lua5.4 scripts/bench/serve.lua        (`make bench` sets the paths)

local poll = require("calls").poll
local json = require "ponder.json"
local measure = require "measure"
local net = require "ponder.core.net"
local task = require "ponder.task"

local build = os.getenv "PONDER_BUILD" or "build"

local CONNECTIONS, SECONDS, PAIRS, REQUESTS = 32, 2, 5, 100000
local STREAMS, DELTAS, PAUSE_S, RAMP_S = 1000, 100, 0.1, 4

local POLICIES = [[
local task = require "ponder.task"
return {
    trivial = function() return "hello" end,
    stream = function(request)
        for i = 1, %d do
            request:write("word ")
            task.sleep(%g)
        end
    end,
}
]]
local POST = [[
wrk.method, wrk.headers["Content-Type"] = "POST", "application/json"
wrk.body = '{"model":"trivial","messages":[{"role":"user","content":"hello"}]}'
]]

local function file_of(text)
    local path = os.tmpname()
    os.rename(path, path .. ".lua")
    local file <close> = assert(io.open(path .. ".lua", "w"))
    file:write(text)
    return path .. ".lua"
end

local policies, post = file_of(POLICIES:format(DELTAS, PAUSE_S)), file_of(POST)

-- Starts a program that prints its port.
local function start(command, pattern, ...)
    local pipe = assert(io.popen(("echo $$; exec " .. command .. " 2>&1"):format(...)))
    local pid, line = pipe:read "l", ""
    repeat
        line = assert(pipe:read "l", "the server did not start: " .. line)
    until line:match(pattern)
    return { pid = pid, port = line:match(pattern), pipe = pipe }
end

-- Requests a second, and the median milliseconds of one.
local function load_with(server, connections, seconds)
    local pipe <close> = assert(io.popen(("wrk -t1 -c%d -d%ds --latency -s %s "
        .. "http://127.0.0.1:%s/v1/chat/completions"):format(connections, math.ceil(seconds), post,
        server.port)))
    local out = pipe:read "a"
    assert(not out:find("Non-2xx", 1, true) and not out:find("Socket errors", 1, true), out)
    local median, unit = out:match "50%%%s+([%d.]+)(%a+)"
    return tonumber(out:match "Requests/sec:%s+([%d.]+)"),
        median * assert(({ us = 1e-3, ms = 1, s = 1e3 })[unit])
end

local function resident_kb(server)
    local file <close> = assert(io.open("/proc/" .. server.pid .. "/status"))
    return tonumber(file:read "a":match "VmRSS:%s*(%d+)")
end

local function percentile(list, p)
    table.sort(list)
    return list[math.max(math.ceil(#list * p), 1)]
end

-- Opens the streams one after the other, so that all are open at once for a while. Returns the 99th
-- percentile of the milliseconds to the first delta, the number of deltas, and the server's growth
-- in KiB per stream.
local function run_streams(server)
    local pump <close> = assert(net.open { proxy = "", max_in_flight_per_host = STREAMS,
        max_total = STREAMS })
    local asked, first, deltas, whole, before = {}, {}, 0, 0, resident_kb(server)
    local body = json.encode { model = "stream", stream = true,
        messages = { { role = "user", content = "hello" } } }
    local batch, began, most, most_kb = {}, task.now(), 0, 0
    local function take(n)
        for i = 1, n, 3 do
            local id, is_event, value = batch[i], batch[i + 1], batch[i + 2]
            local text = is_event and json.get(value, "choices", 1, "delta", "content")
            if text and text ~= "" then
                first[id] = first[id] or (task.now() - asked[id]) * 1e3
                deltas = deltas + 1
            elseif not is_event then
                whole = whole + (value.done and 1 or 0)
            end
        end
    end
    for i = 1, STREAMS do
        local id = pump:submit { url = "http://127.0.0.1:" .. server.port ..
            "/v1/chat/completions", body = body, stream = "sse",
            headers = { ["content-type"] = "application/json" } }
        asked[id] = task.now()
        repeat
            take(poll(pump, 1, batch))
        until task.now() - began >= i / STREAMS * RAMP_S
        most = math.max(most, pump:pending())
    end
    while pump:pending() > 0 do
        most_kb = most_kb > 0 and most_kb or resident_kb(server)
        take(poll(pump, 1000, batch))
    end
    local list = {}
    for _, ms in pairs(first) do
        list[#list + 1] = ms
    end
    assert(whole == STREAMS and most == STREAMS, whole .. " streams were whole")
    return percentile(list, 0.99), deltas, (most_kb - before) / STREAMS
end

local theirs = start("%s/http_minimal", "^(%d+)$", build)
local ours = start("%s/ponder serve %s --listen 127.0.0.1:0 --concurrency %d", ":(%d+)/v1", build,
    policies, STREAMS + CONNECTIONS)

local ratio, mine, minimal = measure.pairs(function()
    return (load_with(ours, CONNECTIONS, SECONDS))
end, function()
    return (load_with(theirs, CONNECTIONS, SECONDS))
end, PAIRS)
measure.report(("%.0f requests/s, %.0f of libmicrohttpd alone"):format(mine, minimal), ratio, ">=",
    0.5)
local _, alone = load_with(ours, 1, SECONDS)
local _, floor = load_with(theirs, 1, SECONDS)
measure.report("overhead of a request, p50", alone - floor, "<=", 0.5, "ms")
local late, deltas, kb = run_streams(ours)
measure.report(("%d streams at once: first delta, p99"):format(STREAMS), late, "<=", 50, "ms")
measure.report("deltas that came", deltas, ">=", STREAMS * DELTAS)
measure.report("memory of a stream", kb, "<=", 64, "KiB")
load_with(ours, CONNECTIONS, 10000 / mine)
local after_few = resident_kb(ours)
load_with(ours, CONNECTIONS, REQUESTS / mine)
measure.report(("growth over %d requests"):format(REQUESTS), resident_kb(ours) / after_few - 1,
    "<=", 0.05)
os.execute(("kill %s %s"):format(ours.pid, theirs.pid))
os.remove(policies)
os.remove(post)
