-- Replies of a Redis, or of a server that is not one: each call, and each read of a queue, ends
-- with a reply, or with nil, message, code. An input is the bytes of all replies; if its first byte
-- is even, replies to the authentication precede them.

local redis = require "ponder.redis"
local shell = require "shell"
local status = require "ponder.serve.queue.status"

-- Answers each connection with the bytes of the file "answer", once it has sent something.
local SERVER = [[
import os, socket
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(64)
if os.fork(): os._exit(0)
for fd in (0, 1, 2): os.close(fd)
open("pid", "w").write(str(os.getpid()))
s.settimeout(60) # nobody asks any more
while True:
    c = s.accept()[0]
    try:
        c.settimeout(5)
        c.recv(99999)
        c.sendall(open("answer", "rb").read())
        c.shutdown(socket.SHUT_WR)
        while c.recv(99999): pass
    except OSError: pass
    c.close()
]]

local ABOUT = "# Server\r\nredis_version:7.0.1\r\n"
local INFO = ("$%d\r\n%s\r\n"):format(#ABOUT, ABOUT)

local SEEDS = {
    "0+OK\r\n:7\r\n$-1\r\n*-1\r\n*2\r\n$1\r\na\r\n*1\r\n:-1\r\n",
    "0*2\r\n$1\r\n1\r\n$1\r\n2\r\n*2\r\n$4\r\ndone\r\n$1\r\n5\r\n:0\r\n*0\r\n*0\r\n*0\r\n",
    "0*2\r\n$10\r\n1700000000\r\n$3\r\n500\r\n*0\r\n:1\r\n*2\r\n$1\r\nw\r\n$13\r\n"
        .. "{\"seen_at\":1}\r\n*1\r\n$1\r\nc\r\n:3\r\n*1\r\n*4\r\n$7\r\npending\r\n:1\r\n"
        .. "$17\r\nlast-delivered-id\r\n$3\r\n1-1\r\n*1\r\n*2\r\n$3\r\n9-1\r\n*0\r\n*1\r\n$1\r\nm"
        .. "\r\n:2\r\n",
    "0*2\r\n$1\r\nx\r\n$98\r\n{\"id\":\"x\",\"spec\":\"{\\\"call\\\":\\\"f\\\"}\",\"item\":\"1\","
        .. "\"error\":\"e\",\"attempts\":3,\"at\":1,\"worker\":\"w\"}    \r\n",
    "0-ERR no\r\n-LOADING\r\n-NOAUTH x\r\n-MOVED 1 2\r\n-\r\n",
    "1-WRONGPASS\r\n", "1HTTP/1.1 400 Bad Request\r\n\r\n",
    "1$2147483648\r\n", "1*1000000\r\n", "1" .. ("*1\r\n"):rep(9) .. ":1\r\n", "1$-5\r\n", "1",
}

local MAX_COMMANDS = 30

local directory

local function start()
    directory = os.tmpname()
    os.remove(directory)
    os.execute("mkdir -m 700 " .. directory)
    local file <close> = assert(io.open(directory .. "/server.py", "w"))
    file:write(SERVER)
    file:close()
    os.execute(("cd %s && python3 server.py"):format(shell.quote(directory)))
end

local function answer(bytes)
    local file <close> = assert(io.open(directory .. "/answer", "wb"))
    file:write(bytes)
end

local function check(...)
    local value, message, code = ...
    if value == nil then
        assert(type(message) == "string" and type(code) == "string",
            "neither a reply nor a message and a code")
    end
end

local CALLS = {
    function(client)
        for _ = 1, 5 do
            check(client:call("GET", "x"))
        end
        check(client:eval("return 1", { "k" }, 1))
    end,
    function(client) check(status.figures(client, "q")) end,
    function(client) check(status.dead_letters(client, "q")) end,
    function(client) check(status.queues(client)) end,
    function(client) assert(type(status.gauges(client)) == "table") end,
}

local function try(input)
    if not directory then
        start()
    end
    local is_redis = (input:byte() or 0) % 2 == 0
    answer((is_redis and INFO or "") .. input:sub(2))
    local url = "redis+unix://" .. directory .. "/sock"
    for _, call in ipairs(CALLS) do
        local client <close> = assert(redis.open(url, { timeout_ms = 2000 }))
        local count, send = 0, client.send
        function client.send(...) -- a cursor may never end
            count = count + 1
            if count > MAX_COMMANDS then
                return nil, "enough", "CLOSED"
            end
            return send(...)
        end
        call(client)
    end
end

local function finish()
    if directory then
        os.execute(("cd %s && kill $(cat pid) && rm -rf %s"):format(shell.quote(directory),
            shell.quote(directory)))
    end
end

return { seeds = SEEDS, try = try, finish = finish, slow = true }
