--- A run as one JSON object: every row of its log, with JSON columns as values.
---
--- It is written a row at a time, each on a line of its own.

local json = require "ponder.json"
local quote = require "ponder.quote"

local export = {}

local LISTS = { "sessions", "files", "searches", "calls", "attempts", "effects", "events" }

---A search with its nodes and edges.
---@param log ponder.log.Reader
---@param search table as log:searches() gives it
---@return table search
function export.with_tree(log, search)
    search.nodes, search.edges = json.array {}, json.array {}
    for node in log:nodes(search.id) do
        table.insert(search.nodes, node)
    end
    for edge in log:edges(search.id) do
        table.insert(search.edges, edge)
    end
    return search
end

-- A list of rows as the value of a field.
local function write_list(log, out, name)
    local rows = name == "calls" and log:contents() or log[name](log)
    local before = (',\n"%s":[\n'):format(name)
    for row in rows do
        if name == "searches" then
            row = export.with_tree(log, row)
        end
        local ok, message = out:write(before, quote.terminal_json(json.encode(row)))
        if not ok then
            return nil, message
        end
        before = ",\n"
    end
    return out:write(before == ",\n" and "]" or before .. "]")
end

---Writes all that a log holds.
---@param log ponder.log.Reader
---@param out file*
---@return any ok nil: it could not be written
---@return string? message
function export.write(log, out)
    local totals = log:totals()
    totals.models = json.array(totals.models)
    local ok, message = out:write(('{"format":"ponder-run-1",\n"state":%s,\n"run":%s,\n"totals":%s')
        :format(json.encode(log:state()), quote.terminal_json(json.encode(log:run())),
        quote.terminal_json(json.encode(totals))))
    for _, name in ipairs(LISTS) do
        if not ok then
            return nil, message
        end
        ok, message = write_list(log, out, name)
    end
    if not ok then
        return nil, message
    end
    return out:write("}\n")
end

return export
