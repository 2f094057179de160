--- MCP over standard input and output: one JSON object a line.

local json = require "ponder.json"
local protocol = require "ponder.mcp.protocol"
local reader = require "ponder.core.reader"
local task = require "ponder.task"
local waiters = require "ponder.task.waiters"

local stdio = {}

local GRACE_S = 2 -- for running requests once the input ends

-- Calls `on_bytes(bytes)` as input arrives, until it ends.
local function each_piece(fd, on_bytes)
    local input = reader.open(fd)
    local arrival, posted = waiters.new "input", false
    local source = task.add_source { port = input:number(), pending = function() return true end,
        take = function()
            posted = true
            arrival:wake()
        end }
    repeat
        if not posted then
            arrival:wait()
        end
        posted = false
        local bytes, ended = input:take()
        on_bytes(bytes)
    until ended
    task.remove_source(source)
    input:close()
end

-- Returns a function that splits pieces of input into lines. (Matching a pattern would take
-- quadratic time on a long line.)
local function lines(on_line, on_too_long)
    local parts, size = {}, 0
    return function(bytes)
        local at, stop = 1, bytes:find("\n", 1, true)
        while stop do
            parts[#parts + 1] = bytes:sub(at, stop - 1)
            local whole = size <= protocol.MAX_MESSAGE and table.concat(parts) or ""
            parts, size, at = {}, 0, stop + 1
            stop = bytes:find("\n", at, true)
            if whole:find "%S" then
                on_line(whole)
            end
        end
        local rest = bytes:sub(at)
        size = size + #rest
        parts[#parts + 1] = size <= protocol.MAX_MESSAGE and rest or nil
        if size > protocol.MAX_MESSAGE and #parts > 0 then
            parts = {}
            on_too_long()
        end
    end
end

---Serves one client over standard input until it ends; running requests then have two seconds to
---finish.
---@param server ponder.mcp.Server
---@param out file* gets the messages for the client
function stdio.serve(server, out)
    local function send(message)
        out:write(json.encode(message), "\n")
        out:flush()
    end
    local function refuse(message)
        send(protocol.failure(nil, protocol.PARSE_ERROR, "Parse error: " .. message))
    end
    local session = server:session(send)
    each_piece(0, lines(function(line)
        local message, problem = protocol.decode(line)
        if message == nil then
            return refuse(tostring(problem))
        end
        session:receive(message)
    end, function() refuse "the line is too long" end))
    task.timeout(GRACE_S, session.finish, session)
    session:close()
end

return stdio
