--- The rows of a page's list of runs: what each took, and how it stands. Of a log that has not
--- changed they are kept.

local amount = require "ponder.report.amount"
local file = require "ponder.log.file"
local json = require "ponder.json"
local reader = require "ponder.log.reader"
local store = require "ponder.core.store"

local runs = {}

-- STRICT tables hold what their columns say. A list shows the beginning of long texts.
local RUNS = [[SELECT id, parent, name, labels, command, arguments, script, started_at, ended_at,
    status, substr(error, 1, 300) AS error, substr(answer, 1, 300) AS answer FROM runs ORDER BY id]]

---@class ponder.view.Run
---@field run string "NAME#3"
---@field status string as of Reader:state, or "damaged"
---@field command string
---@field name string? of a run within another
---@field labels string? JSON
---@field inner boolean? it began within another run of its log
---@field started_at number
---@field seconds number?
---@field calls integer
---@field errors integer
---@field tokens integer?
---@field cost number?
---@field unpriced integer?
---@field answer string? the beginning
---@field error string?
---@field log string

local NO_CALLS = { calls = 0, errors = 0, unpriced = 0 }

local function text(value)
    return value ~= nil and tostring(value) or nil
end

-- The answer in words, as far as its beginning has them.
local function answer_of(encoded)
    return encoded and (encoded:match '^{"answer":"(.-)[\\"]' or encoded:gsub('^"(.*)"$', "%1"))
end

local function describe(log, row, totals, unended)
    local command = amount.command(file.decode("runs", row, "arguments"))
    return { run = ("%s#%d"):format(log.name, row.id), log = log.name,
        status = row.status or unended, command = command:gsub("^ponder ", ""),
        name = text(row.name), labels = row.labels, inner = row.parent ~= nil or nil,
        started_at = row.started_at, seconds = amount.duration(row, totals.last_at),
        calls = totals.calls, errors = totals.errors, tokens = totals.total_tokens,
        cost = totals.cost, unpriced = totals.unpriced > 0 and totals.unpriced or nil,
        answer = answer_of(row.answer), error = text(row.error) }
end

local function damaged(log, message)
    return { { run = log.name .. "#1", log = log.name, status = "damaged", command = "",
        started_at = 0, calls = 0, errors = 0, error = message } }
end

local function read(log)
    local opened <close>, message, code = reader.open(log.path)
    if not opened then
        return code == "NOT_A_LOG" and {} or damaged(log, message)
    end
    local rows, totals = {}, opened:totals_by_run()
    local unended = store.in_use(log.path) and "running" or "killed"
    for row in opened:database():columns(RUNS) do
        rows[#rows + 1] = describe(log, row, totals[row.id] or NO_CALLS, unended)
    end
    return rows
end

---@class ponder.view.Runs
---@field private logs ponder.view.Logs
---@field private known table<string, {stamp: string, rows: ponder.view.Run[], open: boolean}>
local Runs = {}
Runs.__index = Runs

---@param logs ponder.view.Logs
---@return ponder.view.Runs
function runs.new(logs)
    return setmetatable({ logs = logs, known = {} }, Runs)
end

-- Whether rows say that a run goes on, which its process may end without a word.
local function has_running(rows)
    for _, row in ipairs(rows) do
        if row.status == "running" then
            return true
        end
    end
    return false
end

---All runs, newest first.
---@return ponder.view.Run[] a list in JSON too
function Runs:list()
    local all, known = json.array(), {}
    for _, log in ipairs(self.logs:list()) do
        local one = self.known[log.path]
        if log.stamp and not (one and one.stamp == log.stamp and not one.open) then
            local ok, rows = pcall(read, log)
            rows = ok and rows or damaged(log, file.line_of(log.path, rows))
            one = { stamp = log.stamp, rows = rows, open = has_running(rows) }
        end
        known[log.path] = log.stamp and one
        table.move(one and log.stamp and one.rows or {}, 1, one and #one.rows or 0, #all + 1, all)
    end
    self.known = known
    table.sort(all, function(a, b)
        if a.started_at ~= b.started_at then
            return a.started_at > b.started_at
        end
        return a.run > b.run
    end)
    return all
end

return runs
