--- The logs that a page shows: files that were named, or all that are kept. A request names a run
--- as the page lists it, "NAME#3"; what is not among the logs cannot be read through the page.

local directories = require "ponder.core.directory"
local kept = require "ponder.log.kept"
local state = require "ponder.state"

local logs = {}

---@class ponder.view.Log
---@field name string as the page shows it: a name of `ponder log`, or the file as it was named
---@field path string
---@field stamp string? changes whenever the file does; nil: there is no such file yet

---@class ponder.view.Logs
---@field named ponder.view.Log[]? nil: all that are kept
---@field directories string[] where they are
local Logs = {}
Logs.__index = Logs

local function split(path)
    local directory, name = path:match "^(.*)/([^/]*)$"
    return directory == "" and "/" or directory or ".", name or path
end

---@param names? string[] files that may not be there yet, names or numbers in ponder log; nil: all
---  that are kept
---@param absolute? fun(path: string): string? default: paths stay as they are
---@return ponder.view.Logs? logs
---@return string? message
---@return string? run the one that was named, where one was: FILE#3
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

-- What the files of a directory are by their names.
local function files_of(directory)
    local byname = {}
    for _, file in ipairs(directories.files(directory) or {}) do
        byname[file.name] = ("%d %.6f"):format(file.bytes, file.modified_at)
    end
    return byname
end

local function stamp_of(byname, name)
    return byname[name] and ("%s %s"):format(byname[name], byname[name .. "-wal"] or "")
end

---The directory of a log.
---@param log ponder.view.Log
---@return string
function Logs.directory_of(log)
    return (split(log.path))
end

---The logs as they are now.
---@return ponder.view.Log[]
function Logs:list()
    local list, files = {}, {}
    for _, directory in ipairs(self.directories) do
        files[directory] = files_of(directory)
    end
    for _, log in ipairs(self.named or {}) do
        local directory, name = split(log.path)
        list[#list + 1] = { name = log.name, path = log.path,
            stamp = stamp_of(files[directory], name) }
    end
    for directory, byname in pairs(not self.named and files or {}) do
        for name in pairs(byname) do
            local own = name:match "^(.+)%.db$"
            list[#list + 1] = own and { name = own, path = directory .. "/" .. name,
                stamp = stamp_of(byname, name) }
        end
    end
    return list
end

---The log and the number of a run, as the page names it.
---@param run string? "NAME#3"
---@return ponder.view.Log? log nil: there is none of that name
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
