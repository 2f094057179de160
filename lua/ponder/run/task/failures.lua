--- What was raised: its text, its traceback, and reports of failed tasks that nobody joined.
---
--- Only its task refers to a failure. Once the task's handle is collected nobody can join the task;
--- the failure's finalizer then queues it for the scheduler, which reports it between two rounds.
--- Failures that were neither joined nor collected are reported when their run ends, in order of
--- task id.

local core = require "ponder.core.task"
local quote = require "ponder.quote"

local failures = {}

---@class ponder.task.Failure
---@field id integer of the task
---@field message string
---@field handled boolean joined, raised or reported: nothing more to say
---@field package of ponder.task.Failures

---@class ponder.task.Failures the failures of one run
---@field private unhandled table<ponder.task.Failure, true> weak
---@field private reported integer
---@field private first_message string?
---@field package over boolean the run has ended
local Failures = {}
Failures.__index = Failures

local collected, collected_count = {}, 0

local Failure = {
    __gc = function(failure)
        if not failure.handled and not failure.of.over then
            collected_count = collected_count + 1
            collected[collected_count] = failure
        end
    end,
}

local function default_report(message, id)
    io.stderr:write(("unhandled error in task %d: %s\n"):format(id, quote.terminal(message)))
end
local report_hook = default_report

-- Locals, so that errors are reported even if a script has replaced Lua's library functions.
local getmetatable, pcall, tostring, type = debug.getmetatable, pcall, tostring, type
local next, new_traceback, min = next, debug.traceback, math.min
local getinfo, running = debug.getinfo, coroutine.running
local find, format, sub = string.find, string.format, string.sub
local concat, insert, sort = table.concat, table.insert, table.sort

-- Objects are raised unchanged; where each was raised first is kept here.
local tracebacks = setmetatable({}, { __mode = "k" })

local OBJECTS = { table = true, userdata = true, ["function"] = true, thread = true }
local MAX_FIELDS, MAX_FIELD_BYTES = 8, 100
local MAX_LISTED = 20 -- tasks in a deadlock

local function show_field(value)
    local kind = type(value)
    if kind == "string" then
        return format("%q", sub(value, 1, MAX_FIELD_BYTES))
    elseif kind == "number" or kind == "boolean" then
        return tostring(value)
    end
    return "a " .. kind
end

-- ": { code = 5 }"; nothing for an empty table.
local function show_fields(err)
    local shown = {}
    for name, value in next, err do
        insert(shown, (type(name) == "string" and name or "[" .. show_field(name) .. "]") .. " = "
            .. show_field(value))
    end
    sort(shown)
    if #shown > MAX_FIELDS then
        shown[MAX_FIELDS + 1] = "..."
    end
    return shown[1] and ": { " .. concat(shown, ", ", 1, min(#shown, MAX_FIELDS + 1)) .. " }" or ""
end

---The text of a raised value.
function failures.describe(err)
    local meta, kind = getmetatable(err), type(err)
    if kind == "string" or kind == "number" or type(meta) == "table" and meta.__tostring then
        local ok, text = pcall(tostring, err)
        if ok then
            return text
        end
    end
    return kind == "nil" and "nil was raised"
        or "a " .. kind .. " value was raised" .. (kind == "table" and show_fields(err) or "")
end

---@return boolean is_object such as a table: with an identity, so that more can be said beside it
function failures.is_object(err)
    return OBJECTS[type(err)] == true
end

---A message handler for xpcall: adds a traceback to text that has none; keeps that of an object.
---@param skip? integer functions to leave out of the traceback, default 0
---@return any err
function failures.with_traceback(err, skip)
    local level = 2 + (skip or 0)
    if OBJECTS[type(err)] then
        tracebacks[err] = tracebacks[err] or new_traceback(nil, level)
    elseif type(err) == "string" and not find(err, "\nstack traceback:", 1, true) then
        return new_traceback(err, level)
    end
    return err
end

---@return string? traceback of an object that went through `with_traceback`
function failures.traceback_of(err)
    return OBJECTS[type(err)] and tracebacks[err] or nil
end

-- The line of the innermost function of the script in a coroutine, or else of ponder's own outside
-- the scheduler: "file:line", or nil.
local function place_in(co, level)
    local outside
    for i = level, math.huge do
        local about = getinfo(co, i, "Sl")
        if not about then
            return outside
        end
        local is_own, is_protected = core.is_own(about.source)
        if about.currentline > 0 and not is_protected then
            local place = about.short_src .. ":" .. about.currentline
            if not is_own then
                return place
            end
            outside = outside or place
        end
    end
end

---Raises "file:line: message" with the script's line rather than the library's.
function failures.raise_at_script(message)
    local place = place_in(running(), 2)
    error(place and place .. ": " .. message or message, 0)
end

---The message of a deadlock: which tasks wait for what, and where in the script.
---@param tasks ponder.task.Handle[] all are parked; oldest first
function failures.deadlock(tasks)
    local lines = { "deadlock: all tasks wait, and nothing can wake them" }
    for i = 1, math.min(#tasks, MAX_LISTED) do
        local t = tasks[i]
        local co, place = t.co, "?"
        while co do -- the innermost of its coroutines that has a place
            place, co = place_in(co, 0) or place, core.inner(co)
        end
        lines[#lines + 1] = ("    task %d in %s at %s"):format(t.id, t.waits, place)
    end
    if #tasks > MAX_LISTED then
        lines[#lines + 1] = ("    and %d more"):format(#tasks - MAX_LISTED)
    end
    return table.concat(lines, "\n")
end

---The failures of a group of tasks.
function failures.of(group)
    group.failures = group.failures or setmetatable({ reported = 0, over = false,
        unhandled = setmetatable({}, { __mode = "k" }) }, Failures)
    return group.failures
end

---@param traceback? string
---@return ponder.task.Failure
function Failures:add(id, err, traceback)
    if OBJECTS[type(err)] then -- raised again, it keeps its first traceback
        traceback = tracebacks[err] or traceback
        tracebacks[err] = traceback
    end
    local message = failures.describe(err)
    if traceback then
        message = message .. "\n" .. traceback
    end
    local failure = setmetatable({ id = id, message = message, handled = false, of = self },
        Failure)
    self.unhandled[failure] = true
    return failure
end

function Failures:report(failure)
    failure.handled = true
    self.reported = self.reported + 1
    self.first_message = self.first_message or failure.message
    if not pcall(report_hook, failure.message, failure.id) then
        default_report(failure.message, failure.id)
    end
end

--- Reports the failures whose handles were collected, of all runs.
function failures.report_collected()
    if collected_count == 0 then
        return
    end
    local list, n = collected, collected_count
    collected, collected_count = {}, 0
    for i = 1, n do
        list[i].of:report(list[i])
    end
end

--- Reports the remaining failures at the end of a run.
---@return string? summary nil if nothing was reported in this run
function failures.report_rest(group)
    failures.report_collected()
    local self, list = group.failures, {}
    if not self then
        return
    end
    for failure in pairs(self.unhandled) do
        if not failure.handled then
            list[#list + 1] = failure
        end
    end
    table.sort(list, function(a, b)
        return a.id < b.id
    end)
    for _, failure in ipairs(list) do
        self:report(failure)
    end
    self.over = true
    if self.reported > 0 then
        return ("unhandled %s in %s; the first: %s"):format(self.reported == 1 and "error"
            or "errors", quote.count(self.reported, "task"), self.first_message)
    end
end

--- Forgets the collected failures, before the first run begins.
function failures.forget()
    collected, collected_count = {}, 0
end

---@param hook? fun(message: string, id: integer) nil: the default
---@return fun(message: string, id: integer) previous
function failures.set_report(hook)
    local previous = report_hook
    report_hook = hook or default_report
    return previous
end

--- Raises what a protected call has caught if a stop of the run (Ctrl-C, a timeout) raised it.
---@param ok boolean of the protected call
function failures.pass_stop(ok, err)
    if not ok and core.stop_reason() then
        error(err, 0)
    end
end

return failures
