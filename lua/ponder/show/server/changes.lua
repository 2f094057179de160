--- Watches the files in directories with inotify, for pages of growing logs and `eval --watch`.
--- Where that does not work (some network file systems), only the page of a running run loads it
--- again.

local loop = require "ponder.core.loop"
local task = require "ponder.task"
local waiters = require "ponder.run.task.waiters"

local changes = {}

---@class ponder.show.server.Changes
---@field count integer changes seen so far
---@field problem string? why a directory cannot be watched
---@field private waiting ponder.task.Waiters
local Changes = {}
Changes.__index = Changes

---@param directories string[]
---@return ponder.show.server.Changes
function changes.watch(directories)
    local self = setmetatable({ count = 0, waiting = waiters.new "a change",
        sources = {} }, Changes)
    for _, directory in ipairs(directories) do
        local watch, message = loop.directory(directory)
        self.problem = self.problem or message
        self.sources[#self.sources + 1] = watch and task.add_source { watch = watch,
            port = watch:number(), pending = function() return true end,
            take = function() self:wake() end }
    end
    return self
end

---Counts a change and ends all waits.
function Changes:wake()
    self.count = self.count + 1
    self.waiting:wake()
end

---Waits until `count` differs from `seen`.
function Changes:wait(seen)
    if self.count == seen then
        self.waiting:wait()
    end
end

---Stops watching. No task may wait afterwards.
function Changes:close()
    for _, source in ipairs(self.sources) do
        task.remove_source(source)
        source.watch:close()
    end
    self.sources = {}
end
Changes.__close = Changes.close

return changes
