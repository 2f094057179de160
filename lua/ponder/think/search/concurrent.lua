--- Runs the callbacks of a search concurrently. The result is the same as one at a time.
---
--- The program of each ticket (src/api/search_program.c) runs in a task of its own, and the part
--- about each of its new nodes in another. Order is what the program waits for (Driver.waits): a
--- ticket makes its children after the tickets before it have, and commits them, in its turn, after
--- these have committed. When the search ends, what was done for later tickets is dropped, so some
--- callbacks run in vain. For the same reason an error counts only in its ticket's turn. It then
--- cancels all work at once.

local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"

local Driver = {}

local function wake(waiting)
    if waiting then
        task.wake(waiting)
    end
end

-- Parks the current task until `is_ready()`; `entry` (a ticket, the driver) can be woken.
local function wait_for(entry, is_ready)
    while not is_ready() do
        entry.waiting = task.current()
        task.park()
        entry.waiting = nil
    end
end

-- Runs a program: core:work, or core:settle with a child. Returns nil, or a failure: {message,
-- code} that a callback returned, or {error}.
function Driver:run(f, program, child)
    local function handler(err)
        return self.describe(err, program)
    end
    local tree, ok, done, message, code = self.opts.tree -- luacheck: ignore 311
    if tree then
        local function place()
            local callback, id = self.core:calling(program)
            return id, callback
        end
        ok, done, message, code = task.with_context("asker", { tree = tree, place = place }, xpcall,
            f, handler, self.core, program, child)
    else
        ok, done, message, code = xpcall(f, handler, self.core, program, child)
    end
    return not (ok and done) and { message = message, code = code, error = not ok and done or nil }
        or nil
end

-- Takes a slot, or waits for one: callbacks in flight are at most `concurrency`.
function Driver:acquire(ticket)
    while self.running >= self.opts.concurrency do
        self.queue[#self.queue + 1] = task.current()
        task.park()
    end
    self.running = self.running + 1
    ticket.has_slot = true
end

function Driver:release(holder)
    if holder.has_slot then
        holder.has_slot = false
        self.running = self.running - 1
        wake(table.remove(self.queue, 1))
        wake(self.waiting)
    end
end

-- Closed when a task ends; detects one that was cancelled by a callback of its own.
local Ending = {}

function Ending:__close()
    local driver = self.driver
    driver.tasks[self] = nil
    driver:release(self.holder)
    if not self.over and not driver.over and not self.holder.is_dropped then
        driver.failure = { error = driver.describe("search.run: a callback cancelled its task") }
        driver.core:finish "failed"
    end
    wake(driver.waiting)
end

-- Starts a task for a ticket or a child, which holds a slot.
function Driver:start(holder, f)
    local ending = setmetatable({ driver = self, holder = holder }, Ending)
    self.running = self.running + 1
    holder.has_slot = true
    self.tasks[ending] = scheduler.spawn(self.scope, nil, function()
        local closing <close> = ending
        f()
        closing.over = true
    end)
end

-- Whether a child of the ticket before this one has failed: of several the first counts.
local function is_in_vain(ticket, child)
    return ticket.failure and ticket.failure.child < child
end

function Driver:score_child(ticket, child)
    local holder = {}
    self:start(holder, function()
        local failure = not self.core:outcome() and not is_in_vain(ticket, child)
            and self:run(self.core.work, self.core:program(ticket.index, child))
        if failure and not is_in_vain(ticket, child) then
            ticket.failure, failure.child = failure, child
        end
        self:release(holder)
        ticket.left = ticket.left - 1
        wake(ticket.waiting)
    end)
end

function Driver:is_in_turn(ticket)
    local count, turn = self.core:round()
    return turn == ticket.index and turn < count and not ticket.is_dropped
end

-- What a ticket's program waits for: functions of the driver and the ticket, which holds a slot in
-- its callbacks.
local waits = {}

function waits.order(self, ticket)
    self:release(ticket)
    wait_for(ticket, function() return self.maker == ticket.index end)
    return true
end

function waits.made(self, ticket)
    self.maker = self.maker + 1
    wake(self.tickets[self.maker] and self.tickets[self.maker].waiting)
    if self.opts.evaluate_all and not ticket.has_slot then
        self:acquire(ticket)
    end
    return true
end

function waits.children(self, ticket)
    self:release(ticket)
    local _, _, _, first, _, last = self.core:ticket(ticket.index)
    ticket.left = last - first
    for child = first, last - 1 do
        self.children[#self.children + 1] = { ticket, child }
    end
    wake(self.waiting)
    wait_for(ticket, function()
        return ticket.left == 0 or ticket.failure and ticket.failure.error ~= nil
    end)
    if ticket.failure then
        return nil, "a child failed"
    elseif type(self.opts.prior) ~= "string" and self.opts.prior then
        self:acquire(ticket)
    end
    return true
end

function waits.turn(self, ticket)
    self:release(ticket)
    wait_for(ticket, function() return self.core:outcome() or self:is_in_turn(ticket) end)
    ticket.in_turn = true
    return true
end

function Driver:work(ticket)
    self:start(ticket, function()
        local core = self.core
        local failure = self:run(core.work, ticket.program)
        failure = ticket.failure or failure
        if failure and not ticket.in_turn then
            waits.turn(self, ticket)
            if core:outcome() then
                return
            end
            local later = self:run(core.settle, ticket.program, failure.child)
            failure = later or not core:outcome() and failure or nil
        end
        if failure then
            self.failure = failure
            core:finish "failed"
        end
        local following = self.tickets[ticket.index + 1]
        wake(following and following.waiting)
    end)
end

-- A level may be full before its last ticket: those that follow do not count.
function Driver:drop_tickets(count)
    for ending, handle in pairs(self.tasks) do
        if ending.holder.index and ending.holder.index >= count then
            ending.holder.is_dropped = true
            handle:cancel()
        end
    end
    self.next, self.maker = count, count
end

-- Starts what may start: new nodes first, then tickets, up to `concurrency` ahead of the turn.
-- Returns whether it started something.
function Driver:start_next()
    local core, window = self.core, self.opts.concurrency
    if self.running >= window then
        return false
    end
    local child = table.remove(self.children, 1)
    if child then
        self:score_child(table.unpack(child))
        return true
    end
    local count, turn = core:round()
    if self.next == count and turn < count and self.next - turn < window then
        core:extend(window)
        count = core:round()
    end
    if self.next == count or self.next - turn >= window then
        return false
    end
    local ticket = { index = self.next, program = core:program(self.next) }
    self.tickets[self.next], self.tickets[turn - 1] = ticket, nil
    self.next = self.next + 1
    self:work(ticket)
    return true
end

function Driver:loop()
    local core, opts = self.core, self.opts
    while true do
        if opts.deadline and task.now() >= opts.deadline then
            core:finish "max_duration"
        end
        if core:outcome() then
            break
        end
        local count, turn = core:round()
        if turn == count then -- the round is over, or none has begun
            if self.next > count then
                self:drop_tickets(count)
            end
            local ok, message, code = core:next_round()
            if not ok then
                return nil, message, code
            end
            local _, first = core:round()
            if first == 0 then
                self.tickets, self.next, self.maker = {}, 0, 0
            end
        elseif not self:start_next() then
            self.waiting = task.current()
            task.park()
            self.waiting = nil
        end
    end
    local failure = self.failure
    if failure and failure.error ~= nil then
        error(failure.error, 0)
    elseif failure then
        return nil, failure.message, failure.code
    end
    return true
end

local concurrent = {}

---Runs a search, up to `opts.concurrency` callbacks at once.
---@param core userdata of ponder.core.search
---@param opts table the checked options of search.run
---@param functions table the argument of core:begin
---@param describe fun(err: any, program: userdata?): table adds the callback that raised an error
---@return true? ok
---@return string? message of a callback that failed
---@return string? code
function concurrent.run(core, opts, functions, describe)
    local driver <close> = setmetatable({
        core = core,
        opts = opts,
        describe = describe,
        running = 0,
        queue = {}, -- tasks that wait for a slot
        over = false,
        -- When the search must have ended its callbacks must, too, even one that computes.
        scope = { limit = scheduler.limit(task.current()), ended = function() end },
        tasks = {},
        tickets = {}, -- of the round, by index from 0
        next = 0, -- the ticket to start
        maker = 0, -- the ticket that makes its children next
        children = {}, -- {ticket, id}: new nodes that wait for a slot
    }, { __index = Driver, __close = function(driver)
        driver.over = true
        for _, handle in pairs(driver.tasks) do
            handle:cancel()
        end
    end })
    for name, wait in pairs(waits) do
        functions.callbacks[name] = function(index)
            return wait(driver, driver.tickets[index])
        end
    end
    core:begin(functions)
    return driver:loop()
end

return concurrent
