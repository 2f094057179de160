--- The logs that a page shows: named files, or all in the state directory. A request names a run as
--- the page lists it, "NAME#3"; the page gives access to no other file.

local directories = require "ponder.core.directory"
local kept = require "ponder.run.log.retention"
local state = require "ponder.base.state"

local logs = {}

---@class ponder.show.server.Log
---@field name string as the page shows it: a name of `ponder log`, or the file's name as given
---@field path string
---@field stamp string? changes whenever the file does; nil: the file does not exist yet

---@class ponder.show.server.Logs
---@field named ponder.show.server.Log[]? nil: all in the state directory
---@field directories string[] of the logs
local Logs = {}
Logs.__index = Logs

local function split(path)
    local directory, name = path:match "^(.*)/([^/]*)$"
    return directory == "" and "/" or directory or ".", name or path
end

---@param names? string[] files, which may not exist yet, or names or numbers in ponder log; nil:
---  all in the state directory
---@param absolute? fun(path: string): string? default: paths are not changed
---@return ponder.show.server.Logs? logs
---@return string? message
---@return string? run the named one, if any: FILE#3
function logs.new(names, absolute)
    local self = setmetatable({ directories = {} }, Logs)
    if not names then
        self.directories[1] = state.directory()
        return self
    end
    local seen, first = {}, nil
    self.named = {}
    for i, name in ipairs(names) do
        local path, message, number = kept.find(name)
        path = path and absolute and absolute(path) or path
        if not path then
            return nil, message
        end
        self.named[i] = { name = name:gsub("#%d+$", number and "" or "%0"), path = path }
        first = first or number and ("%s#%d"):format(self.named[i].name, number)
        local directory = split(path)
        self.directories[#self.directories + 1] = not seen[directory] and directory or nil
        seen[directory] = true
    end
    return self, nil, first
end

local function stamp_of(by_name, name)
    return by_name[name] and ("%s %s"):format(by_name[name], by_name[name .. "-wal"] or "")
end

---The logs as they are now.
---@return ponder.show.server.Log[]
function Logs:list()
    local list, files = {}, {} -- size and time of each file, by directory and name
    for _, directory in ipairs(self.directories) do
        files[directory] = {}
        for _, file in ipairs(directories.files(directory) or {}) do
            files[directory][file.name] = ("%d %.6f"):format(file.bytes, file.modified_at)
        end
    end
    for _, log in ipairs(self.named or {}) do
        local directory, name = split(log.path)
        list[#list + 1] = { name = log.name, path = log.path,
            stamp = stamp_of(files[directory], name) }
    end
    for directory, by_name in pairs(not self.named and files or {}) do
        for name in pairs(by_name) do
            local log_name = name:match "^(.+)%.db$"
            list[#list + 1] = log_name and { name = log_name, path = directory .. "/" .. name,
                stamp = stamp_of(by_name, name) }
        end
    end
    return list
end

---The log and the number of a run, as the page names it.
---@param run string? "NAME#3"
---@return ponder.show.server.Log? log nil: no log of that name
---@return integer number runs.id
function Logs:find(run)
    local name, number = (run or ""):match "^(.+)#(%d+)$"
    for _, log in ipairs(self:list()) do
        if log.name == name then
            return log, math.tointeger(tonumber(number)) or 0
        end
    end
    return nil, 0
end

return logs
