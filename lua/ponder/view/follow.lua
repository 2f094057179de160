--- Sends what is new of a run to the pages that show it, as server-sent events.
---
--- A page comes with what its run had written by then, and the name of its follower, which knows
--- what that was. The stream of the follower then sends the rest as the log grows. Each look at a
--- log is a read transaction of its own, so that its writer never waits for a page.

local json = require "ponder.json"
local page_data = require "ponder.report.export.page_data"
local random = require "ponder.core.random"
local reader = require "ponder.log.reader"
local task = require "ponder.task"

local follow = {}

local MOST_WAITING = 16 -- followers whose page has not asked for its stream yet
local GATHER_S = 0.1 -- what comes within this is one event
local SHARE = 10 -- a follower rests so many times as long as a look at its log took
local LOOK_S = 5 -- a process that was killed says nothing: how often its end is looked for

---@class ponder.view.Follower
---@field id string
---@field path string of the log
---@field number integer runs.id
---@field data ponder.report.PageData
---@field changes ponder.view.Changes of the log's directory
---@field seen integer the count of `changes` when the log was read last

---@class ponder.view.Followers those whose streams have not begun, the oldest first
local Followers = {}
Followers.__index = Followers

---@return ponder.view.Followers
function follow.new()
    return setmetatable({ waiting = {} }, Followers)
end

local function look(follower)
    local log <close>, message = reader.open(("%s#%d"):format(follower.path, follower.number))
    if not log then
        return nil, message
    end
    follower.seen = follower.changes.count
    return follower.data:update(log)
end

---What a run has written so far, with a follower for the rest.
---@param path string
---@param number integer runs.id
---@param changes ponder.view.Changes
---@return table? data as of ponder.report.export.page_data, with `follow`, the follower's name
---@return string? message
function Followers:begin(path, number, changes)
    local follower = { id = ("%016x"):format(random.draw()), path = path, number = number,
        changes = changes,
        data = page_data.new { pause = function() task.sleep(0) end } }
    local data, message = look(follower)
    if not data then
        return nil, message
    end
    data.follow = follower.id
    table.insert(self.waiting, follower)
    if #self.waiting > MOST_WAITING then
        table.remove(self.waiting, 1)
    end
    return data
end

---A follower whose stream begins: nobody else gets it.
---@param id string?
---@return ponder.view.Follower?
function Followers:take(id)
    for i, follower in ipairs(self.waiting) do
        if follower.id == id then
            return table.remove(self.waiting, i)
        end
    end
end

-- What can change of the row of a run, its sessions and its sums.
local function state_of(data)
    return json.encode { data.run, data.sessions, data.totals }
end

---Sends what is new until the page goes away (its task is cancelled then) or is to end.
---@param follower ponder.view.Follower
---@param write fun(text: string)
---@param is_ending fun(): boolean
function follow.stream(follower, write, is_ending)
    local last
    write ": following\n\n"
    while not is_ending() do
        local began = task.now()
        local data, message = look(follower)
        if not data then
            return write(("event: lost\ndata: %s\n\n"):format(json.encode(message)))
        end
        local now = state_of(data)
        if now ~= last or #data.searches + #data.calls > 0 then
            write(("data: %s\n\n"):format(json.encode(data)))
        end
        last = now
        task.sleep(math.max(GATHER_S, SHARE * (task.now() - began)))
        follower.changes:wait(follower.seen, LOOK_S)
    end
end

return follow
