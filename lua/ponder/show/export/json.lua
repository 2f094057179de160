--- Exports a run as one JSON object: every row of its log, with JSON columns as values, one row per
--- line.

local json = require "ponder.json"
local quote = require "ponder.quote"
local tally = require "ponder.base.tally"

local export = {}

local LISTS = { "sessions", "files", "searches", "calls", "attempts", "effects", "events" }

local MAX_DEPTH = 200

-- A copy without infinities.
local function finite(value, depth)
    if math.type(value) == "float" then
        return value == value and tally.finite(value) or value
    elseif type(value) ~= "table" or depth > MAX_DEPTH then
        return value
    end
    local copy, meta = {}, getmetatable(value)
    if type(meta) == "table" and meta.__len and meta.__index then
        for i = 1, #value do
            local item = value[i]
            copy[i] = item == nil and json.null or finite(item, depth + 1)
        end
        return json.array(copy)
    end
    for name, field in next, value do
        copy[name] = finite(field, depth + 1)
    end
    return meta == getmetatable(json.array {}) and json.array(copy) or copy
end

---A value as one line of JSON, safe for a terminal. The largest finite numbers replace infinities:
---a search may score a dead end -math.huge. Raises what json.encode raises.
function export.line(value)
    local ok, text = pcall(json.encode, value)
    if not ok and text:find("infinity cannot be JSON", 1, true) then
        return quote.terminal_json(json.encode(finite(value, 0)))
    end
    return quote.terminal_json(ok and text or error(text, 0))
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
