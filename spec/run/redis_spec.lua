-- ponder.redis: a connection to a real redis-server, which is killed, refuses and stays silent.

local redis = require "ponder.redis"
local redis_server = require "redis_server"
local shell = require "shell"
local task = require "ponder.task"
local urls = require "ponder.run.redis.url"
local within = require "within"

-- Calls f(client) in a run, with a client of this URL.
local function with(url, f, opts)
    return task.run(function()
        local client <close> = assert(redis.open(url, opts))
        return f(client)
    end)
end

describe("the URL of a Redis", function()
    local function place(text)
        local p = assert(urls.parse(text))
        return p.base_url, p.db, p.user, p.password, p.name
    end

    it("names a host, a port, a database and a user", function()
        assert.same({ "http://h:6379", 0, nil, nil, "redis://h:6379/0" }, { place "redis://h" })
        assert.same({ "https://h.org:7", 3, "u", "p@ss", "rediss://h.org:7/3" },
            { place "rediss://u:p%40ss@h.org:7/3" })
        assert.same({ "http://[::1]:6379", 0, nil, "secret", "redis://[::1]:6379/0" },
            { place "redis://:secret@[::1]" })
    end)

    it("limits the wait for a reply", function()
        assert.equal(1500, assert(urls.parse "redis://h?timeout=1500ms").timeout_ms)
    end)

    it("names a socket", function()
        local p = assert(urls.parse "redis+unix://:pw1234@/run/a%20b.sock?db=2")
        assert.same({ "/run/a b.sock", 2, "pw1234", "redis+unix:///run/a%20b.sock?db=2" },
            { p.socket_path, p.db, p.password, p.name })
    end)

    it("takes a password from a file", function()
        local dir <close> = shell.directory { pw = "from a file\nsecond line\n" }
        local p = assert(urls.parse("redis://h?password_file=" .. dir.path .. "/pw"))
        assert.equal("from a file", p.password)
        local missing, message = urls.parse("redis://h?password_file=" .. dir.path .. "/none")
        assert.is_nil(missing)
        assert.matches("password cannot be read: .*none", message)
    end)

    it("is not shown when it is refused", function()
        for _, text in ipairs { "redis:/h", "http://:hunter22@h", "redis://:hunter22@h:0",
            "redis://:hunter22@h/x", "redis://:hunter22@h?nonsense=1",
            "redis://:hunter22@h?timeout=0", "redis+unix://h/p", "redis://:hunter22@", "" } do
            local p, message = urls.parse(text)
            assert.is_nil(p, text)
            assert.is_nil(message:find("hunter22", 1, true), message)
        end
    end)
end)

describe("a connection to Redis", function()
    local server

    setup(function() server = redis_server.start() end)
    teardown(function()
        server:__close()
    end)

    local function on_redis(f) return with(server.url, f) end
    local connected = within(on_redis)

    it("calls, with replies of each kind", connected(function(client)
        assert.equal("PONG", client:call "PING")
        assert.equal("OK", client:call("SET", "bytes", "\0\r\n\255"))
        assert.equal("\0\r\n\255", client:call("GET", "bytes"))
        assert.is_false(client:call("GET", "nothing"))
        assert.equal(5, client:call("INCRBY", "n", 5))
        assert.same({ 1, false, { "a", {} }, { error = "ERR inner" } }, client:eval(
            "return {1, false, {ARGV[1], {}}, redis.error_reply('ERR inner')}", {}, "a"))
        assert.matches("^7", client.version)
    end))

    it("sends the calls of many tasks without waiting for each", connected(function(client)
        local items = {}
        for i = 1, 500 do
            items[i] = i
        end
        local replies = task.map(items, function(i)
            return client:call("ECHO", i)
        end, { concurrency = 500 })
        for i = 1, 500 do
            assert.equal(tostring(i), replies[i])
        end
        local calls = client:call("INFO", "stats"):match "total_reads_processed:(%d+)"
        assert.is_true(tonumber(calls) < 400, calls)
    end))

    it("runs scripts by their hash, even after Redis has forgotten them", connected(function(client)
        local script = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
        assert.equal(2, client:eval(script, { "counter" }, 2))
        client:call("SCRIPT", "FLUSH")
        assert.equal(5, client:eval(script, { "counter" }, 3))
        assert.equal(6, client:eval(script, { "counter" }, 1))
    end))

    it("uses the database of its URL for every call", function()
        with(server.url .. "?db=3", function(client) client:call("SET", "where", "three") end)
        on_redis(function(client) assert.is_false(client:call("GET", "where")) end)
        local message = with(server.url .. "?db=99", function(client)
            local reply, message, code = client:call("SET", "stray", 1)
            assert.same({ nil, "REDIS" }, { reply, code })
            return message
        end)
        assert.matches("out of range", message)
        on_redis(function(client) assert.is_false(client:call("GET", "stray")) end)
    end)

    it("drops the reply of a call that was cancelled", connected(function(client)
        client:call("SET", "a", "1")
        local value, _, code = task.timeout(0.05, function()
            return client:call("BLPOP", "empty list", 0.3)
        end)
        assert.same({ nil, "TIMEOUT" }, { value, code })
        assert.equal("1", client:call("GET", "a"))
    end))

    it("disconnects from a server that does not answer, and connects again",
        connected(function(client)
            local value, message, code = client:send(50, { "BLPOP", "empty list", 5 })
            assert.same({ nil, "TIMEOUT" }, { value, code })
            assert.matches("no reply within 0.05 s", message)
            assert.equal("PONG", client:call "PING")
        end))

    it("shows neither arguments nor scripts in errors", connected(function(client)
        local _, message = client:call("NOSUCH", "my secret argument")
        assert.is_nil(message:find("secret", 1, true))
        _, message = client:eval("return redis.call('NOSUCH')", {})
        assert.is_nil(message:find("%x%x%x%x%x%x%x%x%x%x"), message)
    end))

    it("cannot be used after it was closed", connected(function(client)
        client:call "PING"
        client:close()
        local _, message, code = client:call "PING"
        assert.equal("CLOSED_HERE", code)
        assert.matches("closed", message)
    end))

    it("does not outlive its state", function()
        assert.equal("", shell.printed { "-e",
            ("local r = require 'ponder.redis'.open '%s'; r:call 'PING'"):format(server.url) })
    end)
end)

describe("a Redis that refuses", function()
    it("reports a wrong password, and shows none", function()
        local server <close> = redis_server.start({ "--requirepass", "correct horse" },
            { cli = "-a 'correct horse' --no-auth-warning" })
        local function try(userinfo)
            return with(server.url:gsub("//", "//" .. userinfo, 1), function(client)
                return client:call "PING"
            end)
        end
        assert.equal("PONG", try ":correct%%20horse@")
        for userinfo, says in pairs { [":battery99@"] = "the password is wrong",
            [""] = "give a password in the URL" } do
            local reply, message, code = try(userinfo)
            assert.same({ nil, "WRONG_PASSWORD" }, { reply, code })
            assert.is_truthy(message:find(says, 1, true), message)
            assert.is_nil(message:find "battery")
        end
    end)

    it("is full or a replica, and can be retried later", function()
        local server <close> = redis_server.start()
        with(server.url, function(client)
            client:call("CONFIG", "SET", "maxmemory", 1)
            local _, message, code = client:call("SET", "a", 1)
            assert.equal("FULL", code)
            assert.matches("raise its maxmemory", message)
            client:call("CONFIG", "SET", "maxmemory", 0)
            client:call("REPLICAOF", "127.0.0.1", 1)
            _, message, code = client:eval("return redis.call('SET', KEYS[1], 1)", { "a" })
            assert.equal("READ_ONLY", code)
            assert.matches("is a replica", message)
            assert.is_true(redis.is_transient "FULL" and redis.is_transient "READ_ONLY")
            assert.is_false(redis.is_transient "WRONG_PASSWORD")
        end)
    end)

    it("is unavailable, and comes back", function()
        local server <close> = redis_server.start { "--appendonly", "yes", "--appendfsync",
            "always" }
        with(server.url, function(client)
            client:call("SET", "kept", "yes")
            server:kill()
            local heard = {}
            local value = redis.persist(function(message)
                heard[#heard + 1] = message or "passed"
                if #heard == 2 then
                    server:again()
                end
            end, function() return client:call("GET", "kept") end)
            assert.equal("yes", value)
            assert.matches("the server closed the connection", heard[1])
            assert.matches("cannot connect to the socket", heard[2])
            assert.equal("passed", heard[#heard])
        end)
    end)

    -- Calls f(client) with a server that answers the first request with these bytes.
    local function with_fake(bytes, f)
        local dir <close> = shell.directory { bytes = bytes, ["fake.py"] = [[
import socket, os
s = socket.socket(socket.AF_UNIX); s.bind("sock"); s.listen(1)
if os.fork(): os._exit(0)
os.close(0); os.close(1); os.close(2)
c = s.accept()[0]; c.recv(999); c.sendall(open("bytes", "rb").read()); c.recv(999)]] }
        os.execute(("cd %s; python3 fake.py"):format(dir.path))
        with("redis+unix://" .. dir.path .. "/sock", f)
    end

    it("is too old", function()
        local text = "# Server\r\nredis_version:5.0.7\r\n"
        with_fake(("$%d\r\n%s\r\n"):format(#text, text), function(client)
            local _, message, code = client:call "PING"
            assert.equal("VERSION", code)
            assert.matches("version 5.0.7 of Redis is too old", message)
        end)
    end)

    it("sends replies that nobody asked for, or an invalid version", function()
        with_fake("$0\r\n\r\n+a\r\n+b\r\n", function(client)
            assert.equal("a", client:call "PING")
            assert.is_nil((client:call "PING"))
        end)
        with_fake("+" .. ("x"):rep(1 << 20), function(client)
            local _, message, code = task.timeout(30, client.call, client, "PING")
            assert.equal("PROTOCOL", code)
            assert.matches("a line of a reply exceeds 64 KiB", message)
        end)
        with_fake(":7\r\n+a\r\n", function(client) assert.equal("a", client:call "PING") end)
    end)
end)

describe("a Redis on a port", function()
    it("is reached over its socket, TCP, and TLS if its certificate is trusted", function()
        local port, tls_port = redis_server.free_port(), redis_server.free_port()
        local dir <close> = shell.directory()
        os.execute(("cd %s && openssl req -x509 -newkey ec -pkeyopt "
            .. "ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext "
            .. "subjectAltName=DNS:localhost -keyout key -out crt 2>/dev/null"):format(dir.path))
        local server <close> = redis_server.start { "--port", tostring(port), "--tls-port",
            tostring(tls_port), "--tls-cert-file", dir.path .. "/crt", "--tls-key-file",
            dir.path .. "/key", "--tls-ca-cert-file", dir.path .. "/crt",
            "--tls-auth-clients", "no" }
        local numbers = {}
        for i = 1, 500000 do numbers[i] = i end
        local large = table.concat(numbers, " ") -- more than all buffers hold
        local secure = ("rediss://localhost:%d?ca_file=%s/crt"):format(tls_port, dir.path)
        for _, url in ipairs { server.url, ("redis://localhost:%d/1"):format(port), secure } do
            with(url, function(client)
                assert.equal("OK", client:call("SET", "large", large))
                local replies = task.map({ 1, 2, 3 }, function()
                    return client:call("GET", "large")
                end)
                assert.is_true(replies[1] == large and replies[3] == large)
            end)
        end
        with(("rediss://localhost:%d"):format(tls_port), function(client)
            local _, message, code = client:call "PING"
            assert.equal("TLS", code)
            assert.matches("certificate", message)
        end)
    end)

    it("is reached directly, whatever proxy the environment names", function()
        local port = redis_server.free_port()
        local _ <close> = redis_server.start { "--port", tostring(port) }
        local proxy = "http://127.0.0.1:1"
        assert.equal("PONG\n", shell.printed({ "-e",
            ("print(require('ponder.redis').open('redis://127.0.0.1:%d'):call('PING'))"):format(
            port) }, { env = { http_proxy = proxy, ALL_PROXY = proxy } }))
    end)
end)
