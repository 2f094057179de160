--- Runs the callbacks of a search concurrently. The result is the same as one at a time.
---
--- The engine (src/core/search.h) says which unit of work may start; each unit runs in its own
--- task, one callback after the other. When the search ends, the engine discards the results of
--- tickets whose turn has not come, so some callbacks run in vain. For the same reason an error
--- counts only when its ticket's turn comes. It then cancels all work at once; a failure that a
--- callback returned waits for the nodes before its own, which are in the partial result.

local scheduler = require "ponder.task.scheduler"
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

-- Closed when a unit's task ends; detects a task that was cancelled by one of its own callbacks.
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

-- Keeps a failure under the id by which the engine reports it when its turn comes. A later one of
-- the same ticket is that of a callback in turn, such as `stop`, which comes first.
function Driver:fail(unit, failure)
    local of_node, id = self.core:fail(unit, failure.error ~= nil)
    if id then
        local failures = of_node and self.node_failures or self.ticket_failures
        failures[id] = failure
    end
end

-- Calls a callback, with its node as context for the log. Returns its result, or nil and a failure.
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

-- Calls the next callback of a unit; returns whether there are more, or nil and a failure.
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
        local ok, has_more, failure = xpcall(self.step, self.describe, self, unit)
        if not ok then
            failure = { error = has_more } -- the engine refused the callback's result
        end
        if failure then
            self:fail(unit, failure)
        end
    until failure or not has_more
    ending.over = true
end

function Driver:start(unit)
    self.running = self.running + 1
    self.tasks[unit] = scheduler.spawn(self.scope, nil, self.work, self, unit)
end

-- The outcome of the search; with the message and code of a failed callback, or raising its error.
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
        if callbacks.deadline and callbacks.now() >= callbacks.deadline then
            core:finish "max_duration"
        end
        local unit = self.running < callbacks.concurrency and core:ask() or "wait"
        if unit == "done" then
            return self:outcome()
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

---Runs a search, up to `callbacks.concurrency` callbacks at once.
---@param core userdata of ponder.core.search, with its root
---@param callbacks table the checked options of search.run, with `now`, `deadline` and `wants_node`
---@param describe fun(err: any, callback?: string|false, id?: integer): table adds the callback
---  that raised an error; default: the one that `core` called last; false: none
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
        -- When the search must have ended its callbacks must, too, even one that computes.
        scope = { limit = scheduler.limit(task.current()), ended = function() end },
        tasks = {}, -- by unit
        node_failures = {},
        ticket_failures = {},
    }, { __index = Driver, __close = cancel_all })
    return driver:loop()
end

return concurrent
