--- The runs of a log as MCP resources: `ponder://runs/3` is the output of
--- `ponder export --format json FILE#3`.

local amount = require "ponder.show.amount"
local export = require "ponder.show.export.json"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"

local resources = {}

local MAX_RUNS = 1000 -- the newest are listed
local MAX_TITLE = 100 -- bytes of a question
local MAX_BYTES = 8 * 1024 * 1024
local TYPE = "application/json"
local PREFIX = "ponder://runs/"

local function list(path)
    local found = {}
    local log <close> = reader.open(path)
    if log then
        for row in log:newest(MAX_RUNS) do
            found[#found + 1] = { uri = PREFIX .. row.id, name = "run " .. row.id, mimeType = TYPE,
                title = row.question and ("%s: %s"):format(row.name or row.command,
                    quote.line(row.question, MAX_TITLE)) or row.name or amount.command(row),
                description = row.status or log:other(row.id):state() }
        end
    end
    return found
end

local function read(path, uri)
    local number = uri:match("^" .. PREFIX .. "(%d+)$")
    number = number and math.tointeger(tonumber(number))
    if not number then
        return nil
    end
    local log <close>, _, code = reader.open(("%s#%d"):format(path, number))
    if not log then
        return nil, code ~= "NOT_FOUND" and "the log cannot be read" or nil
    end
    local text, message = export.text(log, MAX_BYTES)
    return text and { contents = { { uri = uri, mimeType = TYPE, text = text } } }, message
end

---The catalog of a log's runs.
---@return ponder.mcp.Catalog
function resources.of(path)
    return {
        list = function() return list(path) end,
        get = function(uri) return read(path, uri) end,
        templates = { { uriTemplate = PREFIX .. "{number}", name = "run", mimeType = TYPE,
            description = "a run of the log: calls, results of tools, trees, events" } },
    }
end

return resources
