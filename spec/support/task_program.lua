--- Random programs of tasks, and what runs them: spec/support/task_model.lua says what they do.

local task = require "ponder.task"

local program = {}

-- Runs a program of the model with the real tasks.
local Real = {}
Real.__index = Real

function Real:write(...)
    local id = task.current().id
    self.log[#self.log + 1] = ("%g task %d: "):format(self.clock(), id)
        .. table.concat({ ... }, " ")
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

OPS["raise"] = function() error("RAISED") end

function OPS.fail()
    return "failed"
end

function OPS.spawn(real, list)
    local handle = task.spawn(real.body, list)
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

function OPS.hold(real, list)
    local _ <close> = real.semaphore:acquire()
    real:write("held")
    return real:execute(list)
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
    for i, list in ipairs(programs) do
        functions[i] = function() return real.body(list) end
    end
    real:write("race", text_of(pcall(task.race, functions)))
end

function OPS.timeout(real, seconds, list)
    real:write("timeout", text_of(pcall(task.timeout, seconds, real.body, list)))
end

function Real:execute(list)
    for _, op in ipairs(list) do
        if OPS[op[1]](self, table.unpack(op, 2)) == "failed" then
            return "failed"
        end
    end
end

-- Every other program runs inside a coroutine of its task, which must make no difference.
function Real:run_program(list)
    self.handles[task.current().id] = task.current()
    local _ <close> = setmetatable({}, {
        __close = function() self:write("left") end,
    })
    local result
    if #list % 2 == 0 then
        result = coroutine.wrap(self.execute)(self, list)
    else
        result = self:execute(list)
    end
    if result == "failed" then
        return nil, "failed", "FAIL"
    end
    return "ok"
end

--- Runs programs and logs what happens.
---@param clock fun(): number
---@return {log: string[], body: fun(program: table)}
function program.runner(clock)
    local real = setmetatable({ log = {}, handles = {}, clock = clock,
        semaphore = task.semaphore(1) }, Real)
    function real.body(list)
        return real:run_program(list)
    end
    return real
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
    local list = {}
    for i = 1, math.random(is_main and 12 or 5) do
        list[i] = pick(depth > 0 and math.random(2) == 1 and NESTED or SIMPLE)(depth - 1)
    end
    if not is_main and math.random(4) == 1 then
        list[#list + 1] = pick(ENDING)()
    end
    return list
end

--- A program that joins everything in the end, so that a deadlock always reaches it there. It
--- draws from math.random.
---@return table
function program.random()
    local list = random_program(3, true)
    for id = 2, 60 do
        list[#list + 1] = { "join", id }
    end
    return list
end

return program
