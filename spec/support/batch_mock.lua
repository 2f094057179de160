--- Starts and steers batch_server.lua, a service with batches.
---
---     local mock = require "batch_mock"
---     local s <close> = mock.start()
---     s:set { polls = 3, kill = { create = 2 } }
---     s:state().paid["What is 1 + 1?"]

local calls = require "calls"
local json = require "ponder.json"
local net = require "ponder.core.net"
local shell = require "shell"

local mock = {}

---@class BatchMock
---@field url string
local Mock = {}
Mock.__index = Mock

function mock.start()
    local pipe = assert(io.popen(("exec %s run --no-log %s/spec/support/batch_server.lua"):format(
        shell.quote(shell.executable), shell.quote(shell.root)), "r"))
    local pid, address = (pipe:read "l" or ""):match "^(%d+)%s+(%S+)$"
    assert(pid, "the service did not start")
    return setmetatable({ pipe = pipe, pid = pid, url = "http://" .. address,
        pump = assert(net.open { proxy = "" }) }, Mock)
end

---@param path string
---@param body? table
function Mock:fetch(path, body)
    self.pump:submit { url = self.url .. path, body = body and json.encode(body),
        timeout_ms = 20000 }
    local batch = {}
    repeat
        local n = calls.poll(self.pump, 10000, batch)
    until n > 0
    return json.decode(assert(batch[3].body, batch[3].error))
end

function Mock:set(fields) return self:fetch("/_set", fields) end
function Mock:state() return self:fetch "/_state" end
function Mock:reset() return self:fetch("/_reset", {}) end

---The environment of a client that the service can kill: for sh, before `exec`.
function Mock:environment()
    return ("export OPENAI_API_KEY=key-pid-$$-0123456789 ANTHROPIC_API_KEY=key-pid-$$-0123456789 "
        .. "GEMINI_API_KEY=key-pid-$$-0123456789 OPENAI_BASE_URL=%s/v1 ANTHROPIC_BASE_URL=%s "
        .. "GEMINI_BASE_URL=%s/v1beta/openai no_proxy='*' HOME=/nonexistent "
        .. "XDG_CONFIG_HOME=/nonexistent"):format(self.url, self.url, self.url)
end

---Runs `ponder ARGUMENTS...` in a directory, as a client of this service.
---@param dir table of shell.directory
---@param arguments string[]
---@param env? string further assignments for sh
function Mock:ponder(dir, arguments, env)
    local words = {}
    for i, word in ipairs(arguments) do words[i] = shell.quote(word) end
    return shell.run(("cd %s && { sh -c '%s XDG_STATE_HOME=%s %s; exec \"$0\" \"$@\"' %s %s; } "
        .. ">$OUT 2>$ERR"):format(shell.quote(dir.path), self:environment():gsub("'%*'", "*"),
        dir.path .. "/state", env or "", shell.quote(shell.executable), table.concat(words, " ")))
end

function Mock:stop()
    if self.pipe then
        self.pump:close()
        os.execute("kill " .. self.pid)
        self.pipe:close()
        self.pipe = nil
    end
end

Mock.__close, Mock.__gc = Mock.stop, Mock.stop

return mock
