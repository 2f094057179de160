--- The run log records requests, results and their order, so that a run can be inspected, resumed
--- after a crash, replayed offline and forked. ponder.run.log.schema describes its tables, and
--- ponder.run.log.tape how a run is played again.
---
--- `ponder run` and the commands that call models begin a log (ponder.run.log.command). Scripts use
--- three functions:
---
---     local log = require "ponder.log"
---     local text = log.record("page", { url = url }, fetch, url)   -- not fetched again on resume
---     log.event("chapter", { number = 3 })                         -- for ponder show --events
---     local g <close> = log.graph { name = "merge sort" }          -- for ponder show --tree
---
--- ponder.log.graph describes graphs. Without a log, `record` calls `fetch`, and the others do
--- nothing.
---
--- A run has one tape (ponder.run.log.tape), which numbers what comes from outside, answers it from
--- a recording of an earlier process (ponder.run.log.recording) and writes rows. A file has one
--- writer (ponder.run.log.writer) and any number of readers (ponder.run.log.reader).
--- ponder.run.log.rerun opens a log to run it again, and ponder.run.log.retention decides which
--- logs and requests stay.

local json = require "ponder.json"
local options = require "ponder.base.options"
local scheduler = require "ponder.run.task.scheduler"

local log = {}

local function check_name(where, name)
    if type(name) ~= "string" or name == "" then
        error(("%s: name must be a non-empty string (got %s)"):format(where,
            options.show(name)), 3)
    end
end

-- Loads ponder.run.log.effect on demand: most of the start-up time is loading.
local function perform(kind, name, key, f, ...)
    local tape = scheduler.tape()
    tape.prepare()
    local what = require("ponder.run.log.effect").new(kind, name, key)
    local results = table.pack(tape:perform(what, pcall, f, ...))
    if not results[1] then
        error(results[2], 0)
    end
    return table.unpack(results, 2, results.n)
end

local function is_followed()
    return scheduler.tape() ~= nil and scheduler.current() ~= nil
end

---Records outside input that is neither a model's reply nor the time: calls f(...) and logs its
---results, which must be JSON values. A resumed or replayed run gets them from the log instead of
---calling f, with "[redacted]" in place of keys that ponder knows. What f raises is logged, too: a
---JSON value as such, others as text. f may wait; in a logged run this waits, too. Without a log it
---just calls f.
---@param name string what the input is, such as "page"
---@param key any identifies it: a JSON value; equal keys are distinguished by their order
---@param f function
---@param ... any
---@return any ... results of f; raises what f raises
function log.record(name, key, f, ...)
    check_name("log.record", name)
    if not options.is_callable(f) then
        error(("log.record: f must be a function (got %s)"):format(options.show(f)), 2)
    end
    if not is_followed() then
        return f(...)
    end
    scheduler.check "log.record"
    return perform("outside", name, key, f, ...)
end

---Whether the log that this run plays holds a result of log.record under this name.
---@param name string
---@return boolean
---@package
function log.has_record(name)
    return is_followed()
        and scheduler.tape():has(require("ponder.run.log.effect").new("outside", name))
end

---Runs a tool, like log.record.
---@param name string
---@param arguments any
---@param f function
---@param ... any
---@return any ...
function log.tool(name, arguments, f, ...)
    if not is_followed() then
        return f(...)
    end
    scheduler.check "log.tool"
    return perform("tool", name, arguments, f, ...)
end

---Logs an event.
---@param name string
---@param data? table JSON values by name; raises for others
function log.event(name, data)
    check_name("log.event", name)
    local text
    if data ~= nil then
        local ok
        ok, text = pcall(json.encode, data)
        if not ok then
            error("log.event: data: " .. text:gsub("^.-json%.encode: ", ""), 2)
        elseif text:sub(1, 1) ~= "{" then
            error(("log.event: data must be a table with names, such as { text = %s } (got %s)")
                :format(type(data) == "table" and '"..."' or options.show(data),
                options.show(data)), 2)
        end
    end
    local tape = scheduler.tape()
    if tape then
        tape:event(name, text)
    end
end

---Begins a graph that a policy draws of its own work: see ponder.log.graph.
---@param opts {name: string?, kind: string?, options: table?}
---@return ponder.log.Graph
function log.graph(opts)
    return require "ponder.log.graph"(opts)
end

return log
