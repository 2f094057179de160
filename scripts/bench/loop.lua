-- Measures the event loop: the latency of waking a task, alone and among 1,000 others; the CPU time
-- of a call with 64 and with 10,000 in flight; the wake-ups of an idle process.
--
--     lua5.4 scripts/bench/loop.lua        (`make bench` sets the paths)

local poll = require("calls").poll
local loop = require "ponder.core.loop"
local measure = require "measure"
local net = require "ponder.core.net"
local process = require "ponder.process"
local server = require "server"
local task = require "ponder.task"

local median = measure.median

local ROUNDS, OTHERS = 300, 1000

--- Microseconds from the end of a sleep until its task runs.
local function measure_timers()
    local late = {}
    for i = 1, ROUNDS do
        local due = task.now() + 0.0013
        task.sleep(due - task.now())
        late[i] = (task.now() - due) * 1e6
    end
    return median(late)
end

--- Microseconds from the reply of a child process, which echoes a line, until the waiting task
--- runs: half of the round trip, which wakes two processes.
local function measure_lines(child)
    local took = {}
    for i = 1, ROUNDS do
        local sent = task.now()
        child:write "a line\n"
        child:read_line()
        took[i] = (task.now() - sent) * 1e6 / 2
    end
    return median(took)
end

local function measure_latency(others)
    task.run(function()
        local waiting = {}
        for i = 1, others do
            waiting[i] = task.spawn(task.sleep, 1000 + i)
        end
        local child <close> = assert(process.open { command = { "cat" } })
        print(("latency      among %4d others: timer %.0f us, descriptor %.0f us (<= 100)"):format(
            others, measure_timers(), measure_lines(child)))
        for _, handle in ipairs(waiting) do
            handle:cancel()
        end
    end)
end

local function measure_idle()
    task.run(function()
        for i = 1, OTHERS do
            task.spawn(task.timeout, 100 + i, task.sleep, 1)
        end
        task.sleep(0.1)
        local waits = loop.stats().waits
        task.sleep(0.5)
        print(("idle         %d wake-ups in 500 ms (<= 1)"):format(loop.stats().waits - waits))
    end)
end

--- CPU microseconds a call.
local function run_calls(s, in_flight, calls, delay_ms)
    local pump <close> = assert(net.open { proxy = "", max_in_flight_per_host = in_flight,
        max_total = in_flight })
    local url = ("%s/s/delay=%d/v1/chat/completions"):format(s.url, delay_ms)
    local cpu, answered, most, batch = os.clock(), 0, 0, {}
    for _ = 1, calls do
        pump:submit { url = url, body = '{"messages":[{"content":"hello","role":"user"}]}' }
    end
    while pump:pending() > 0 do
        for i = 1, poll(pump, nil, batch), 3 do
            answered = answered + (batch[i + 2].status == 200 and 1 or 0)
        end
        most = math.max(most, pump:stats().in_flight)
    end
    assert(answered == calls and most == in_flight)
    return (os.clock() - cpu) * 1e6 / calls
end

measure_latency(1)
measure_latency(OTHERS)
measure_idle()
local s <close> = server.start()
local ratio, many, few = measure.pairs(function()
    return run_calls(s, 10000, 40000, 1000)
end, function()
    return run_calls(s, 64, 20000, 20)
end)
print(("calls        %.0f us of CPU at 64 in flight, %.0f at 10,000: %.2f (<= 1.5)"):format(few,
    many, ratio))
