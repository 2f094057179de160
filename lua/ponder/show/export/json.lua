--- Exports a run as one JSON object: every row of its log, with JSON columns as values, one row per
--- line.

local json = require "ponder.json"
local quote = require "ponder.quote"
local tally = require "ponder.base.tally"

local export = {}

local LISTS = { "sessions", "files", "searches", "calls", "attempts", "effects", "events" }

-- A file whose writes stop after the first failure.
local Out = {}
Out.__index = Out

function Out:write(...)
    if not self.message then
        local ok, message = self.file:write(...)
        self.message = not ok and message or nil
    end
    return not self.message
end

local function bound_score(row)
    row.score = row.score and tally.finite(row.score)
end

---A row, or the summary of a run, as one line of JSON.
function export.line(row)
    bound_score(row)
    for _, search in ipairs(row.searches or {}) do
        bound_score(search)
    end
    return quote.terminal_json(json.encode(row))
end

function Out:value(row)
    self:write(export.line(row))
end

-- Writes rows as a list; calls `write_row` for each.
function Out:list(rows, write_row, comma)
    local before = "["
    for row in rows do
        if not self:write(before) then
            return
        end
        write_row(self, row)
        before = comma
    end
    self:write(before == "[" and "[]" or "]")
end

-- Writes a search on one line, without holding its nodes, which may be millions, in memory.
local function put_search(self, log, search)
    self:write((export.line(search):gsub("}$", ',"nodes":')))
    self:list(log:nodes(search.id), Out.value, ",")
    self:write ',"edges":'
    self:list(log:edges(search.id), Out.value, ",")
    self:write "}"
end

local function new_out(file)
    return setmetatable({ file = file, message = nil }, Out)
end

---Writes a search with its nodes and edges as one JSON object, on a line.
---@param search table from log:searches()
---@param file file*
---@return boolean ok
---@return string? message
function export.write_search(log, search, file)
    local out = new_out(file)
    put_search(out, log, search)
    return out:write "\n", out.message
end

---Writes everything that a log holds.
---@param file file*
---@return boolean ok
---@return string? message
function export.write(log, file)
    local out, totals = new_out(file), log:totals()
    totals.models = json.array(totals.models)
    out:write('{"format":"ponder-run-1",\n"state":', json.encode(log:state()), ',\n"run":')
    out:value(log:run())
    out:write ',\n"totals":'
    out:value(totals)
    for _, name in ipairs(LISTS) do
        out:write((',\n"%s":'):format(name))
        if name == "searches" then
            out:list(log:searches(), function(_, search) put_search(out, log, search) end, ",\n")
        else
            out:list(name == "calls" and log:contents() or log[name](log), Out.value, ",\n")
        end
    end
    return out:write "}\n", out.message
end

---Everything that a log holds, as text.
---@return string? text
---@return string? message it is larger than `max_bytes`
function export.text(log, max_bytes)
    local parts, size = {}, 0
    local ok, message = export.write(log, { write = function(_, ...)
        for i = 1, select("#", ...) do
            parts[#parts + 1] = select(i, ...)
            size = size + #parts[#parts]
        end
        if max_bytes and size > max_bytes then
            return nil, ("the run is larger than %d MiB; use ponder export"):format(max_bytes >> 20)
        end
        return true
    end })
    return ok and table.concat(parts) or nil, message
end

return export
