--- Watches the files in a directory, so that pages notice a growing log. Uses inotify; where that
--- does not work (some network file systems), waits end by timeout.

local loop = require "ponder.core.loop"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"
local waiters = require "ponder.run.task.waiters"

local changes = {}

---@class ponder.show.server.Changes
---@field count integer changes seen so far
---@field private waiting ponder.task.Waiters
local Changes = {}
Changes.__index = Changes

---@param directory string
---@return ponder.show.server.Changes
function changes.watch(directory)
    local self = setmetatable({ count = 0, waiting = waiters.new "a change" }, Changes)
    self.watch = loop.directory(directory)
    if self.watch then
        self.source = { port = self.watch:number(), pending = function() return true end,
            take = function() self:wake() end }
        task.add_source(self.source)
    end
    return self
end

---Counts a change and ends all waits.
function Changes:wake()
    self.count = self.count + 1
    self.waiting:wake()
end

---Waits until `count` differs from `seen`, or the time is over.
---@param seen integer `count` when the files were read last
---@param seconds number
---@return integer count
function Changes:wait(seen, seconds)
    if self.count == seen then
        self.waiting:wait(scheduler.clock() + seconds)
    end
    return self.count
end

---Stops watching. No task may wait afterwards.
function Changes:close()
    if self.watch then
        task.remove_source(self.source)
        self.watch:close()
        self.watch = nil
    end
end
Changes.__close = Changes.close

return changes
