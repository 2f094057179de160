--- Scopes of tasks that end before the call that started them returns: map, all, race, timeout.
---
--- The call holds its scope in a to-be-closed variable. However the call ends (it returns, raises,
--- is cancelled or interrupted), closing the scope cancels the remaining tasks.

local json = require "ponder.json"
local scheduler = require "ponder.run.task.scheduler"

---@class ponder.task.Scope
---@field private owner ponder.task.Handle the task that made the call
---@field private what string the name of the call
---@field private live integer number of tasks that have not ended
---@field private started integer number of tasks started, at indexes 1 to `started`
---@field private tasks (ponder.task.Handle|false)[] by index; false: ended. (nil would turn the
---list into a hash table that is rebuilt for each task.)
---@field private on_end fun(scope, t: ponder.task.Handle) called when a task has ended, until
---  closed
---@field private closed boolean
---@field limit number when its tasks must have ended: see core.create
local Scope = {}
Scope.__index = Scope

local function open(what, owner, on_end, seconds)
    return setmetatable({
        owner = owner, what = what, on_end = on_end, closed = false,
        live = 0, started = 0, tasks = {}, limit = scheduler.limit(owner, seconds),
    }, Scope)
end

function Scope:spawn(f, ...)
    local index = self.started + 1
    local t = scheduler.spawn(self, index, f, ...)
    self.started, self.live = index, self.live + 1
    self.tasks[index] = t
    return t
end

function Scope:ended(t)
    self.tasks[t.index] = false
    self.live = self.live - 1
    if not self.closed then
        self:on_end(t)
    end
end

function Scope:wait()
    scheduler.park(self.owner, self.what)
end

function Scope:wake()
    scheduler.wake(self.owner, self.what)
end

--- Cancels the tasks that have not ended, oldest first.
function Scope:close()
    self.closed = true
    for i = 1, self.live > 0 and self.started or 0 do
        local t = self.tasks[i]
        if t then
            scheduler.cancel(t)
        end
    end
end

Scope.__close = Scope.close

-- A task raised: cancels the others, and makes the call raise.
local function give_up(scope, t)
    scope.failed = t
    scope:close()
    scope:wake()
end

local scopes = {}

local function nothing() end

-- A list whose length for `#` and JSON is `n`, even if it has holes.
local Results = { __holes = true, __index = nothing, __len = function(results)
    return math.max(results.n or 0, rawlen(results)) -- scripts may append, or remove `n`
end }

-- The same for the errors of n items; an empty list if there are none.
local function as_list(errors, n)
    if next(errors) == nil then
        return json.array(errors)
    end
    return setmetatable(errors, { __holes = true, __index = nothing,
        __len = function() return n end })
end

---@param what string the name of the call, for messages
---@param items any[] a copy
---@param n integer
---@param f function called as f(item, index)
---@param concurrency integer
---@param collect boolean
function scopes.map(what, items, n, f, concurrency, collect)
    local results, errors = setmetatable({ n = n }, Results), {}

    local function keep(t)
        local i = t.index
        if t.state == "done" then
            local r = t.results
            if r then
                local value, message = r[1], r[2]
                results[i] = value
                if value == nil and message ~= nil then
                    errors[i] = { message = message, code = r[3] }
                end
            end
        else
            local _, message, code = scheduler.outcome(t)
            errors[i] = { message = message, code = code, error = t.error }
        end
    end

    local scope <close> = open(what, scheduler.check(what), function(scope, t)
        if t.state == "failed" and not collect then
            return give_up(scope, t)
        end
        keep(t)
        local i = scope.started + 1
        if i <= n then
            scope:spawn(f, items[i], i)
        elseif scope.live == 0 then
            scope:wake()
        end
    end)
    for i = 1, math.min(n, concurrency) do
        scope:spawn(f, items[i], i)
    end
    if n > 0 then
        scope:wait()
    end
    if scope.failed then
        scheduler.raise(scope.failed)
    end
    return results, as_list(errors, n)
end

--- Calls f(1), f(2)... each in its own task, as far as it may. An error of one is raised.
---@param what string the name of the call
---@param f fun(index: integer)
---@param highest fun(): integer? the index up to which tasks may start; it may grow when one has
---  ended. nil: it is over, and the others are cancelled. It may not wait
function scopes.series(what, f, concurrency, highest)
    local function fill(scope)
        local last = highest()
        if not last then
            scope:close()
            return scope:wake()
        end
        while scope.started < last and scope.live < concurrency do
            scope:spawn(f, scope.started + 1)
        end
        if scope.live == 0 then
            scope:wake()
        end
    end
    local scope <close> = open(what, scheduler.check(what), function(scope, t)
        if t.state == "failed" then
            return give_up(scope, t)
        end
        fill(scope)
    end)
    for index = 1, math.min(highest(), concurrency) do
        scope:spawn(f, index)
    end
    scope:wait()
    if scope.failed then
        scheduler.raise(scope.failed)
    end
end

---@param functions function[]
function scopes.race(functions)
    local winner
    local scope <close> = open("task.race", scheduler.check("task.race"), function(scope, t)
        if t.state == "failed" then
            return give_up(scope, t)
        end
        local results = t.results
        local won = t.state == "done" and not (results and results[1] == nil and results[2] ~= nil)
        if won or scope.live == 0 then
            winner = t
            scope:close()
            scope:wake()
        end
    end)
    for _, f in ipairs(functions) do
        scope:spawn(f)
    end
    scope:wait()
    if scope.failed then
        scheduler.raise(scope.failed)
    end
    return scheduler.outcome(winner)
end

---@return string message
function scopes.too_late(seconds)
    return ("timed out after %g s"):format(seconds)
end

---See task.timeout.
function scopes.timeout(seconds, f, ...)
    local owner = scheduler.check("task.timeout")
    local scope <close> = open("task.timeout", owner, Scope.wake, seconds)
    local t = scope:spawn(f, ...)
    if seconds < math.huge then
        scheduler.park_until(owner, "task.timeout", scheduler.now() + seconds)
    else
        scope:wait()
    end
    if scope.live > 0 then
        return nil, scopes.too_late(seconds), "TIMEOUT"
    elseif t.state == "failed" then
        scheduler.raise(t)
    end
    return scheduler.outcome(t)
end

return scopes
