--- A slow, obvious model of ponder.task for comparison.
---
--- A program is a list of operations, run by a task. The model keeps each task's place in its
--- program in a stack of its own, so it needs no coroutine, and finds everything by going through
--- lists.
---
---     { "sleep", seconds }  { "pass" }  { "park" }  { "wake", id }  { "raise" }  { "fail" }
---     { "spawn", program }  { "join", id }  { "cancel", id }  { "hold", program }
---     { "map", programs, concurrency, on_error }  { "race", programs }
---     { "timeout", seconds, program }
---
--- `fail` ends its program with nil, "failed"; `hold` runs a program while it holds a semaphore's
--- only permit. Ids that no task has are ignored. Both sides write the same log.

local model = {}

local ENDED = { done = true, failed = true, cancelled = true }

local World = {}
World.__index = World

function World:write(t, ...)
    self.log[#self.log + 1] = ("%g task %d: "):format(self.now, t.id) .. table.concat({ ... }, " ")
end

-- A task that map, race or timeout made is known when it has begun.
function World:find(id)
    local t = self.tasks[id]
    return t and (t.begun or not t.scope) and t or nil
end

local function remove(list, value)
    for i, v in ipairs(list) do
        if v == value then
            return table.remove(list, i)
        end
    end
end

function World:start(program, scope, index)
    local t = {
        id = #self.tasks + 1, state = "ready", scope = scope, index = index, waiters = {},
        stack = { { program = program, at = 1 } },
    }
    local main = self.tasks[1]
    t.wanted = main and (main.state == "failed" or main.state == "cancelled")
    self.tasks[t.id] = t
    self.ready[#self.ready + 1] = t
    return t
end

function World:make_ready(t)
    remove(self.timers, t)
    t.state = "ready"
    self.ready[#self.ready + 1] = t
end

-- Parks `t`; `go_on` runs when it is woken.
function World:park(t, what, go_on, deadline)
    t.state, t.what, t.go_on, t.deadline = "parked", what, go_on, deadline
    if deadline then
        self.timers[#self.timers + 1] = t
    end
end

function World:release()
    local t = table.remove(self.queue, 1)
    if t then
        self:make_ready(t)
    else
        self.free = true
    end
end

function World:close_scope(scope)
    scope.closed = true
    for _, child in ipairs(scope.children) do
        self:cancel(child)
    end
end

-- Leaves the programs of `t`, the innermost first, and ends it.
function World:unwind(t, state)
    for i = #t.stack, 1, -1 do
        local frame = t.stack[i]
        if frame.scope then
            self:close_scope(frame.scope)
        elseif frame.hold then
            self:release()
        end
    end
    if t.begun then
        self:write(t, "left")
    end
    t.state, t.stack = state, {}
    for _, w in ipairs(t.waiters) do
        self:make_ready(w)
    end
    if t.scope and not t.scope.closed then
        t.scope.on_end(t)
    end
    if t == self.tasks[1] and state ~= "done" then
        for _, other in ipairs(self.tasks) do
            self:cancel(other)
        end
    end
end

function World:cancel(t, by)
    if ENDED[t.state] or t.state == "closing" then
        return false
    elseif t.state == "running" then
        t.wanted = true
        if by == t then
            self:unwind(t, "cancelled")
        end
        return true
    end
    remove(self.timers, t)
    if t.what == "acquire" and not remove(self.queue, t) then
        self:release() -- it had been given the permit, but has not run yet
    end
    for _, other in ipairs(self.tasks) do
        remove(other.waiters, t)
    end
    t.state = "closing"
    self:unwind(t, "cancelled")
    return true
end

local function outcome(t)
    if t.state == "done" then
        return t.failed and "failed" or "ok"
    end
    return t.state == "failed" and "ERROR" or "CANCELLED"
end

-- Waits in a scope: its frame is on the stack until the wait is over.
function World:enter_scope(t, what, scope, finish, deadline)
    t.stack[#t.stack + 1] = { program = {}, at = 1, scope = scope }
    self:park(t, what, function()
        table.remove(t.stack)
        self:close_scope(scope)
        self:write(t, what, finish())
    end, deadline)
end

function World:spawn_child(scope, program)
    local child = self:start(program, scope, #scope.children + 1)
    scope.children[#scope.children + 1] = child
end

local function live(scope)
    local n = 0
    for _, child in ipairs(scope.children) do
        n = n + (ENDED[child.state] and 0 or 1)
    end
    return n
end

local OPS = {}

function OPS.sleep(world, t, seconds)
    world:park(t, "sleep", nil, world.now + seconds)
end

function OPS.pass(world, t)
    world:make_ready(t)
end

function OPS.park(world, t)
    world:park(t, "park")
end

function OPS.wake(world, t, id)
    local other = world:find(id)
    if other then
        local can = other.state == "parked" and other.what == "park"
        if can then
            world:make_ready(other)
        end
        world:write(t, "wake", tostring(can))
    end
end

OPS["raise"] = function(world, t)
    world:unwind(t, "failed")
end

function OPS.fail(_, t)
    t.failed = true
    t.stack[#t.stack].at = math.huge
    for i = #t.stack - 1, 1, -1 do
        t.stack[i].at = math.huge
    end
end

function OPS.spawn(world, t, program)
    world:write(t, "spawn", world:start(program).id)
end

function OPS.join(world, t, id)
    local other = world:find(id)
    if not other or other == t then
        return
    end
    local function report()
        world:write(t, "join", id, outcome(other))
    end
    if ENDED[other.state] then
        report()
    else
        other.waiters[#other.waiters + 1] = t
        world:park(t, "join", report)
    end
end

function OPS.cancel(world, t, id)
    local other = world:find(id)
    if other then
        local was_alive = tostring(world:cancel(other, t))
        if other ~= t then
            world:write(t, "cancel", was_alive)
        end
    end
end

function OPS.hold(world, t, program)
    local function held()
        world:write(t, "held")
        t.stack[#t.stack + 1] = { program = program, at = 1, hold = true }
    end
    if world.free then
        world.free = false
        held()
    else
        world.queue[#world.queue + 1] = t
        world:park(t, "acquire", held)
    end
end

function OPS.map(world, t, programs, concurrency, on_error)
    local scope = { children = {} }
    local texts, raised = {}, false
    function scope.on_end(child)
        if child.state == "failed" and on_error == "raise" then
            raised = true
            world:close_scope(scope)
            return world:make_ready(t)
        end
        texts[child.index] = outcome(child)
        if #scope.children < #programs then
            world:spawn_child(scope, programs[#scope.children + 1])
        elseif live(scope) == 0 then
            world:make_ready(t)
        end
    end
    for i = 1, math.min(#programs, concurrency) do
        world:spawn_child(scope, programs[i])
    end
    world:enter_scope(t, "map", scope, function()
        return raised and "raised" or table.concat(texts, ",")
    end)
end

function OPS.race(world, t, programs)
    local scope = { children = {} }
    local winner
    function scope.on_end(child)
        if child.state == "failed" or outcome(child) == "ok" or live(scope) == 0 then
            winner = child
            world:close_scope(scope)
            world:make_ready(t)
        end
    end
    for i = 1, #programs do
        world:spawn_child(scope, programs[i])
    end
    world:enter_scope(t, "race", scope, function()
        return winner.state == "failed" and "raised" or outcome(winner)
    end)
end

function OPS.timeout(world, t, seconds, program)
    local scope = { children = {} }
    function scope.on_end()
        if t.state == "parked" then
            world:make_ready(t)
        end
    end
    world:spawn_child(scope, program)
    local child = scope.children[1]
    local function finish()
        if child.timed_out then
            return "TIMEOUT"
        end
        return child.state == "failed" and "raised" or outcome(child)
    end
    world:enter_scope(t, "timeout", scope, finish, world.now + seconds)
    local go_on = t.go_on
    t.go_on = function()
        child.timed_out = live(scope) > 0
        go_on()
    end
end

function World:step(t)
    if t.wanted then -- it was spawned after the main task had failed
        return self:cancel(t)
    end
    local go_on = t.go_on
    t.state, t.what, t.go_on, t.begun = "running", nil, nil, true
    if go_on then
        go_on()
    end
    while t.state == "running" do
        local frame = t.stack[#t.stack]
        local op = frame.program[frame.at]
        if op then
            frame.at = frame.at + 1
            OPS[op[1]](self, t, table.unpack(op, 2))
            if t.wanted and (t.state == "parked" or t.state == "ready") then
                self:cancel(t)
            end
        elseif #t.stack > 1 then
            table.remove(t.stack)
            self:release()
        else
            self:unwind(t, "done")
        end
    end
end

-- The list of timers is in order of creation.
function World:first_timer()
    local first
    for _, t in ipairs(self.timers) do
        if not first or t.deadline < first.deadline then
            first = t
        end
    end
    return first
end

function World:any_alive()
    for _, t in ipairs(self.tasks) do
        if not ENDED[t.state] then
            return true
        end
    end
    return false
end

--- Runs `program` as the main task.
---@return string[] log
function model.run(program)
    local world = setmetatable({
        log = {}, tasks = {}, ready = {}, timers = {}, queue = {}, free = true, now = 0,
    }, World)
    world:start(program)
    repeat
        local round = world.ready
        world.ready = {}
        for _, t in ipairs(round) do
            if t.state == "ready" then
                world:step(t)
            end
        end
        local first = world:first_timer()
        if #world.ready == 0 and first then
            world.now = first.deadline
        elseif #world.ready == 0 and world:any_alive() then
            world.log[#world.log + 1] = "deadlock"
            return world.log
        end
        while first and first.deadline <= world.now do
            world:make_ready(first)
            first = world:first_timer()
        end
    until not world:any_alive()
    return world.log
end

return model
