--- While a run is logged, what Lua's own clocks tell its tasks goes through the tape: os.time,
--- os.date of now, os.clock, the seeds that math.randomseed draws, and the clock of the machines.

local machine = require "ponder.core.machine"
local scheduler = require "ponder.task.scheduler"

local clocks = {}

local date, time, clock, randomseed = os.date, os.time, os.clock, math.randomseed

-- Seeds come in pairs; the second is read when the first has been.
local function seeds()
    local first, second = randomseed()
    local next = first
    return function()
        local value = next
        next = second
        return value
    end
end

-- What a clock tells the task that runs: of the tape's, if it is followed.
local function read(name, live)
    local tape, t = scheduler.tape(), scheduler.current()
    if not tape or not t or scheduler.context("outside") then
        return live()
    end
    return tape:reading(name, live)
end

local function now()
    return math.tointeger(read("time", time))
end

--- Puts the tape's clocks in the place of Lua's, until the process ends.
function clocks.install()
    os.time = function(when) -- luacheck: ignore 122
        if when ~= nil then
            return time(when)
        end
        return now()
    end
    os.date = function(format, when) -- luacheck: ignore 122
        return date(format or "%c", when or now())
    end
    os.clock = function() -- luacheck: ignore 122
        return read("cpu", clock)
    end
    machine.clock_ms = function()
        return scheduler.now() * 1000
    end
    math.randomseed = function(...) -- luacheck: ignore 122
        if select("#", ...) > 0 then
            return randomseed(...)
        end
        local draw = seeds()
        return randomseed(read("seed", draw), read("seed", draw))
    end
end

return clocks
