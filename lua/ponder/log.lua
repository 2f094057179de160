--- The run log: what a run asked, what came of it, and in which order, so that it can be looked at,
--- resumed after a crash, replayed offline and forked. ponder.log.schema says what it holds, and
--- ponder.log.tape how a run is played again.
---
--- `ponder run` and the commands that call models begin one (ponder.log.run). A script has three
--- functions:
---
---     local log = require "ponder.log"
---     local text = log.record("page", { url = url }, fetch, url)   -- not fetched again on resume
---     log.event("chapter", { number = 3 })                         -- for ponder show --events
---     local g <close> = log.graph { name = "merge sort" }          -- for ponder show --tree
---
--- ponder.log.graph says what a graph can do. Without a log the first calls `fetch`, and the others
--- do nothing.

local current = require "ponder.log.current"
local json = require "ponder.json"
local options = require "ponder.options"
local scheduler = require "ponder.task.scheduler"

local log = {}

local function check_name(where, name)
    if type(name) ~= "string" or name == "" then
        error(("%s: name must be a string that is not empty (got %s)"):format(where,
            options.show(name)), 3)
    end
end

-- Loaded when it is first needed, since it loads what most runs do not: start-up is mostly loading.
local function perform(kind, name, key, f, ...)
    local what = require("ponder.log.effect").new(kind, name, key)
    local tape = scheduler.tape()
    local results = table.pack(tape:perform(what, pcall, f, ...))
    if not results[1] then
        error(results[2], 0)
    end
    return table.unpack(results, 2, results.n)
end

local function is_followed()
    return scheduler.tape() ~= nil and scheduler.current() ~= nil
end

local function check_function(where, f)
    local meta = getmetatable(f)
    if type(f) ~= "function" and not (type(meta) == "table" and meta.__call) then
        error(("%s: f must be a function (got %s)"):format(where, options.show(f)), 3)
    end
end

---Takes something in from outside that is neither a model's reply nor the time: calls f(...). The
---log keeps what it returns (values that JSON has, else it raises), and a resumed or replayed run
---gets that in place of calling f. What f raises is kept as text. It may wait. Without a log it
---just calls f.
---@param name string what is asked
---@param key any of which: a value that JSON has; equal ones are told apart by their order
---@param f function
---@param ... any
---@return any ... what f returned; raises what f raised, as text where there is a log
function log.record(name, key, f, ...)
    check_name("log.record", name)
    check_function("log.record", f)
    if not is_followed() then
        return f(...)
    end
    return perform("outside", name, key, f, ...)
end

---Whether a log of this run that is played has what log.record took in under this name.
---@param name string
---@return boolean
function log.has_record(name)
    return is_followed()
        and scheduler.tape():whole():has(require("ponder.log.effect").new("outside", name))
end

---Runs a tool: as log.record.
---@param name string
---@param arguments any
---@param f function
---@param ... any
---@return any ...
function log.tool(name, arguments, f, ...)
    if not is_followed() then
        return f(...)
    end
    return perform("tool", name, arguments, f, ...)
end

---Notes an event.
---@param name string
---@param data? table of values that JSON has; raises for others
function log.event(name, data)
    check_name("log.event", name)
    local text
    if data ~= nil then
        local ok
        ok, text = pcall(json.encode, data)
        if not ok then
            error("log.event: data: " .. text:gsub("^.-json%.encode: ", ""), 2)
        end
    end
    local to = current.writer()
    if to then
        to:event(name, text)
    end
end

---Begins a graph that a policy draws of its own work: see ponder.log.graph, which says more, and
---is loaded when it is first needed.
---@param opts {name: string?, kind: string?, options: table?} as there
---@return ponder.log.Graph
function log.graph(opts)
    return require "ponder.log.graph"(opts)
end

log.writer, log.recorder = current.writer, current.recorder

return log
