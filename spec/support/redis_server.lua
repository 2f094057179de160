--- A redis-server of a spec's own, on a Unix socket (and a port, if requested) in a
--- directory of its own.
---
---     local server <close> = redis_server.start { "--appendonly", "yes" }
---     local client = redis.open(server.url)
---     server:kill(); server:again()    -- SIGKILL; restarts with its data

local shell = require "shell"

local redis_server = {}

---@class spec.RedisServer
---@field url string "redis+unix:///tmp/.../redis.sock"
---@field pid string
local Server = {}
Server.__index = Server

--- Starts it, and waits until it answers.
---@return spec.RedisServer self
function Server:again()
    local words = {}
    for _, word in ipairs(self.arguments) do
        words[#words + 1] = shell.quote(word)
    end
    self.pid = shell.output(("cd %s && { redis-server --port 0 --unixsocket %s --dir %s --save '' "
        .. "%s --daemonize no >server.log 2>&1 & echo $!; }"):format(self.path, self.socket,
        self.path, table.concat(words, " ")))
    for _ = 1, 500 do
        if self:cli "PING" == "PONG" then
            return self
        end
        os.execute "sleep 0.02"
    end
    error("redis-server did not start:\n" .. shell.output("cat " .. self.path .. "/server.log"))
end

---@param command string arguments for redis-cli, as sh has them
---@return string printed
function Server:cli(command)
    return shell.output(("redis-cli -s %s %s %s 2>&1"):format(self.socket, self.options or "",
        command))
end

---SIGKILL; returns when it is gone, or an unreaped zombie. The first thread may be a
---zombie while others still hold its sockets.
function Server:kill()
    os.execute(([[p=/proc/%s; kill -KILL %s 2>/dev/null
        while grep -qs '^State:.[^Z]' $p/status ||
            [ "$(ls $p/task 2>/dev/null | wc -l)" -gt 1 ]
        do sleep 0.005; done]]):format(self.pid, self.pid))
end

function Server:__close()
    self:kill()
    self.dir:__close()
end

---@param arguments? string[] of redis-server
---@param opts? {cli: string?} options for redis-cli, such as "-a PASSWORD"
---@return spec.RedisServer
function redis_server.start(arguments, opts)
    local dir = shell.directory()
    local socket = dir.path .. "/redis.sock"
    return setmetatable({ dir = dir, path = dir.path, socket = socket,
        url = "redis+unix://" .. socket, arguments = arguments or {},
        options = opts and opts.cli }, Server):again()
end

---A port that nothing listens on now.
---@return integer
function redis_server.free_port()
    return math.tointeger(tonumber(shell.output [[python3 -c 'import socket
s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])']]))
end

return redis_server
