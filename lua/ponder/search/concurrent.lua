--- Runs the callbacks of a search concurrently. The result is the same as one at a time.
---
--- The program of each ticket (src/api/search_program.c) runs in a task of its own, and the part
--- about each of its new nodes in another. Order is two waits: a ticket makes its children after
--- the tickets before it have, and commits them, in its turn, after these have committed. When the
--- search ends, what was done for later tickets is dropped, so some callbacks run in vain. For the
--- same reason an error counts only in its ticket's turn. It then cancels all work at once.

local scheduler = require "ponder.task.scheduler"
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

-- Runs a part of a program; returns whether it went well. Else the failure is kept until the
-- ticket's turn: {message, code} that a callback returned, or {error}. Of several children the
-- first counts.
function Driver:step(ticket, program, part, child)
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
            self.core.step, handler, self.core, program, part)
    else
        ok, done, message, code = xpcall(self.core.step, handler, self.core, program, part)
    end
    if ok and done then
        return true
    end
    local failure = { message = message, code = code, error = not ok and done or nil,
        child = child }
    if not ticket.failure or child and child < ticket.failure.child then
        ticket.failure = failure
    end
    return false
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

function Driver:score_child(ticket, child)
    local holder = {}
    self:start(holder, function()
        if not self.core:outcome() then
            self:step(ticket, self.core:program(ticket.index, child), "score", child)
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

-- The work on a ticket before its turn; returns at its first failure. Holds a slot when it begins.
function Driver:prepare(ticket)
    local core, opts, program = self.core, self.opts, ticket.program
    if self:is_in_turn(ticket) and not self:step(ticket, program, "stop") then
        ticket.failure.is_of_stop = true
        return self:release(ticket)
    elseif core:outcome() then
        return
    end
    local went_well = self:step(ticket, program, "expand")
    self:release(ticket)
    wait_for(ticket, function() return self.maker == ticket.index end)
    if not went_well or not self:step(ticket, program, "make") then
        return
    end
    self.maker = self.maker + 1
    wake(self.tickets[self.maker] and self.tickets[self.maker].waiting)
    local _, _, _, first, _, last = core:ticket(ticket.index)
    if opts.evaluate_all then
        self:acquire(ticket)
        went_well = self:step(ticket, program, "score_all", first)
        self:release(ticket)
        if not went_well then
            return
        end
    end
    ticket.left = last - first
    for child = first, last - 1 do
        self.children[#self.children + 1] = { ticket, child }
    end
    wake(self.waiting)
    wait_for(ticket, function()
        return ticket.left == 0 or ticket.failure and ticket.failure.error ~= nil
    end)
    if not ticket.failure and type(opts.prior) ~= "string" and opts.prior then
        self:acquire(ticket)
        self:step(ticket, program, "prior", last)
        self:release(ticket)
    end
end

-- In its turn: its nodes count, or its failure does.
function Driver:commit(ticket)
    local core, failure, part = self.core, ticket.failure, "commit"
    if failure and failure.child then
        core:fail(ticket.program, failure.child)
    elseif failure then
        part = "stop"
    end
    ticket.failure = nil
    if failure and failure.is_of_stop or self:step(ticket, ticket.program, part) then
        self.failure = not core:outcome() and failure or nil
    else
        self.failure = ticket.failure
    end
    if self.failure then
        core:finish "failed"
    end
end

function Driver:work(ticket)
    self:start(ticket, function()
        self:prepare(ticket)
        wait_for(ticket, function()
            return self.core:outcome() or self:is_in_turn(ticket)
        end)
        if not self.core:outcome() then
            self:commit(ticket)
            local following = self.tickets[ticket.index + 1]
            wake(following and following.waiting)
        end
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
    local ticket = { index = self.next, program = core:program(self.next), left = 0 }
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

local function cancel_all(driver)
    driver.over = true
    for _, handle in pairs(driver.tasks) do
        handle:cancel()
    end
end

local concurrent = {}

---Runs a search, up to `opts.concurrency` callbacks at once.
---@param core userdata of ponder.core.search, which has begun
---@param opts table the checked options of search.run
---@param describe fun(err: any, program: userdata?): table adds the callback that raised an error
---@return true? ok
---@return string? message of a callback that failed
---@return string? code
function concurrent.run(core, opts, describe)
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
    }, { __index = Driver, __close = cancel_all })
    return driver:loop()
end

return concurrent
