-- Measures ponder eval: what an item costs beside its calls, how near the wall time comes to the
-- ideal one, and how fast the page draws.
--
--     ponder run --no-log scripts/bench/eval.lua        (`make bench` sets the paths)
--
-- The figures of CPU are for logged runs: the bench runs itself as `ponder run --log`.

local measure = require "measure"

local ITEMS, WAITING, WAIT_S, IN_FLIGHT = 10000, 2000, 0.05, 64
local build = os.getenv "PONDER_BUILD" or "build"
local scratch = os.tmpname()

-- Runs code in a process of its own; what it prints, as a number.
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

local reached = true
local function report(...)
    reached = measure.report(...) and reached
end

print(("eval  %d items, trivial policy"):format(ITEMS))
report("CPU of an item, logged", median_of(TRIVIAL, "--log " .. scratch .. ".db", 3), "<=", 150,
    "us")
print(("  CPU of an item, not logged                           %10.4g us"):format(
    median_of(TRIVIAL, "--no-log", 3)))
local ideal = math.ceil(WAITING / IN_FLIGHT) * WAIT_S
report(("%d items of %g ms, %d in flight: wall / ideal"):format(WAITING, WAIT_S * 1000, IN_FLIGHT),
    median_of(SLEEPING, "--no-log", 3) / ideal, "<=", 1.06)
os.remove(scratch)
os.remove(scratch .. ".db")
os.exit(reached)
