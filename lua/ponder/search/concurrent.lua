--- Drives a search with many callbacks in flight. Nothing but the time differs from one at a time.
---
--- Nodes are taken up, and count, strictly in the order of the search. Only their work overlaps:
--- each node that is certain to be taken up soon has a job, a task of its own.
---
---     expand(state)      as soon as a slot is free
---     make the children  when the jobs before it have made theirs: ids come out in order
---     score them         all at the same time; evaluate, then is_terminal
---
--- The main loop goes through the jobs in order: it asks `stop`, waits for the job, reports its
--- events. What later jobs did in advance is forgotten when the search ends before their turn, so
--- callbacks may have run for nothing, but the tree is that of a sequential search. For the same
--- reason an error in a job is raised in its turn, and the children before a failed one are kept.

local task = require "ponder.task"

---@class Job
---@field id integer the node
---@field first? integer the first id that is or would be given to a child of it, once known
---@field last? integer the last child's id, or first - 1
---@field full? boolean max_nodes refused a child
---@field duplicates integer
---@field error? any what a callback raised, with its description
---@field failure? {message: string, code: string?} what a callback returned in place of a result
---@field done? boolean

local Driver = {}
Driver.__index = Driver

-- ---- waiting ----

-- Wakes the task that waits for a job's next step, if there is one.
local function signal(job, slot)
    local waiting = job[slot]
    if waiting then
        job[slot] = nil
        task.wake(waiting)
    end
end

local function wait(job, slot)
    job[slot] = task.current()
    task.park()
end

-- In each task: notices when it ends before its work is whole, cancelled by one of its callbacks.
local Ending = {}

function Ending:__close()
    local driver, job = self.driver, self.job
    if not self.whole and not driver.over then
        job.error = job.error or driver.describe("search.run: a callback cancelled its task", false)
        signal(job, "scorer")
        signal(job, "head")
    end
end

function Driver:spawn(job, f, ...)
    local handle
    handle = task.spawn(function(...)
        local ending <close> = setmetatable({ driver = self, job = job, whole = false }, Ending)
        f(self, job, ...)
        ending.whole = true
        self.tasks[handle] = nil
    end, ...)
    self.tasks[handle] = true
end

-- ---- callbacks ----

function Driver:call_in_slot(name, id, ...)
    local slot <close> = self.slots:acquire() -- luacheck: ignore 211
    local function describe(err)
        return self.describe(err, name, id)
    end
    local tree = self.callbacks.tree
    if not tree then
        return xpcall(self.callbacks[name], describe, ...)
    end
    return task.with_context("asker", { tree = tree, node = id, purpose = name }, xpcall,
        self.callbacks[name], describe, ...)
end

-- Calls a callback in a slot of its own. Returns its result, or raises `job` after noting in it
-- what went wrong.
function Driver:call(job, name, id, ...)
    local ok, result, message, code = self:call_in_slot(name, id, ...)
    if not ok then
        job.error = job.error or result
        error(job, 0)
    elseif result == nil and type(message) == "string" then
        job.failure = job.failure or { message = message, code = code }
        error(job, 0)
    end
    return result
end

-- Runs a step of a job. What its callbacks raised or returned in place of a result is in the job
-- already; any other error comes from the checks of their results.
function Driver:guard(job, step, ...)
    local ok, err = xpcall(step, function(err)
        return err == job and err or self.describe(err)
    end, self, job, ...)
    if not ok and err ~= job then
        job.error = job.error or err
    end
end

function Driver:node(name, id)
    return self.callbacks.wants_node[name] and self.core:node(id) or nil
end

-- ---- the steps of a job ----

function Driver:expand(job)
    local core, id = self.core, job.id
    job.list = self:call(job, "expand", id, core:state(id), self.callbacks.k,
        self:node("expand", id))
    job.length = math.min(core:check_children(id, job.list, self.callbacks.k), self.callbacks.k)
end

function Driver:make_children(job)
    local core, keys = self.core, self.keys
    for i = 1, job.length do
        local state, key = core:next_state(job.id, job.list, i), nil
        if keys then
            key = self:call(job, "key", job.id, state)
        end
        local _, refused = core:add(job.id, state, keys, key)
        job.last = core:count() - 1
        if refused == "duplicate" then
            job.duplicates = job.duplicates + 1
        elseif refused == "full" then
            job.full = true
            break
        end
    end
    job.list = nil
end

function Driver:test(job, id)
    local core = self.core
    core:test(id, self:call(job, "is_terminal", id, core:state(id), self:node("is_terminal", id)))
end

function Driver:score(job, id)
    local core = self.core
    core:score(id, self:call(job, "evaluate", id, core:state(id), self:node("evaluate", id)))
    self:test(job, id)
end

-- Runs `step(job, id)` for the nodes first..last at the same time. An error ends the wait at once.
function Driver:for_each(job, first, last, step)
    local pending = last - first + 1
    for id = first, last do
        self:spawn(job, function()
            self:guard(job, step, id)
            pending = pending - 1
            if pending == 0 or job.error then
                signal(job, "scorer")
            end
        end)
    end
    while pending > 0 and not job.error do
        wait(job, "scorer")
    end
end

-- Scores the nodes first..last: by `evaluate` each, or by one call of `evaluate_all`.
function Driver:score_nodes(job, first, last)
    if last < first then
        return
    elseif not self.callbacks.evaluate_all then
        return self:for_each(job, first, last, self.score)
    end
    local core, states = self.core, {}
    local nodes = self.callbacks.wants_node.evaluate_all and {} or nil
    for id = first, last do
        states[#states + 1] = core:state(id)
        if nodes then
            nodes[#nodes + 1] = core:node(id)
        end
    end
    core:score_all(first, last, self:call(job, "evaluate_all", first, states, nodes))
    self:for_each(job, first, last, self.test)
end

-- The whole of a job; `previous` is the job before it.
function Driver:work(job, previous)
    self:guard(job, self.expand)
    if previous and not previous.registered then
        wait(previous, "successor")
    end
    job.first = self.core:count()
    job.last = job.first - 1
    if not (job.error or job.failure) then
        self:guard(job, self.make_children)
    end
    -- After a failure the jobs behind this one will not count; their children may not be made.
    if not (job.error or job.failure) then
        job.registered = true
        signal(job, "successor")
        if not self.scores_levels then
            self:guard(job, self.score_nodes, job.first, job.last)
        end
    end
    job.done = true
    signal(job, "head")
    self:open_jobs()
end

function Driver:open(id)
    local job = { id = id, duplicates = 0 }
    self.jobs[id] = job
    self.uncommitted = self.uncommitted + 1
    self:spawn(job, self.work, self.newest)
    self.newest = job
    return job
end

-- Opens jobs for the nodes that are next for certain, up to one a slot.
function Driver:open_jobs()
    local core = self.core
    while self.uncommitted < self.callbacks.concurrency do
        local id = core:peek(self.ahead)
        if not id then
            break
        end
        self.ahead = self.ahead + 1
        if core:expandable(id) then
            self:open(id)
        end
    end
end

-- ---- the main loop ----

function Driver:emit(event)
    if self.callbacks.on_event then
        local ok, err = self:call_in_slot("on_event", event.id or 0, event)
        if not ok then
            error(err, 0)
        end
    end
end

function Driver:emit_scored(first, last)
    if not self.callbacks.on_event then
        return
    end
    for id = first, last do
        local node = self.core:node(id)
        self:emit { type = "scored", id = id, depth = node.depth, score = node.score,
            terminal = node.terminal, state = node.state }
    end
end

-- Raises or reports what went wrong in a job or in the main loop itself.
local function check(job)
    if job.error then
        error(job.error, 0)
    end
    return job.failure
end

-- Makes a job's work count: waits for it, reports it. Returns true when max_nodes ended the search.
function Driver:commit(job)
    local core = self.core
    while not (job.done or job.error) do
        wait(job, "head")
    end
    self.jobs[job.id] = nil
    self.uncommitted = self.uncommitted - 1
    if check(job) then
        self.main.failure = job.failure
        error(self.main, 0)
    end
    core:tally(1, job.duplicates)
    self.committed = job.last + 1
    self:emit { type = "expanded", id = job.id, depth = core:depth(job.id),
        children = job.last - job.first + 1 }
    if not self.scores_levels then
        self:emit_scored(job.first, job.last)
    end
    return job.full
end

-- beam with evaluate_all: scores the candidates that the level has made so far.
function Driver:commit_level()
    local first, last = self.level_first, self.core:count() - 1
    self.level_first = last + 1
    self:score_nodes(self.main, first, last)
    if check(self.main) then
        error(self.main, 0)
    end
    self:emit_scored(first, last)
end

function Driver:score_root()
    if self.keys then
        self.core:note_root_key(self.keys, self:call(self.main, "key", 0, self.core:state(0)))
    end
    self:score_nodes(self.main, 0, 0)
    if check(self.main) then
        error(self.main, 0)
    end
    self.level_first = 1
    self:emit_scored(0, 0)
end

-- Takes the next node up; returns it, or the outcome that ends the search.
function Driver:take()
    local core, callbacks = self.core, self.callbacks
    if callbacks.deadline and callbacks.now() >= callbacks.deadline then
        return nil, "max_duration"
    end
    local id = core:take()
    self.ahead = math.max(0, self.ahead - 1)
    local pruned = core:pruned()
    if pruned then
        self:emit { type = "pruned", ids = pruned }
    end
    if not id then
        return nil, "over"
    end
    if callbacks.stop then
        if core:check_stop(id, self:call(self.main, "stop", id, core:node(id))) then
            core:truncate(self.committed)
            return nil, "stop"
        end
    end
    return id
end

function Driver:loop()
    self:score_root()
    while true do
        local id, outcome = self:take()
        if not id then
            return outcome
        end
        local full = false
        if self.core:expandable(id) then
            local job = self.jobs[id] or self:open(id)
            self:open_jobs()
            full = self:commit(job)
        end
        if self.scores_levels and (full or self.core:round_over()) then
            self:commit_level()
        end
        if full then
            return "max_nodes"
        end
    end
end

local function cancel_all(driver)
    driver.over = true
    for handle in pairs(driver.tasks) do
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
        slots = task.semaphore(callbacks.concurrency),
        keys = callbacks.key and {} or nil,
        scores_levels = callbacks.search == "beam" and callbacks.evaluate_all ~= nil,
        main = {}, -- stands in for a job where the main loop calls callbacks
        jobs = {}, -- by node
        newest = nil,
        committed = 1, -- the nodes that count: the root, and the children of committed jobs
        uncommitted = 0, -- jobs
        over = false,
        ahead = 0, -- how many of the nodes that follow were looked at by open_jobs
        tasks = {},
    }, { __index = Driver, __close = cancel_all })
    local ok, outcome = pcall(driver.loop, driver)
    if ok then
        return outcome
    elseif outcome ~= driver.main then
        error(outcome, 0)
    elseif driver.main.error then
        error(driver.main.error, 0)
    end
    return "failed", driver.main.failure.message, driver.main.failure.code
end

return concurrent
