--- The runs that are kept: the logs in $XDG_STATE_HOME/ponder.

local folder = require "ponder.core.folder"
local schema = require "ponder.log.schema"
local state = require "ponder.state"
local store = require "ponder.core.store"

local kept = {}

-- When a run began, as its log says; nil where the file is none.
local function start_of(path)
    local db = store.open(path, { mode = "read", application_id = schema.APPLICATION_ID,
        version = schema.VERSION })
    if not db then
        return nil
    end
    local ok, started_at = pcall(db.row, db, "SELECT started_at FROM run")
    db:close()
    return ok and started_at or nil
end

---The kept runs, newest first.
---@param at? string the folder; default state.directory()
---@return {path: string, name: string, bytes: integer, started_at: number}[] runs
---@return string? message why the folder cannot be read; one that is not there is empty
function kept.list(at)
    at = at or state.directory()
    local files, message, code = {}, nil, nil
    if at then
        files, message, code = folder.files(at)
    end
    local runs = {}
    for _, file in ipairs(files or {}) do
        local name = file.name:match("^(.+)%.db$")
        local path = name and at .. "/" .. file.name
        local started_at = path and start_of(path)
        if started_at then
            runs[#runs + 1] = { path = path, name = name, bytes = file.bytes,
                started_at = started_at }
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

local function exists(path)
    local file = io.open(path, "rb")
    if file then
        file:close()
    end
    return file ~= nil
end

-- Among the kept runs: the nth newest, or the one of that name.
local function among_kept(what, at)
    local name = what and tostring(what)
    if name and not name:match("^%d+$") then
        local path = ("%s/%s.db"):format(at, name:gsub("%.db$", ""))
        return not name:find("/", 1, true) and exists(path) and path or nil
    end
    local number = math.tointeger(tonumber(name or 1))
    local run = number and kept.list(at)[number]
    return run and run.path
end

---The path of a run's log.
---@param what? string|integer a path; a name or a number (1 is the newest) among the kept runs;
---  nothing: the newest
---@return string?
---@return string? message
function kept.find(what)
    local at = state.directory()
    if what and (exists(tostring(what)) or tostring(what):find("/", 1, true)) then
        return tostring(what)
    end
    local path = at and among_kept(what, at)
    if path then
        return path
    elseif not what then
        return nil, (at or "$HOME") .. ": no run is kept there yet"
    end
    return nil, ("%s: neither a file nor a run in %s"):format(what, at or "$HOME")
end

return kept
