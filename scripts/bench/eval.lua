-- Measures ponder eval: the overhead of an item, the wall time compared to the ideal, and how fast
-- the page draws.
--
--     ponder run --no-log scripts/bench/eval.lua        (`make bench` sets the paths)
--
-- The programs to measure run in processes of their own, with and without a log.

local measure = require "measure"

local ITEMS, WAITING, WAIT_S, IN_FLIGHT = 10000, 2000, 0.05, 64
local build = os.getenv "PONDER_BUILD" or "build"
local scratch = os.tmpname()

-- Runs code in a separate process; returns the number that it prints.
local function run(code, flags)
    local file <close> = assert(io.open(scratch, "wb"))
    file:write(code)
    file:close()
    local command = ("%s/ponder run %s %s"):format(build, flags, scratch)
    local pipe <close> = assert(io.popen(command))
    return assert(tonumber(pipe:read "l"), command)
end

local TRIVIAL = ([[
local eval = require "ponder.eval"
local data = {}
for i = 1, %d do data[i] = { id = i, question = "question " .. i, target = i } end
local clock = os.clock
local started = clock()
local result = assert(eval.run({ data = data, score = "exact",
    policies = { trivial = function(item) return item.target end } }, { concurrency = 64 }))
assert(result.policies[1].accuracy.value == 1)
print((clock() - started) / %d * 1e6)]]):format(ITEMS, ITEMS)

local SLEEPING = ([[
local eval, task = require "ponder.eval", require "ponder.task"
local data = {}
for i = 1, %d do data[i] = { id = i, target = i } end
local started = task.now()
assert(eval.run({ data = data, score = "exact", policies = { sleeps = function(item)
    task.sleep(%g)
    return item.target
end } }, { concurrency = %d }))
print(task.now() - started)]]):format(WAITING, WAIT_S, IN_FLIGHT)

local function median_of(code, flags, pairs)
    local list = {}
    for i = 1, pairs do
        os.remove(scratch .. ".db")
        list[i] = run(code, flags)
    end
    return measure.median(list)
end

print(("eval  %d items, trivial policy"):format(ITEMS))
measure.report("CPU of an item, logged", median_of(TRIVIAL, "--log " .. scratch .. ".db", 3), "<=",
    150, "us")
print(("  CPU of an item, not logged                           %10.4g us"):format(
    median_of(TRIVIAL, "--no-log", 3)))
local ideal = math.ceil(WAITING / IN_FLIGHT) * WAIT_S
measure.report(("%d items of %g ms, %d in flight: wall / ideal"):format(WAITING, WAIT_S * 1000,
    IN_FLIGHT), median_of(SLEEPING, "--no-log", 3) / ideal, "<=", 1.06)

-- ---- the page, in Chromium without a window ----

local browser = require "browser"
local page = require "ponder.show.eval.page"
local summary = require "ponder.judge.eval.summary"

local function result_of(n)
    local records = {}
    for i = 1, n do
        records[i] = { policy = "p", id = "item " .. i, epoch = 1, score = i % 3 == 0 and 1 or 0,
            outcome = i % 3 == 0 and "right" or "wrong", answer = ("answer %d "):format(i):rep(20),
            target = "target " .. i, question = ("question %d "):format(i):rep(20), calls = i % 9,
            tokens = 100, cost = 0.001, seconds = 1.5, critical_seconds = 1.2 }
    end
    return summary.new({ name = "bench", policies = { "p" }, baseline = "p", items = n,
        epochs = 1, seed = 0, scorers = { "exact" } }, records)
end

local file = assert(io.open(scratch .. ".html", "wb"))
file:write(page.write(result_of(ITEMS)))
print(("page  %d items, %.1f MB"):format(ITEMS, file:seek "end" / 1e6))
file:close()
do
    local b <close> = browser.start { width = 1440, height = 900 }
    local drawn = {}
    for i = 1, 5 do
        b:open(scratch .. ".html")
        drawn[i] = b:wait [[
            const painted = performance.getEntriesByName('first-contentful-paint')[0];
            const rows = performance.getEntriesByName('drawn')[0];
            return painted && rows && Math.max(painted.startTime, rows.startTime); ]]
    end
    measure.report("first drawing with its rows, ms", measure.median(drawn), "<=", 1500)
end

for _, ending in ipairs { "", ".db", ".html" } do
    os.remove(scratch .. ending)
end
