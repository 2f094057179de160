--- Exports a run as one JSON object: every row of its log, with JSON columns as values, one row per
--- line.

local json = require "ponder.json"
local quote = require "ponder.quote"
local tally = require "ponder.base.tally"

local export = {}

local LISTS = { "sessions", "files", "searches", "calls", "attempts", "effects", "events" }

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

local function write_row(out, row)
    out:write(export.line(row))
end

local function write_list(out, rows, write_one, comma)
    local before = "["
    for row in rows do
        out:write(before)
        write_one(out, row)
        before = comma
    end
    out:write(before == "[" and "[]" or "]")
end

---Writes a search with its nodes, which may be millions, and edges as one JSON object, in a line.
---@param out {write: fun(self, ...)} as of file.replace
---@param search table from log:searches()
function export.write_search(log, out, search)
    out:write((export.line(search):gsub("}$", ',"nodes":')))
    write_list(out, log:nodes(search.id), write_row, ",")
    out:write ',"edges":'
    write_list(out, log:edges(search.id), write_row, ",")
    out:write "}"
end

---Writes everything that a log holds.
---@param out {write: fun(self, ...)} as of file.replace
function export.write(log, out)
    local totals = log:totals()
    totals.models = json.array(totals.models)
    out:write('{"format":"ponder-run-1",\n"state":', json.encode(log:state()), ',\n"run":',
        export.line(log:run()), ',\n"totals":', export.line(totals))
    for _, name in ipairs(LISTS) do
        out:write((',\n"%s":'):format(name))
        write_list(out, name == "calls" and log:contents() or log[name](log),
            name == "searches" and function(_, search)
                export.write_search(log, out, search)
            end or write_row, ",\n")
    end
    out:write "}\n"
end

---Everything that a log holds, as text.
---@return string? text
---@return string? message it is larger than `max_bytes`
function export.text(log, max_bytes)
    local parts, size, too_large = {}, 0, {}
    local ok, raised = pcall(export.write, log, { write = function(_, ...)
        for i = 1, select("#", ...) do
            parts[#parts + 1] = select(i, ...)
            size = size + #parts[#parts]
        end
        if max_bytes and size > max_bytes then
            error(too_large, 0)
        end
    end })
    if raised == too_large then
        return nil, ("the run is larger than %d MiB; use ponder export"):format(max_bytes >> 20)
    elseif not ok then
        error(raised, 0)
    end
    return table.concat(parts)
end

return export
