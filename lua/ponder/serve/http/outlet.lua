--- An answer that is sent while it is made. What its client has not read yet waits in the server,
--- up to a limit; then those who write wait for the client, in turn.

local scheduler = require "ponder.run.task.scheduler"
local waiters = require "ponder.run.task.waiters"

local outlet = {}

local PIECE = 1 << 16 -- bytes
local PATIENCE_S = 60 -- for a client that is to make room
local SILENCE_S = 15 -- before it gets a comment
local WAIT = "the client of a stream"

---@class ponder.serve.Outlet
---@field id integer of the request
---@field at number when something was written last, on the scheduler's clock
---@field first number? when something was written first
---@field private is_busy boolean whether a text has been sent in part
local Outlet = {}
Outlet.__index = Outlet

function outlet.new(http, id)
    return setmetatable({ http = http, id = id, at = scheduler.clock(), first = nil,
        is_busy = false, room = waiters.new(WAIT) }, Outlet)
end

-- Waits until the client has read enough, or another text is sent. False: that takes too long, or
-- the current task may not wait. (A run's log does not record these waits.)
local function wait(self)
    return pcall(scheduler.check, WAIT) and scheduler.with_context("outside", true, self.room.wait,
        self.room, scheduler.clock() + PATIENCE_S)
end

-- The end of a text that did not fit at once. After a part of it nothing else can follow.
local Sending = { __close = function(sending)
    local self = sending.outlet
    self.is_busy = false
    if not sending.is_done then
        self.http:abort(self.id)
    end
    self.room:wake()
end }

local function send_long(self, text)
    while self.is_busy do
        if not wait(self) then
            return self.http:abort(self.id)
        end
    end
    local sending <close> = setmetatable({ outlet = self, is_done = false }, Sending)
    self.is_busy = true
    for at = 1, #text, PIECE do
        local piece = text:sub(at, at + PIECE - 1)
        local written = self.http:write(self.id, piece)
        while written == nil and wait(self) do
            written = self.http:write(self.id, piece)
        end
        if not written then
            return
        end
    end
    sending.is_done = true
end

---Sends a text. A client that is too slow is disconnected.
function Outlet:send(text)
    self.at = scheduler.clock()
    self.first = self.first or self.at
    if self.is_busy or #text > PIECE or self.http:write(self.id, text) == nil then
        send_long(self, text)
    end
end

---Tells those who wait that there is room.
function Outlet:wake()
    self.room:wake()
end

---Sends a comment if nothing was sent for long, since clients and proxies close silent streams.
function Outlet:keep_alive()
    local now = scheduler.clock()
    if now - self.at >= SILENCE_S and not self.is_busy then
        self.at = now
        self.http:write(self.id, ": waiting\n\n")
    end
end

return outlet
