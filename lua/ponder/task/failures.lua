--- Errors of tasks, and the reporting of those that were never joined.
---
--- Only its task refers to a failure. When the handle has been collected it cannot be joined any
--- more, and the failure's finalizer puts it on a list that the scheduler reports between two
--- rounds. What has been neither joined nor collected is reported when its run ends, in order of
--- task.

local quote = require "ponder.quote"

local failures = {}

---@class ponder.task.Failure
---@field id integer of the task
---@field message string
---@field heard boolean joined, raised or reported
---@field package of ponder.task.Failures

---@class ponder.task.Failures those of one run
---@field private unheard table<ponder.task.Failure, true>? weak
---@field private reported integer
---@field private first_message string?
---@field package over boolean the run has ended
local Failures = {}
Failures.__index = Failures

local collected, collected_count = {}, 0

local Failure = {
    __gc = function(failure)
        if not failure.heard and not failure.of.over then
            collected_count = collected_count + 1
            collected[collected_count] = failure
        end
    end,
}

local function default_report(message, id)
    io.stderr:write(("task %d failed, and nobody joined it: %s\n"):format(id,
        quote.terminal(message)))
end
local report_hook = default_report

-- A script may have replaced what it reached of Lua's library; its error is reported all the same.
local getmetatable, pcall, tostring, type = debug.getmetatable, pcall, tostring, type
local find, new_traceback = string.find, debug.traceback

-- Where tables were raised first: they are raised on as they are.
local tracebacks = setmetatable({}, { __mode = "k" })

---The text of an error.
---@param err any
---@return string? text of strings, numbers and what has a __tostring
function failures.text_of(err)
    local meta, kind = getmetatable(err), type(err)
    if kind == "string" or kind == "number" or type(meta) == "table" and meta.__tostring then
        local ok, text = pcall(tostring, err)
        return ok and text or nil
    end
end

---For xpcall: text gets a traceback, unless it has one; that of a table is kept.
---@param err any
---@return any err
function failures.with_traceback(err)
    if type(err) == "table" then
        tracebacks[err] = tracebacks[err] or new_traceback(nil, 2)
    elseif type(err) == "string" and not find(err, "\nstack traceback:", 1, true) then
        return new_traceback(err, 2)
    end
    return err
end

---@param err any
---@return string? traceback of a table that a task or strategy raised
function failures.traceback_of(err)
    return type(err) == "table" and tracebacks[err] or nil
end

---@return ponder.task.Failures
function failures.new()
    return setmetatable({ reported = 0, over = false }, Failures)
end

---@param id integer
---@param err any
---@param traceback? string
---@return ponder.task.Failure
function Failures:add(id, err, traceback)
    local message = failures.text_of(err)
        or ("(error object is a %s value)"):format(type(err))
    if traceback then
        message = message .. "\n" .. traceback
    end
    if type(err) == "table" then
        tracebacks[err] = tracebacks[err] or traceback
    end
    local failure = setmetatable({ id = id, message = message, heard = false, of = self }, Failure)
    self.unheard = self.unheard or setmetatable({}, { __mode = "k" })
    self.unheard[failure] = true
    return failure
end

---@param failure ponder.task.Failure
function Failures:report(failure)
    failure.heard = true
    self.reported = self.reported + 1
    self.first_message = self.first_message or failure.message
    if not pcall(report_hook, failure.message, failure.id) then
        default_report(failure.message, failure.id)
    end
end

--- Reports those whose handle has been collected, of all runs.
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

--- Reports all that remain, at the end of a run.
---@return string? summary nil if nothing was reported in this run
function Failures:report_rest()
    failures.report_collected()
    local list = {}
    for failure in pairs(self.unheard or list) do
        if not failure.heard then
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
        return ("%d task%s failed and nobody joined %s; the first error was: %s"):format(
            self.reported, self.reported == 1 and "" or "s", self.reported == 1 and "it" or "them",
            self.first_message)
    end
end

--- Forgets what was collected, before all runs begin.
function failures.forget()
    collected, collected_count = {}, 0
end

---@param hook? fun(message: string, id: integer) nil: the default
---@return fun(message: string, id: integer) before
function failures.set_report(hook)
    local before = report_hook
    report_hook = hook or default_report
    return before
end

return failures
