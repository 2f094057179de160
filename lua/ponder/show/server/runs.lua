--- The rows of the page's list of runs. A log may hold 10,000 of them, so SQLite writes them as
--- JSON, the page formats them, and the rows of an unchanged log are cached.

local file = require "ponder.run.log.file"
local json = require "ponder.json"
local quote = require "ponder.quote"
local reader = require "ponder.run.log.reader"
local store = require "ponder.core.store"

local runs = {}

-- The fields of a log's JSON object, encoded: {"runs":[[1,null,...],...],"unended":"running"}, or
-- {"damage":"..."}; nil if the file is not a log.
local function read(log)
    local opened <close>, message, code = reader.open(log.path)
    if not opened then
        return code ~= "NOT_A_LOG" and { damage = json.encode(quote.utf8(message)) } or nil
    end
    local rows = {}
    for row in opened:overview() do
        rows[#rows + 1] = row
    end
    return { runs = ("[%s]"):format(table.concat(rows, ",\n")),
        unended = store.in_use(log.path) and '"running"' or '"killed"' }
end

local function encode(log, fields)
    local parts = { ('"log":%s'):format(json.encode(quote.utf8(log.name))) }
    for name, text in pairs(fields) do
        parts[#parts + 1] = ('"%s":%s'):format(name, text)
    end
    return ("{%s}"):format(table.concat(parts, ","))
end

---@class ponder.show.server.Runs
---@field private logs ponder.show.server.Logs
---@field private known table<string, {stamp: string, text: string, running: boolean}>
local Runs = {}
Runs.__index = Runs

---@param logs ponder.show.server.Logs
---@return ponder.show.server.Runs
function runs.new(logs)
    return setmetatable({ logs = logs, known = {} }, Runs)
end

---All runs of all logs, as JSON: {"fields": names, "logs": [{"log": its name, "runs": a list of
---lists in the order of the names, "unended": the status of runs without an end; or "damage"}]}.
function Runs:json()
    local known, texts = {}, {}
    for _, log in ipairs(self.logs:list()) do
        local one = self.known[log.path]
        -- A process that is killed does not change its log.
        if log.stamp and not (one and one.stamp == log.stamp and not one.running) then
            local ok, fields = pcall(read, log)
            fields = ok and fields
                or not ok and { damage = json.encode(file.line_of(log.path, fields)) } or nil
            one = { stamp = log.stamp, text = fields and encode(log, fields),
                running = fields and fields.unended == '"running"' }
        end
        known[log.path] = log.stamp and one or nil
        texts[#texts + 1] = known[log.path] and one.text
    end
    self.known = known
    return ('{"fields":%s,"logs":[%s]}'):format(json.encode(json.array(reader.OVERVIEW)),
        table.concat(texts, ",\n"))
end

---The only run of all logs.
---@return string? run "NAME#3"; nil: none, or several
function Runs:only()
    local list = json.decode(self:json(), { max_bytes = math.maxinteger }).logs
    local log = #list == 1 and list[1]
    return log and log.runs and #log.runs == 1 and ("%s#%d"):format(log.log, log.runs[1][1]) or nil
end

return runs
