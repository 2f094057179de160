--- Sends the progress of a run to the pages that show it, as server-sent events.
---
--- A page starts with what its run has logged so far and the id of a follower, which remembers how
--- far that was. The follower's stream then sends the rest as the log grows. Each read of the log
--- is a separate transaction, so that its writer never waits for a page.

local json = require "ponder.json"
local loop = require "ponder.core.loop"
local page_data = require "ponder.show.export.page_data"
local random = require "ponder.core.random"
local reader = require "ponder.run.log.reader"
local scheduler = require "ponder.run.task.scheduler"
local task = require "ponder.task"
local waiters = require "ponder.run.task.waiters"

local follow = {}

local MAX_WAITING = 16 -- followers whose page has not opened its stream yet
local GATHER_S = 0.1 -- changes within this time are one event
local SHARE = 10 -- a follower sleeps this many times as long as reading its log took
local POLL_S = 5 -- a killed process does not change its log: how often to check for that

-------------------------------------------------------------------------------
-- A log's directory

---@class ponder.show.server.Changes
---@field count integer changes seen so far
---@field private waiting ponder.task.Waiters
local Changes = {}
Changes.__index = Changes

---Watches the files in a directory, so that pages notice a growing log. Uses inotify; where that
---does not work (some network file systems), waits end by timeout.
---@param directory string
---@return ponder.show.server.Changes
function follow.changes(directory)
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

-------------------------------------------------------------------------------
-- A page

---@class ponder.show.server.Follower
---@field id string
---@field path string of the log
---@field number integer runs.id
---@field data ponder.show.PageData
---@field changes ponder.show.server.Changes of the log's directory
---@field seen integer the count of `changes` when the log was read last

---@class ponder.show.server.Followers those whose streams have not begun, oldest first
local Followers = {}
Followers.__index = Followers

---@return ponder.show.server.Followers
function follow.new()
    return setmetatable({ waiting = {} }, Followers)
end

-- What the log holds since the last call.
local function read_changes(follower)
    local log <close>, message = reader.open(("%s#%d"):format(follower.path, follower.number))
    if not log then
        return nil, message
    end
    follower.seen = follower.changes.count
    return follower.data:update(log)
end

---What a run has logged so far, and a follower for the rest.
---@param path string
---@param number integer runs.id
---@param changes ponder.show.server.Changes
---@return table? data of ponder.show.export.page_data, with `follow`, the follower's id
---@return string? message
function Followers:begin(path, number, changes)
    local follower = { id = ("%016x"):format(random.draw()), path = path, number = number,
        changes = changes,
        data = page_data.new { pause = function() task.sleep(0) end } }
    local data, message = read_changes(follower)
    if not data then
        return nil, message
    end
    data.follow = follower.id
    table.insert(self.waiting, follower)
    if #self.waiting > MAX_WAITING then
        table.remove(self.waiting, 1)
    end
    return data
end

---Removes and returns a follower whose stream begins.
---@param id string?
---@return ponder.show.server.Follower?
function Followers:take(id)
    for i, follower in ipairs(self.waiting) do
        if follower.id == id then
            return table.remove(self.waiting, i)
        end
    end
end

---Sends changes until the page is closed, which cancels the task, or `is_ending` returns true.
---@param follower ponder.show.server.Follower
---@param write fun(text: string)
---@param is_ending fun(): boolean
function follow.stream(follower, write, is_ending)
    local last
    write ": following\n\n"
    while not is_ending() do
        local began = task.now()
        local data, message = read_changes(follower)
        if not data then
            return write(("event: lost\ndata: %s\n\n"):format(json.encode(message)))
        end
        local state = json.encode { data.run, data.sessions, data.totals }
        if state ~= last or #data.searches + #data.calls > 0 then
            write(("data: %s\n\n"):format(json.encode(data)))
        end
        last = state
        task.sleep(math.max(GATHER_S, SHARE * (task.now() - began)))
        follower.changes:wait(follower.seen, POLL_S)
    end
end

return follow
