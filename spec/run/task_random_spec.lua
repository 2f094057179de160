-- ponder.task against a slow model of it (spec/support/task_model.lua): random programs, one log.

local model = require "task_model"
local program = require "task_program"
local task = require "ponder.task"

local function run_real(list)
    local now = 0
    local function clock() return now end
    local real = program.runner(clock)
    local opts = { clock = clock, wait = function(seconds) now = now + seconds end }
    local before = task.on_unjoined_error(function() end)
    local ok, err = pcall(task.run_with, opts, real.body, list)
    task.on_unjoined_error(before)
    err = ok and "" or err
    assert(ok or err:find("deadlock", 1, true) or err:find("nobody joined", 1, true)
        or err:find("RAISED", 1, true) or err:find("main task was cancelled", 1, true), err)
    return real.log, err:find("deadlock", 1, true)
end

-- A deadlock ends the model at once; the real tasks end one after the other, and log it.
local function compare(seed, list)
    local expected = model.run(list)
    local got, deadlocked = run_real(list)
    if deadlocked then
        got[#expected] = "deadlock"
        got = table.move(got, 1, #expected, 1, {})
    end
    for i = 1, math.max(#expected, #got) do
        if expected[i] ~= got[i] then
            error(("seed %d, line %d: expected %q, got %q"):format(
                seed, i, expected[i] or "nothing", got[i] or "nothing"))
        end
    end
    return got
end

describe("ponder.task", function()
    it("does what the model does, for random programs", function()
        local seen = {}
        for seed = 1, 1000 do
            math.randomseed(seed)
            local got = compare(seed, program.random())
            for _, line in ipairs(got) do
                local what = line:gsub("^%S+ task %d+: ", ""):gsub("%d+", "N")
                seen[what] = (seen[what] or 0) + 1
            end
        end
        for _, what in ipairs { "deadlock", "held", "left", "wake true", "cancel true", "join N ok",
            "join N failed", "join N ERROR", "join N CANCELLED", "map raised", "race raised",
            "race failed", "timeout TIMEOUT", "timeout raised", "timeout ok" } do
            assert.is_true((seen[what] or 0) >= 10, what .. " is too rare: " .. (seen[what] or 0))
        end
    end)
end)
