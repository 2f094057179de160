--- Runs the callbacks of a search concurrently. The result is the same as one at a time.
---
--- The program of each ticket (src/api/search_program.c) runs in a task of its own, and the part
--- about each of its new nodes in another. Order is what the program waits for (`waits`): a ticket
--- makes its children after the tickets before it have, and commits them, in its turn, after these
--- have committed. When the search ends, what was done for later tickets is dropped, so some
--- callbacks run in vain. For the same reason an error counts only in its ticket's turn.

local scopes = require "ponder.run.task.scope"
local task = require "ponder.task"

local concurrent = {}

local CANCELLED = "search.run: a callback cancelled its task"

---Runs a search, up to `opts.concurrency` callbacks at once.
---@param core userdata of ponder.core.search
---@param opts table the checked options of search.run
---@param functions table the argument of core:begin
---@param describe fun(err: any, program: userdata?): table adds the callback that raised an error
---@return true? ok
---@return string? message of a callback that failed
---@return string? code
function concurrent.run(core, opts, functions, describe)
    local concurrency, called = opts.concurrency, functions.callbacks
    local slots = task.semaphore(concurrency)
    local maker = 0 -- the ticket of the round that makes its children next
    local waiting = {} -- the tasks of tickets that wait for their turn, or to be the maker
    local message, code -- of a callback that failed
    local thrown -- {error} of a callback that raised one: not its task's, lest it be reported too

    for _, name in ipairs { "expand", "evaluate_all", "prior" } do
        local callback = called[name]
        called[name] = callback and function(...)
            local _ <close> = slots:acquire()
            return callback(...)
        end
    end

    -- Calls core:work for a program: true, or false and what it raised, or true and its results.
    local function work(program, raised)
        local function handler(err)
            return describe(err, program)
        end
        if not opts.tree then
            return xpcall(core.work, handler, core, program, raised)
        end
        local function place()
            local callback, id = core:calling(program)
            return id, callback
        end
        return task.with_context("asker", { tree = opts.tree, place = place }, xpcall, core.work,
            handler, core, program, raised)
    end

    local function wait_until(is_ready, ticket)
        while not is_ready(ticket) do
            waiting[ticket] = task.current()
            task.park()
            waiting[ticket] = nil
        end
        return true
    end

    local function wake(ticket)
        if waiting[ticket] then
            task.wake(waiting[ticket])
        end
    end

    local function is_maker(ticket)
        return maker == ticket
    end

    local function is_in_turn(ticket)
        return select(2, core:round()) == ticket
    end

    -- What a ticket's program waits for.
    local waits = {}

    function waits.order(ticket)
        return wait_until(is_maker, ticket)
    end

    local made = called.made -- of a policy in Lua
    function waits.made(ticket)
        maker = maker + 1
        wake(maker)
        return not made or made(ticket)
    end

    function waits.children(ticket)
        local _, _, _, first, _, last = core:ticket(ticket)
        local failed = last -- the first child that has: those after it count no more
        local function score(child)
            local _ <close> = slots:acquire()
            if child > failed then
                return true
            end
            local ok, done, why, its_code = work(core:program(ticket, child))
            if not ok then
                error(done, 0)
            elseif not done then
                failed = math.min(failed, child)
            end
            return done, why, its_code
        end
        local children = {}
        for child = first, last - 1 do
            children[#children + 1] = child
        end
        local _, errors = scopes.map("search.run", children, #children, score, concurrency, false)
        local failure = errors[failed - first + 1]
        if failure then
            return nil, failure.message, failure.code
        elseif next(errors) then
            error(CANCELLED, 0)
        end
        return true
    end

    function waits.turn(ticket)
        return wait_until(is_in_turn, ticket)
    end

    for name, wait in pairs(waits) do
        called[name] = wait
    end

    -- A level may be full before its last ticket: those that follow do not count.
    local function is_dropped(ticket)
        return ticket >= core:round()
    end

    local function work_ticket(ticket)
        if is_dropped(ticket) then
            return
        end
        local program = core:program(ticket)
        local ok, done, why, its_code = work(program)
        local raised = not ok and done
        if is_dropped(ticket) then
            return
        elseif raised then
            ok, done, why, its_code = work(program, true)
        end
        if not ok or raised and not core:outcome() then
            thrown = { not ok and done or raised }
        elseif not done then
            message, code = why, its_code
        end
        wake(ticket + 1)
    end

    -- The tickets that were added to the round, from `first` on.
    local function run_tickets(first)
        local worked, ended = 0, -1
        scopes.series("search.run", function(i)
            work_ticket(first + i - 1)
            worked = worked + 1
        end, concurrency, function() -- called at the beginning, and when a task has ended
            local count, turn = core:round()
            ended = ended + 1
            local goes_on = ended == worked and not (thrown or core:outcome()) and turn < count
            return goes_on and count - first or nil
        end)
        if thrown then
            error(thrown[1], 0)
        elseif ended > worked then
            error(CANCELLED, 0)
        end
    end

    core:begin(functions)
    while not core:outcome() do
        local ok, why, its_code = core:next_round()
        if not ok then
            return nil, why, its_code
        end
        if not core:outcome() then
            maker = select(2, core:round())
            run_tickets(maker)
        end
    end
    if message then
        return nil, message, code
    end
    return true
end

return concurrent
