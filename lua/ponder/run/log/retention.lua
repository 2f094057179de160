--- What is kept: the newest logs in $XDG_STATE_HOME/ponder; the newest requests in the log of a
--- server.

local directories = require "ponder.core.directory"
local exists = require("ponder.base.file").exists
local failures = require "ponder.run.task.failures"
local run_file = require "ponder.run.log.file"
local schema = require "ponder.run.log.schema"
local state = require "ponder.base.state"
local store = require "ponder.core.store"

local retention = {}

local KEEP = 100

-- Matches the names of new_path.
local OWN_NAME = "^%d+%-%d+%-.+%-%x+%.db"

-- Returns when a run began according to its log; or nil and what is wrong with the file.
local function start_of(path)
    local db <close>, message, code = run_file.open(path, { mode = "read" })
    if not db then
        return nil, message, code
    end
    local ok, started_at = pcall(function()
        return run_file.check_values(path, "runs",
            { started_at = db:row "SELECT started_at FROM runs ORDER BY id LIMIT 1" }).started_at
    end)
    failures.pass_stop(ok, started_at)
    return ok and started_at or nil, ok and path .. ": holds no run" or tostring(started_at)
end

---@class ponder.log.Kept a file in the directory of kept runs
---@field path string
---@field name string
---@field bytes integer
---@field started_at number seconds since 1970; of a damaged file, when it was last written
---@field damage string? what is wrong with it

---Lists the kept runs, newest first, damaged ones included.
---@param directory? string the directory; default state.directory()
---@return ponder.log.Kept[] runs
---@return string? message why the directory cannot be read; a missing one is empty
function retention.list(directory)
    directory = directory or state.directory()
    local files, message, code = {}, nil, nil
    if directory then
        files, message, code = directories.files(directory)
    end
    local runs = {}
    for _, file in ipairs(files or {}) do
        local path, name = directory .. "/" .. file.name, file.name:match("^(.+)%.db$")
        local started_at, damage, problem
        if name then
            started_at, damage, problem = start_of(path)
        end
        local is_ours = file.bytes == 0 or file.name:find(OWN_NAME) or problem ~= "NOT_A_LOG"
        if name and is_ours then
            runs[#runs + 1] = { path = path, name = name, bytes = file.bytes,
                started_at = started_at or file.modified_at, damage = not started_at and damage
                or nil }
        end
    end
    table.sort(runs, function(a, b)
        if a.started_at ~= b.started_at then
            return a.started_at > b.started_at
        end
        return a.name > b.name
    end)
    return runs, code ~= "NOT_FOUND" and message or nil
end

---Makes room for one more run: removes the oldest files that ponder named itself, damaged ones too;
---never those in use.
---@param directory string the directory
---@param keep integer how many runs may remain, the new one included
function retention.prune(directory, keep)
    local names = {}
    for _, file in ipairs(directories.files(directory) or {}) do
        names[#names + 1] = file.name:find(OWN_NAME .. "$") and file.name or nil
    end
    table.sort(names)
    for i = 1, #names - keep + 1 do
        local path = directory .. "/" .. names[i]
        if store.in_use(path) == false then
            run_file.remove(path)
        end
    end
end

-- Finds the nth newest kept run, or the one with that name.
local function among_kept(what, directory)
    local name = what and tostring(what)
    if name and not name:match("^%d+$") then
        local path = ("%s/%s.db"):format(directory, name:gsub("%.db$", ""))
        return not name:find("/", 1, true) and exists(path) and path or nil
    end
    local number = math.tointeger(tonumber(name or 1))
    for _, run in ipairs(retention.list(directory)) do
        number = run.damage and number or number - 1
        if number == 0 then
            return run.path
        end
    end
end

---Finds the path of a run's log.
---@param what? string|integer a path; a name or a number (1 is the newest) among the kept runs;
---  default: the newest
---@return string? path
---@return string? message
---@return integer? number runs.id of FILE#3
function retention.find(what)
    local directory, number = state.directory(), nil
    if what then
        what, number = run_file.split(tostring(what))
    end
    if what and (exists(what) or what:find("/", 1, true)) then
        return what, nil, number
    end
    local path = directory and among_kept(what, directory)
    if path then
        return path, nil, number
    elseif not what then
        return nil, ("no runs in %s yet"):format(directory or "$HOME")
    end
    return nil, ("%s: neither a file nor a run in %s"):format(what, directory or "$HOME")
end

---Returns the path of a new log among the kept runs, whose name sorts by time
---(20261122-021033-game24-4f2a91c0.db); removes the oldest ones.
---@return string? path
---@return string? message
function retention.new_path(command)
    local at, message = state.make()
    if not at then
        return nil, "cannot write the run log in " .. message
    end
    retention.prune(at, command.opts.keep or KEEP)
    local script = command.about.script or ""
    return ("%s/%s-%s-%s.db"):format(at, os.date("!%Y%m%d-%H%M%S", command.started_at // 1 | 0),
        script:match("([%w_-]+)%.%w+$") or script:match("^([%w_]+)$") or command.about.command,
        command.uid:sub(-8))
end

---------------------------------------------------------------------------------------------------
-- The log of a server keeps its newest requests: the oldest ended ones are deleted, a tenth of the
-- limit at a time, and their space in the file is reused

local SETTLED_S = 1 -- this long after its end, all rows of a run are written

-- The runs to delete: requests with their inner runs, and earlier starts of the server of which no
-- request is left.
local OLD = [[(WITH RECURSIVE starts(id) AS (
    SELECT id FROM runs
        WHERE parent IS NULL AND command = (SELECT command FROM runs WHERE id = ?1)),
    old(id) AS (
    SELECT id FROM runs WHERE parent IN starts AND (ended_at < ?3 OR status = 'killed') AND id <=
        (SELECT id FROM runs WHERE parent IN starts ORDER BY id DESC LIMIT 1 OFFSET ?2)
    UNION ALL SELECT runs.id FROM runs JOIN old ON runs.parent = old.id)
    SELECT id FROM old UNION ALL SELECT id FROM starts
        WHERE id <> ?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE parent = starts.id))]]

---Counts the end of a request; deletes old ones when enough have ended.
---@param root ponder.log.Tape of the server
function retention.note_end(root)
    local keep = root.command.opts.max_runs
    if not keep or root.writer.discards then
        return
    end
    root.ended_within = (root.ended_within or 0) + 1
    if root.ended_within <= keep // 10 then
        return
    end
    root.ended_within = 0
    local function delete(from, where)
        root:write(("DELETE FROM %s WHERE %s"):format(from, where), root.id, keep,
            root.clock() - SETTLED_S)
    end
    for _, name in ipairs { "tape", "readings" } do -- the server's own
        delete(name, "run = ?1 AND seq <= (SELECT max(seq) FROM tape WHERE run IN " .. OLD .. ")")
    end
    for i = #schema.TABLES, 1, -1 do -- runs, which the others refer to, last
        local name = schema.TABLES[i]
        delete(name, (name == "runs" and "id" or "run") .. " IN " .. OLD)
    end
end

return retention
