-- Measures queues with a separate redis-server: the CPU time of a trivial job in the coordinator
-- and the workers, the speed-up of two workers, and the time of waiting jobs compared to the ideal.
--
--     lua5.4 scripts/bench/queue.lua        (`make bench` sets the paths; JOBS=10000 for fewer)

local measure = require "measure"
local workers = require "workers"

local JOBS = math.tointeger(tonumber(os.getenv "JOBS" or 100000))
local COMPUTING, COMPUTE_STEPS = 64, 3000000
local NAP_S, NAPPERS, PLACES, NAPS_EACH = 0.05, 4, 64, 40

local JOB = [[
local task = require "ponder.task"
return {
    trivial = function(x) return x end,
    compute = function(steps) local x = 1 for i = 1, steps do x = x * 3 % (i + 7) end return x end,
    nap = function(seconds) task.sleep(seconds) return true end,
}]]

local MAIN = [[
local task = require "ponder.task"
local function memory()
    local file <close> = io.open "/proc/self/status"
    return tonumber(file:read "a":match "VmRSS:%%s+(%%d+)")
end
local items = {}
local function map(n)
    for i = 1, n do items[i] = %s end
    local _, errors = q:map(items, "%s", { concurrency = 512 })
    assert(not next(errors), next(errors) and errors[next(errors)].message)
end
map(%d)
local started, cpu = task.now(), os.clock()
map(%d)
print(task.now() - started, os.clock() - cpu)
local before = memory() -- tables of a fixed size are full
map(%d)
print(memory() - before)]]

local TICKS = 100 -- clock ticks per second of /proc/PID/stat

local function cpu_of(process)
    local file <close> = assert(io.open("/proc/" .. process.pid .. "/stat"))
    local user, system = file:read "a":match "^.*%) %S+ (.*)$":match(
        "^" .. ("%S+ "):rep(10) .. "(%d+) (%d+)")
    return (tonumber(user) + tonumber(system)) / TICKS
end

-- Seconds, CPU seconds of the coordinator and of the workers; if `again`, the growth of the
-- coordinator in KiB in a second map.
local function run(count, places, jobs, item, call, again)
    local lab <close> = workers.lab { ["job.lua"] = JOB }
    local crew, before, after, warm_up, more = {}, 0, 0, jobs // 10, again and jobs or 0
    for i = 1, count do
        crew[i] = lab:worker { "--concurrency", tostring(places) }
    end
    os.execute "sleep 0.5"
    for _, worker in ipairs(crew) do
        before = before + cpu_of(worker)
    end
    local done = lab:coordinate(MAIN:format(item, call, warm_up, jobs, more), 600)
    assert(done.status == 0, done.err)
    for _, worker in ipairs(crew) do
        after = after + cpu_of(worker)
    end
    local wall, cpu, grown = done.out:match "^(%S+)\t(%S+)\n(%S+)\n"
    return tonumber(wall), tonumber(cpu), (after - before) * jobs / (jobs + warm_up + more),
        tonumber(grown)
end

local _, coordinator, theirs, grown = run(4, 64, JOBS, "i", "trivial", true)
measure.report(("%d trivial jobs: CPU of one"):format(JOBS), (coordinator + theirs) / JOBS * 1e6,
    "<=", 250, "us")
print(("  of these, the coordinator %.0f us, workers %.0f us"):format(coordinator / JOBS * 1e6,
    theirs / JOBS * 1e6))
measure.report("growth of the coordinator in as many jobs more", grown / 1024, "<=", 4, "MiB")

local function compute(count)
    return function()
        return (run(count, 1, COMPUTING, tostring(COMPUTE_STEPS), "compute"))
    end
end
measure.report("a computation: 1 worker relative to 2", measure.pairs(compute(1), compute(2), 3),
    ">=", 1.8)
local naps = {}
for i = 1, 3 do
    naps[i] = run(NAPPERS, PLACES, NAPPERS * PLACES * NAPS_EACH, tostring(NAP_S), "nap")
end
measure.report("jobs of 50 ms: time over the ideal", measure.median(naps) / (NAP_S * NAPS_EACH),
    "<=", 1.10)
