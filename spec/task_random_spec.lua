-- ponder.task against a slow model of it (spec/support/task_model.lua): random programs, one log.

local model = require "task_model"
local task = require "ponder.task"

-- Runs a program of the model with the real tasks.
local Real = {}
Real.__index = Real

function Real:write(...)
    local id = task.current().id
    self.log[#self.log + 1] = ("%g task %d: "):format(self.now, id) .. table.concat({ ... }, " ")
end

local function text_of(ok, value, _, code)
    if not ok then
        if tostring(value):find("deadlock", 1, true) then
            error(value, 0)
        end
        return "raised"
    elseif code == "FAIL" then
        return "failed"
    end
    return code or value
end

local OPS = {}

function OPS.sleep(_, seconds)
    task.sleep(seconds)
end

function OPS.pass()
    task.sleep(0)
end

function OPS.park()
    task.park()
end

function OPS.wake(real, id)
    if real.handles[id] then
        real:write("wake", tostring(task.wake(real.handles[id])))
    end
end

OPS["raise"] = function()
    error("RAISED")
end

function OPS.fail()
    return "failed"
end

function OPS.spawn(real, program)
    local handle = task.spawn(real.body, program)
    real.handles[handle.id] = handle
    real:write("spawn", handle.id)
end

function OPS.join(real, id)
    local handle = real.handles[id]
    if handle and handle ~= task.current() then
        real:write("join", id, text_of(true, handle:join()))
    end
end

function OPS.cancel(real, id)
    if real.handles[id] then
        real:write("cancel", tostring(real.handles[id]:cancel()))
    end
end

function OPS.hold(real, program)
    local _ <close> = real.semaphore:acquire()
    real:write("held")
    return real:execute(program)
end

function OPS.map(real, programs, concurrency, on_error)
    local opts = { concurrency = concurrency, on_error = on_error }
    local ok, results, errors = pcall(task.map, programs, real.body, opts)
    local texts = {}
    for i = 1, ok and #programs or 0 do
        texts[i] = text_of(true, results[i], nil, errors[i] and errors[i].code)
    end
    real:write("map", ok and table.concat(texts, ",") or text_of(ok, results))
end

function OPS.race(real, programs)
    local functions = {}
    for i, program in ipairs(programs) do
        functions[i] = function()
            return real.body(program)
        end
    end
    real:write("race", text_of(pcall(task.race, functions)))
end

function OPS.timeout(real, seconds, program)
    real:write("timeout", text_of(pcall(task.timeout, seconds, real.body, program)))
end

function Real:execute(program)
    for _, op in ipairs(program) do
        if OPS[op[1]](self, table.unpack(op, 2)) == "failed" then
            return "failed"
        end
    end
end

-- Every other program runs inside a coroutine of its task, which must make no difference.
function Real:run_program(program)
    self.handles[task.current().id] = task.current()
    local _ <close> = setmetatable({}, {
        __close = function()
            self:write("left")
        end,
    })
    local result
    if #program % 2 == 0 then
        result = coroutine.wrap(self.execute)(self, program)
    else
        result = self:execute(program)
    end
    if result == "failed" then
        return nil, "failed", "FAIL"
    end
    return "ok"
end

local function run_real(program)
    local real = setmetatable({
        log = {}, handles = {}, now = 0, semaphore = task.semaphore(1),
    }, Real)
    function real.body(p)
        return real:run_program(p)
    end
    local opts = {
        clock = function()
            return real.now
        end,
        wait = function(seconds)
            real.now = real.now + seconds
        end,
    }
    local before = task.on_unjoined_error(function() end)
    local ok, err = pcall(task.run_with, opts, real.body, program)
    task.on_unjoined_error(before)
    err = ok and "" or err
    assert(ok or err:find("deadlock", 1, true) or err:find("nobody joined", 1, true)
        or err:find("RAISED", 1, true) or err:find("main task was cancelled", 1, true), err)
    return real.log, err:find("deadlock", 1, true)
end

-- A deadlock ends the model at once; the real tasks end one after the other, and say so.
local function compare(seed, program)
    local expected = model.run(program)
    local got, deadlocked = run_real(program)
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

local function pick(list)
    return list[math.random(#list)]
end

local random_program

local function random_programs(depth)
    local programs = {}
    for i = 1, math.random(4) do
        programs[i] = random_program(depth)
    end
    return programs
end

local SIMPLE = {
    function() return { "sleep", math.random(6) / 2 } end,
    function() return { "sleep", math.random(6) / 2 } end,
    function() return { "pass" } end,
    function() return { "park" } end,
    function() return { "wake", math.random(20) } end,
    function() return { "wake", math.random(8) } end,
    function() return { "join", math.random(20) } end,
    function() return { "cancel", math.random(20) } end,
}
local ENDING = {
    function() return { "raise" } end,
    function() return { "fail" } end,
}
local NESTED = {
    function(depth) return { "spawn", random_program(depth) } end,
    function(depth) return { "spawn", random_program(depth) } end,
    function(depth) return { "hold", random_program(depth) } end,
    function(depth)
        return { "map", random_programs(depth), math.random(3), pick { "raise", "collect" } }
    end,
    function(depth) return { "race", random_programs(depth) } end,
    function(depth) return { "timeout", math.random(8) / 2, random_program(depth) } end,
}

function random_program(depth, is_main)
    local program = {}
    for i = 1, math.random(is_main and 12 or 5) do
        program[i] = pick(depth > 0 and math.random(2) == 1 and NESTED or SIMPLE)(depth - 1)
    end
    if not is_main and math.random(4) == 1 then
        program[#program + 1] = pick(ENDING)()
    end
    return program
end

-- The main program joins everything in the end, so that a deadlock always reaches it there.
local function random_main()
    local program = random_program(3, true)
    for id = 2, 60 do
        program[#program + 1] = { "join", id }
    end
    return program
end

describe("ponder.task", function()
    it("does what the model does, for random programs", function()
        local seen = {}
        for seed = 1, 1000 do
            math.randomseed(seed)
            local got = compare(seed, random_main())
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
