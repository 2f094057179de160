-- Userdata that own something (Box in src/api/api.h): finalizers that close them while they are in
-- use, `__gc` called by hand, memory that fails, forked children.

local finalize = require "finalize"
local loop = require "ponder.core.loop"
local memory = require "memory"
local redis_server = require "redis_server"
local shell = require "shell"

local PRELUDE = [[
    local dir, redis_socket = %q, %q
    local function core(name) return require("ponder.core." .. name) end
    local loop = core "loop"
    local function await(source)
        local ports = {}
        repeat
            local n = loop.wait(20, ports)
            for i = 1, n do
                if ports[i] == source:port() then return end
            end
        until n == 0
        error "nothing came"
    end
    local function connect(socket)
        local c = core "redis".connect("http://localhost", socket, nil, 5000)
        while c:state() == "connecting" do await(c) end
        return c
    end
    local function new_store()
        return assert(core "store".open(dir .. "/" .. os.clock(), { mode = "create" }))
    end
    ]]

-- Of each kind, the source of a function that uses one while it makes values, and then the boxes.
local IN_USE = {
    ["the rows of a store"] = [[
        local db = new_store()
        local next_row, _, _, rows = db:rows "SELECT 'a' || hex(zeroblob(40)) AS a, 'b' AS b"
        return next_row, db, rows]],
    ["a row of a store, by name"] = [[
        local db = new_store()
        local next_row, _, _, rows = db:columns "SELECT 'a' || hex(zeroblob(40)) AS a, 'b' AS b"
        return next_row, rows, db]],
    ["a request"] = [[
        local server, address = core "http".listen { address = "127.0.0.1:0" }
        local pump = core "net".open { proxy = "" }
        pump:submit { url = "http://" .. address .. "/path?name=value", body = ("x"):rep(100),
            headers = { one = "first", two = "second" } }
        await(server)
        return function()
            local r = server:take()
            return r.method, r.path, r.query.name, r.headers.one, r.headers.two, r.body
        end, server, pump]],
    ["a reply of Redis"] = [[
        local c = connect(redis_socket)
        c:send { "EVAL", "return {ARGV[1], {ARGV[2], 7}, ARGV[1]}", 0, ("a"):rep(50),
            ("b"):rep(50) }
        await(c)
        return function()
            local ok, reply = c:take()
            return ok, reply[1], reply[2][1], reply[2][2], reply[3]
        end, c]],
    ["the state of a connection to Redis"] = [[
        local c = connect(dir .. "/none")
        return function()
            local state, _, code = c:state()
            return state, code
        end, c]],
    ["the output of a process"] = [[
        local child = core "process".start({ "sh", "-c", "printf '%060d\\n' 1 2" },
            { "PATH=" .. os.getenv "PATH" }, nil, 1000)
        while not child:ended() do await(child) end
        return function() return child:read "stdout" end, child]],
    ["a line of a process"] = [[
        local child = core "process".start({ "sh", "-c", "printf '%060d\\n' 1 2" },
            { "PATH=" .. os.getenv "PATH" }, nil, 1000)
        while not child:ended() do await(child) end
        return function() return child:line "stdout" end, child]],
    ["the result of a call"] = [[
        local pump = core "net".open { proxy = "" }
        pump:submit { url = "http://127.0.0.1:1" }
        local batch = {}
        await(pump)
        return function() return pump:take(batch), batch[3].code, batch[3].total_ms > 0 end, pump]],
    ["the bytes of a descriptor"] = [[
        local file, fd = io.open(dir .. "/private/file"), nil
        for _, entry in ipairs(core "directory".files "/proc/self/fd") do
            fd = entry.bytes == 4321 and math.tointeger(tonumber(entry.name)) or fd
        end
        local reader = core "reader".open(fd)
        return function() return reader:take(), io.type(file) end, reader]],
    ["a directory"] = [[
        local list = core "directory".files
        return function() return #list(dir .. "/private") end]],
    ["a private file"] = [[
        local private = core "private"
        return function()
            local path = dir .. "/private/file"
            return private.read(path), private.about(path, true).path
        end]],
    ["the process of a program"] = [[
        local program, child = require "ponder.run.sandbox.program", nil
        local confine, run = core "confine", require("ponder.sandbox").run
        local start = confine.start
        run "error()" -- no process is left
        function confine.start(made) child = start(made) return child end
        run ""
        confine.start = start
        local asked = string.pack("<I8i8s4", 8 << 20, 1000, "return 'a', ('x'):rep(50), b")
            .. program.encode({ { b = "b" } }, 1)
        return function()
            assert(child:send(asked, 60))
            return child:receive(60, 1000)
        end, child]],
}

local dir, redis

setup(function()
    dir, redis = shell.directory { ["private/file"] = ("x"):rep(4321) }, redis_server.start()
    os.execute("chmod 600 " .. dir.path .. "/private/file")
    shell.build "fork.so"
end)
teardown(function()
    dir:__close()
    redis:__close()
end)

local function source(code)
    return PRELUDE:format(dir.path, redis.socket) .. code
end

local function each(list)
    return coroutine.wrap(function()
        for name, code in pairs(list) do
            coroutine.yield(name, code)
        end
    end)
end

-- The boxes that are arguments and locals of the functions that run.
local function on_stack()
    local found = {}
    for level = 1, 100 do
        if not debug.getinfo(level, "l") then return found end
        for i = 1, 250 do
            local name, value = debug.getlocal(level, i)
            if not name then break end
            local class = type(value) == "userdata" and debug.getmetatable(value)
            if class and tostring(class.__name):find "^ponder%." then
                found[#found + 1] = value
            end
        end
    end
end

-- Calls all that a box has, and then what closes it.
local function attack(box)
    local class = debug.getmetatable(box)
    for name, method in pairs(class.__index) do
        if name ~= "close" then
            pcall(method, box)
        end
    end
    class.__gc(box)
    class.__close(box)
end

describe("a finalizer that uses and closes what is in use:", function()
    for name, code in each(IN_USE) do
        it(name, function()
            local use = assert(load(source(code)))()
            local expected = table.pack(pcall(use))
            local packed = table.pack(load(source(code))())
            local ran, waited = false, true
            local got = table.pack(finalize.during(function()
                for i = 2, packed.n do
                    attack(packed[i])
                end
                for _, box in ipairs(on_stack()) do
                    attack(box)
                end
                waited = pcall(loop.wait, 0.05) -- its callbacks free what disconnects
                ran = true
            end, packed[1]))
            assert.is_true(ran and not (waited and packed.n > 1))
            assert.same(expected, got)
            for i = 2, packed.n do
                local _, message = pcall(debug.getmetatable(packed[i]).__index.port
                    or packed[1], packed[i])
                assert.is_true(message == nil or message:find "closed" ~= nil, message)
            end
        end)
    end
end)

describe("when memory fails, nothing is left of", function()
    for name, code in each(IN_USE) do
        it(name, function()
            memory.sweep(source(code))
        end)
    end
end)

-- Of each kind, the source of a function that raises unless a box still works, and the box.
local IN_PARENT = {
    ["a server"] = [[
        local server, address = core "http".listen { address = "127.0.0.1:0" }
        return function()
            local pump <close> = core "net".open { proxy = "" }
            pump:submit { url = "http://" .. address }
            await(server)
            assert(server:respond(assert(server:take()).id, 204))
            await(pump)
            local batch = {}
            pump:take(batch)
            assert(batch[3].status == 204)
        end, server]],
    ["a pump"] = [[
        local server, address = core "http".listen { address = "127.0.0.1:0" }
        local pump = core "net".open { proxy = "" }
        pump:submit { url = "http://" .. address }
        await(server)
        local id = server:take().id
        return function()
            server:respond(id, 204)
            await(pump)
            local batch = {}
            pump:take(batch)
            assert(batch[3].status == 204)
        end, pump]],
    ["a connection to Redis"] = [[
        local c = connect(redis_socket)
        return function()
            c:send { "PING" }
            await(c)
            assert(select(2, c:take()) == "PONG")
        end, c]],
    ["a process"] = [[
        local child = core "process".start({ "cat" }, { "PATH=" .. os.getenv "PATH" }, nil, 1000)
        return function()
            child:write "text\n"
            await(child)
            assert(child:line "stdout" == "text")
        end, child]],
    ["a store"] = [[
        local db = new_store()
        return function() assert(db:row "SELECT 7" == 7) end, db]],
    ["the watch of a directory"] = [[
        local watch = loop.directory(dir)
        return function()
            io.open(dir .. "/new", "w"):close()
            await({ port = function() return watch:number() end })
        end, watch]],
    ["a handler of a signal"] = [[
        local signal = loop.signal "hangup"
        return function()
            os.execute("kill -HUP $PPID")
            await({ port = function() return signal:number() end })
        end, signal]],
}

describe("a forked child can neither use nor close", function()
    for name, code in each(IN_PARENT) do
        it(name, function()
            local check, box = assert(load(source(code)))()
            local class = debug.getmetatable(box)
            loop.wait(0) -- now epoll knows its descriptors
            local port = class.__index.port or class.__index.number or class.__index.begin
            assert.is_nil(require "fork" (function()
                local ok, message = pcall(port, box)
                assert(not ok and message:find("belongs to the process that opened it", 1, true),
                    message)
                class.__index.close(box)
                class.__gc(box)
                loop.wait(0)
            end))
            check()
            class.__index.close(box)
        end)
    end
end)

describe("__gc called by hand", function()
    it("does nothing to a search", function()
        local core = require("ponder.core.search").new { policy = "bfs", k = 2 }
        debug.getmetatable(core).__gc(core)
        assert.equal(0, core:depth(0))
    end)

    it("closes a regular expression", function()
        local regex = require("ponder.core.regex").new("a+", false)
        debug.getmetatable(regex).__gc(regex)
        debug.getmetatable(regex).__gc(regex)
        assert.error_matches(function() regex:matches "a" end, "the regex is closed")
    end)

    it("of a math.random state cannot be reached through another userdata", function()
        local random = require "ponder.core.random"
        for _, value in ipairs { io.stdout, loop.port(), random.draw } do
            assert.is_false(pcall(random.use, value))
        end
        local state = random.new(7)
        random.use(state)
        local first = math.random(1000)
        random.use(random.new(7))
        assert.equal(first, math.random(1000))
        random.use(nil)
    end)
end)

it("a search survives finalizers that use it when the Lua state is closed", function()
    local r = shell.run(("LUA_CPATH=%s %s - <$IN >$OUT 2>$ERR"):format(shell.quote(package.cpath),
        shell.LUA), [[
            local search
            KEPT = setmetatable({}, { __gc = function()
                for _, method in pairs(debug.getmetatable(search).__index) do
                    pcall(method, search, 1, 1, 1)
                end
                io.write "done"
            end })
            search = require("ponder.core.search").new { policy = "bfs", k = 2 }]])
    assert.same({ 0, "", "done" }, { r.status, r.err, r.out })
end)
