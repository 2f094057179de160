--- Drives a search with many callbacks in flight. Nothing but the time differs from one at a time.
---
--- The engine (src/core/search.h) says which unit of work may start; each runs in a task of its
--- own, callback after callback. What units of later tickets do in advance is forgotten by the
--- engine when the search ends before their turn, so callbacks may have run for nothing. For the
--- same reason an error counts only when its turn has come.

local task = require "ponder.task"

local Driver = {}
Driver.__index = Driver

local function wake(driver)
    local waiting = driver.waiting
    if waiting then
        driver.waiting = nil
        task.wake(waiting)
    end
end

-- In each task: notices when it ends before its unit is over, cancelled by one of its callbacks.
local Ending = {}

function Ending:__close()
    local driver = self.driver
    driver.tasks[self.unit] = nil
    driver.running = driver.running - 1
    if not self.over and not driver.over then
        driver:fail(self.unit, { error = driver.describe(
            "search.run: a callback cancelled its task", false) })
    end
    wake(driver)
end

-- Notes what went wrong, by where the engine will find it when its turn has come.
function Driver:fail(unit, failure)
    local of_node, id = self.core:fail(unit)
    local failures = of_node and self.node_failures or self.ticket_failures
    failures[id] = failures[id] or failure
end

-- Calls a callback; the log is told which node it is for. Returns its result, or nil and what went
-- wrong.
function Driver:call(name, id, callback, ...)
    if not name then
        return nil
    end
    local function describe(err)
        return self.describe(err, name, id)
    end
    local tree, ok, result, message, code = self.callbacks.tree -- luacheck: ignore 311
    if tree then
        ok, result, message, code = task.with_context("asker",
            { tree = tree, node = id, purpose = name }, xpcall, callback, describe, ...)
    else
        ok, result, message, code = xpcall(callback, describe, ...)
    end
    if not ok then
        return nil, { error = result }
    elseif name ~= "on_event" and result == nil and type(message) == "string" then
        return nil, { message = message, code = code }
    end
    return result
end

-- One step of a unit; returns whether it goes on, or nil and what went wrong.
function Driver:step(unit)
    local core = self.core
    local result, failure = self:call(core:callback(unit))
    if failure then
        return nil, failure
    end
    return core:tell(unit, result)
end

function Driver:work(unit)
    local ending <close> = setmetatable({ driver = self, unit = unit }, Ending)
    repeat
        local ok, goes_on, failure = xpcall(self.step, self.describe, self, unit)
        if not ok then
            failure = { error = goes_on } -- from the checks of what callbacks return
        end
        if failure then
            self:fail(unit, failure)
        end
    until failure or not goes_on
    ending.over = true
end

function Driver:start(unit)
    self.running = self.running + 1
    self.tasks[unit] = task.spawn(self.work, self, unit)
end

-- The outcome of the search, and what a callback failed with.
function Driver:outcome()
    local outcome, of_node, id = self.core:outcome()
    if outcome ~= "failed" then
        return outcome
    end
    local failure = (of_node and self.node_failures or self.ticket_failures)[id]
    if failure.error ~= nil then
        error(failure.error, 0)
    end
    return outcome, failure.message, failure.code
end

function Driver:loop()
    local core, callbacks = self.core, self.callbacks
    core:begin(callbacks)
    while true do
        local unit = self.running < callbacks.concurrency and core:ask() or "wait"
        if unit == "done" then
            return self:outcome()
        elseif unit == "turn" then
            if callbacks.now() >= callbacks.deadline then
                core:settle "max_duration"
            end
        elseif unit ~= "wait" then
            self:start(unit)
        else
            self.waiting = task.current()
            task.park()
        end
    end
end

local function cancel_all(driver)
    driver.over = true
    for _, handle in pairs(driver.tasks) do
        handle:cancel()
    end
end

local concurrent = {}

---Runs a search's callbacks, up to `callbacks.concurrency` of them in flight.
---@param core userdata of ponder.core.search, with its root
---@param callbacks table the checked options of search.run, with `now`, `deadline` and `wants_node`
---@param describe fun(err: any, callback?: string|false, id?: integer): table an error to raise,
---  with the callback that raised it; without a name the one that `core` called last; false: none
---@return string outcome as core:run does; or "failed"
---@return string? message
---@return string? code
function concurrent.run(core, callbacks, describe)
    local driver <close> = setmetatable({
        core = core,
        callbacks = callbacks,
        describe = describe,
        running = 0,
        over = false,
        tasks = {}, -- by unit
        node_failures = {},
        ticket_failures = {},
    }, { __index = Driver, __close = cancel_all })
    return driver:loop()
end

return concurrent
