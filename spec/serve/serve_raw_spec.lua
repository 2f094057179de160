-- ponder.serve on raw sockets: broken, slow, too large or invalid requests. Each is
-- answered or closed, and leaves no run behind.

local json = require "ponder.json"
local process = require "ponder.process"
local serve = require "ponder.serve"
local shell = require "shell"
local size = require "size"
local task = require "ponder.task"
local within = require "within"

local BODY = '{"model":"echo","messages":[{"role":"user","content":"hi"}]}'
local PIECE_S = 0.001

-- A request's bytes. `more`: further header lines; `body`: nil for none.
local function http(first, body, more)
    return ("%s\r\nHost: localhost\r\n%s%s\r\n%s"):format(first, more or "",
        body and ("Content-Type: application/json\r\nContent-Length: %d\r\n"):format(#body) or "",
        body or "")
end

local POST, CLOSE = "POST /v1/chat/completions HTTP/1.1", "Connection: close\r\n"
local CHUNKED = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"

local function chunks(text, length)
    local parts = {}
    for at = 1, #text, length do
        local part = text:sub(at, at + length - 1)
        parts[#parts + 1] = ("%x\r\n%s\r\n"):format(#part, part)
    end
    return table.concat(parts) .. "0\r\n\r\n"
end

-- Calls f(send, server, port); send(...) writes pieces one after the other, and returns what
-- arrived until the server closed the connection.
local function with_server(opts, f)
    task.run(function()
        opts.policies = opts.policies or { echo = function(request) return request.prompt end,
            wait = function() task.sleep(30) end,
            brief = function()
                task.sleep(0.05)
                return "done"
            end }
        opts.listen, opts.log = "127.0.0.1:0", function() end
        local server = serve.new(opts)
        local port = assert(server:start()):match ":(%d+)$"
        f(function(...)
            local client <close> = assert(process.open { command = { "bash", "-c",
                "exec 3<>/dev/tcp/127.0.0.1/" .. port .. "; cat <&0 >&3 & cat <&3; kill $!" } })
            for _, piece in ipairs { ... } do
                client:write(piece)
                task.sleep(PIECE_S)
            end
            return assert(client:wait(20000)).stdout
        end, server, port)
        repeat
            task.sleep(0.001) -- until it has noticed that the clients have gone
        until server.http:stats().connections == 0
        assert.equal(0, server.in_flight)
        assert.is_nil(next(server.running))
        server:drain()
        assert.is_true(server:wait())
    end)
end
local on_server = within(with_server)

local function count(text, pattern)
    return select(2, text:gsub(pattern, ""))
end

local OK = "^HTTP/1.1 200 OK\r\n.*\"content\":\"hi\""

describe("a server handles", function()
    -- The sanitizers keep freed memory.
    (size.SANITIZED and pending or it)("large answers, and gives their memory back", function()
        local dir <close> = shell.directory { ["p.lua"] = [[return function(request)
            for _ = 1, 160 do request:write(("x"):rep(65536)) end
        end]] }
        local r = shell.run(([[cd %s; %s serve p.lua --listen unix:s 2>$ERR & pid=$!
            until [ -S s ]; do sleep 0.02; done
            for i in $(seq 8); do
                curl -s --unix-socket s http://x/v1/chat/completions \
                    -H Content-Type:application/json -d '{"model":"p","stream":true,
                    "messages":[{"role":"user","content":"x"}]}' | wc -c >>sizes &
                jobs="$jobs $!"
            done
            wait $jobs; sort -u sizes >$OUT
            kib() { sed -n "s/$1:\t *\([0-9]*\) kB/\1/p" /proc/$pid/status; }
            for i in $(seq 300); do [ $(kib VmRSS) -lt 60000 ] && break; sleep 0.05; done
            kib VmHWM >>$OUT; kib VmRSS >>$OUT; kill $pid; wait $pid]]):format(dir.path,
            shell.quote(shell.executable)))
        local length, most, now = r.out:match "^(%d+)\n(%d+)\n(%d+)\n$"
        assert.is_true(tonumber(length) > 10 << 20)
        assert.is_true(tonumber(most) > 100000)
        assert.is_true(tonumber(now) < 60000)
    end)

    it("requests in pieces, several at once, and in chunks", on_server({}, function(send)
        local pieces, text = {}, http(POST, BODY, CLOSE)
        for at = 1, #text, 3 do
            pieces[#pieces + 1] = text:sub(at, at + 2)
        end
        assert.matches(OK, send(table.unpack(pieces)))
        assert.equal(3, count(send(http(POST, BODY) .. http(POST, BODY)
            .. http(POST, BODY, CLOSE)), "HTTP/1.1 200 OK"))
        assert.matches(OK, send(http(POST, nil, CLOSE .. CHUNKED) .. chunks(BODY, 7)))
    end))

    it("requests of HTTP/1.0, also for streams", on_server({}, function(send)
        local first = "POST /v1/chat/completions HTTP/1.0"
        assert.matches(OK, send(http(first, BODY)))
        local got = send(http(first, (BODY:gsub("{", '{"stream":true,', 1))))
        assert.matches('"content":"hi".*data: %[DONE%]\n\n$', got)
        assert.is_nil(got:find "[Cc]hunked")
    end))

    it("HEAD, with an answer without a body", on_server({}, function(send)
        local got = send(http("HEAD /v1/models HTTP/1.1", nil, CLOSE))
        assert.matches("^HTTP/1.1 200 OK.*Content%-Length: %d+\r\n\r\n$", got)
        got = send(http("HEAD /v1/chat/completions HTTP/1.1", nil, CLOSE))
        assert.matches("^HTTP/1.1 405 .*Allow: POST\r\n.*%d\r\n\r\n$", got)
    end))

    it("Expect: 100-continue, which it grants if it accepts the body",
        on_server({ max_body_bytes = 1000 }, function(send)
            local head = POST .. "\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                .. "Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            assert.matches("^HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK",
                send(head:format(#BODY), BODY))
            assert.matches("^HTTP/1.1 413 .*request_too_large", send(head:format(1001)))
        end))

    it("bodies over the limit, whole and in chunks, as soon as that is known",
        on_server({ max_body_bytes = 1000 }, function(send)
            local large = json.encode { a = ("x"):rep(200000) }
            local length = "Content-Type: application/json\r\nContent-Length: 1001\r\n"
            for _, bytes in ipairs { http(POST, large), http(POST, nil, length),
                http(POST, nil, CHUNKED) .. chunks(large, 1000),
                http(POST, nil, CHUNKED) .. chunks(large, 100):sub(1, 2000) } do
                assert.matches("^HTTP/1.1 413 .*x%-request%-id: %x+\r\n.*request_too_large",
                    send(bytes))
            end
        end))

    it("bodies without a key, which it does not keep", function()
        local keys = { { text = "secret-key-1" }, { text = "secret-key-2" } }
        with_server({ keys = keys }, function(send, server, port)
            -- A client that reads when it has sent everything.
            local client <close> = assert(process.open { command = { "bash", "-c",
                "exec 3<>/dev/tcp/127.0.0.1/" .. port .. [[; printf %s "$1" >&3
                head -c 15000000 /dev/zero >&3 && cat <&3]], "-", http(POST, nil,
                "Content-Type: application/json\r\nContent-Length: 15000000\r\n") } })
            assert.matches("^HTTP/1.1 401 ", assert(client:wait(20000)).stdout)
            local length = "Content-Length: 100000\r\nContent-Type: application/json\r\n"
            for _, given in ipairs { "", "Authorization: Bearer secret-key-3\r\n",
                "Authorization: Basic secret-key-1\r\n", "x-api-key: secret-key-\r\n",
                "x-api-key: secret-key-11\r\n" } do
                local got = send(http(POST, nil, given .. length))
                assert.matches("^HTTP/1.1 401 .*WWW%-Authenticate: Bearer\r\n.*invalid_api_key",
                    got)
                assert.equal(0, server.http:stats().body_bytes)
            end
            for _, given in ipairs { "Authorization: BEARER  secret-key-2\r\n",
                "x-api-key: secret-key-1\r\n" } do
                assert.matches(OK, send(http(POST, BODY, given .. CLOSE)))
            end
        end)
    end)

    it("more bodies at once than it may keep", function()
        with_server({ max_total_body_bytes = #BODY * 3 // 2 }, function(send, server)
            local running = task.spawn(send, http(POST, (BODY:gsub("echo", "wait"))))
            repeat task.sleep(0.001) until server.in_flight == 1
            assert.equal(#BODY, server.http:stats().body_bytes)
            assert.matches("^HTTP/1.1 429 .*Retry%-After: 1\r\n.*overloaded",
                send(http(POST, BODY)))
            running:cancel()
            repeat task.sleep(0.001) until server.in_flight == 0
            assert.matches(OK, send(http(POST, BODY, CLOSE)))
        end)
    end)

    it("streams of any size; it keeps only what their clients have not read yet", function()
        local server, written, total, grown = nil, 0, 64, nil
        local piece = ("Z"):rep(1 << 16)
        local function resident()
            local file <close> = assert(io.open "/proc/self/statm")
            return tonumber(file:read "a":match " (%d+)") << 12
        end
        local policies = { whole = function() return ("Z"):rep(20 << 20) end,
            pieces = function(request)
                for _ = 1, total do
                    request:write(("Z"):rep(1 << 20))
                    written = written + 1
                end
            end,
            behind = function(request)
                collectgarbage "restart" -- lua5.4.4 would wait long after the large strings
                local before = resident()
                for _ = 1, total << 4 do
                    request:write(piece)
                    while server.http:stats().unsent_bytes > 2 << 20 do
                        task.sleep(0)
                    end
                end
                grown = resident() - before
            end }
        with_server({ policies = policies }, function(_, started, port)
            server = started
            -- A client that begins to read when it gets a line; it counts what it reads.
            local function open(model)
                local body = json.encode { model = model, stream = true,
                    messages = { { role = "user", content = "?" } } }
                return assert(process.open { command = { "bash", "-c",
                    "exec 3<>/dev/tcp/127.0.0.1/" .. port .. [[; printf %s "$1" >&3
                    read -r; cat <&3 | tr -dc Z | wc -c]], "-",
                    http(POST, body, CLOSE) } })
            end
            local function read(client)
                client:write "\n"
                return tonumber(assert(client:wait(60000)).stdout)
            end
            local client = open "pieces"
            local stream
            repeat
                task.sleep(0.001)
                stream = select(2, next(server.streams))
            until stream and stream.is_busy
            assert.is_true(written < total // 2)
            assert.is_true(server.http:stats().unsent_bytes <= 4 << 20)
            assert.equal(total << 20, read(client))
            assert.equal(20 << 20, read(open "whole"))
            assert.equal(total << 20, read(open "behind"))
            assert.is_true(size.SANITIZED or grown < 32 << 20, grown)
        end)
    end)

    it("headers over the limit, those over twice the limit by libmicrohttpd",
        on_server({ max_header_bytes = 4096 }, function(send)
            for length, codes in pairs { [4500] = { '.*"code":"headers_too_large"',
                '.*"code":"uri_too_long"' }, [20000] = { "", "" } } do
                local long = ("a"):rep(length)
                assert.matches("^HTTP/1.1 431 " .. codes[1], send(http(POST, BODY,
                    CLOSE .. "X-A: " .. long .. "\r\n")))
                assert.matches("^HTTP/1.1 414 " .. codes[2],
                    send(http("GET /" .. long .. " HTTP/1.1", nil, CLOSE)))
            end
        end))

    it("paths and queries with a NUL, where libmicrohttpd would truncate them",
        on_server({}, function(send)
            for _, path in ipairs { "/healthz%00/x", "/v1/models/echo%00", "/healthz?a=%00b" } do
                assert.matches('^HTTP/1.1 400 .*"code":"invalid_path"',
                    send(http("GET " .. path .. " HTTP/1.1", nil, CLOSE)))
            end
        end))

    it("absolute URIs, whose host counts", on_server({}, function(send)
        for uri, status in pairs { ["http://localhost/v1/models"] = 200,
            ["HTTP://127.0.0.1:80/healthz?x=1"] = 200, ["https://localhost"] = 404,
            ["http://evil.example/healthz"] = 403, ["http://localhost@evil/healthz"] = 404,
            ["http:///healthz"] = 404 } do
            assert.matches("^HTTP/1.1 " .. status .. " ",
                send(http("GET " .. uri .. " HTTP/1.1", nil, CLOSE)))
        end
    end))

    it("headers that can be read in two ways, which it refuses at once",
        on_server({}, function(send)
            for _, more in ipairs { "Bad Header: x", "X-A : x", ": x", "X(A): x",
                "X-A: a\0b", "X-A: a\0", "X-A: \0", "X-A: a\1", "X-A: a\127b", "X-A: a\rb",
                "X-A: a\r\n b", "Transfer-Encoding: chunked\0", "Content-Length: 5\0",
                "Content-Length: 5\r\n 0", "Transfer-Encoding: identity, chunked" } do
                for _, last in ipairs { "", "X-B: x\r\n" } do
                    assert.matches("^HTTP/1.1 400 .*x%-request%-id: %x+\r\n.*ambiguous_request",
                        send(http(POST, nil, more .. "\r\n" .. last)), more)
                end
            end
            for _, first in ipairs { "GET /healthz\0x HTTP/1.1", "GE\0T /healthz HTTP/1.1",
                "GET  /healthz HTTP/1.1", "GET /healthz x HTTP/1.1" } do
                assert.matches("^HTTP/1.1 400 .*ambiguous_request", send(http(first)))
            end
            assert.matches("^HTTP/1.1 400 .*ambiguous_request", send "GET / HTTP/1.1\r\n\r\n")
        end))

    it("data that is not HTTP", on_server({}, function(send)
        local chunked = http(POST, nil, CHUNKED)
        for _, bytes in ipairs { "GET /healthz\r\n\r\n", http("GET /healthz HTTP/9.9"),
            "GET /healthz HTTP/1.1\r\nHost : x\r\n\r\n", "GET /healthz HTTP/1.1\r\n\r\n",
            chunked .. "zz\r\nab\r\n", chunked .. ("f"):rep(40) .. "\r\n",
            http(POST, nil, "Content-Length: -5\r\n") } do
            assert.matches("^HTTP/1.[01] [45]%d%d ", send(bytes))
        end
    end))

    it("a repeated length or host, of which a proxy may read the other",
        on_server({}, function(send)
            for _, more in ipairs { "Content-Length: 3\r\n", "Host: evil.example\r\n",
                "Transfer-Encoding: chunked\r\n", "Transfer-Encoding : chunked\r\n" } do
                assert.matches("^HTTP/1.1 400 .*ambiguous_request", send(http(POST, BODY, more)))
            end
            for _, encoding in ipairs { "identity", "gzip, chunked", "xchunked" } do
                assert.matches("^HTTP/1.1 400 .*ambiguous_request",
                    send(http(POST, nil, "Transfer-Encoding: " .. encoding .. "\r\n")))
            end
        end))

    it("text that is not UTF-8, which it repairs", on_server({}, function(send)
        assert.matches('^HTTP/1.1 200 OK.*"content":"\u{FFFD}"',
            send(http(POST, (BODY:gsub("hi", "\xff")), CLOSE .. "X-A: \xff\r\n")))
        assert.matches("^HTTP/1.1 404 .*\u{FFFD}",
            send(http("GET /v1/models/%ff HTTP/1.1", nil, CLOSE)))
    end))

    it("requests that never end",
        on_server({ header_timeout_ms = 30, body_timeout_ms = 30 }, function(send)
            local text = http(POST, BODY)
            for _, bytes in ipairs { text:sub(1, 30), text:sub(1, -5), "\n\n", "\x16\x03\x01" } do
                assert.matches("^HTTP/1.1 408 .*x%-request%-id: %x+\r\n.*\"timeout\"", send(bytes))
            end
        end))

    it("requests on open connections while it drains", on_server({}, function(send, server)
        local got
        local client = task.spawn(function()
            got = send(http(POST, (BODY:gsub("echo", "brief"))) .. http(POST, BODY, CLOSE))
        end)
        repeat task.sleep(0.001) until server.in_flight == 1
        server:drain()
        client:join()
        assert.matches('^HTTP/1.1 200 .*"done".*HTTP/1.1 503 .*"draining"', got)
        assert.matches("Retry%-After: 1", got)
    end))

    it("requests whose clients disconnect early", on_server({}, function(send, server)
        local gone = task.spawn(send, http(POST, (BODY:gsub("echo", "wait"))))
        repeat task.sleep(0.001) until server.in_flight == 1
        gone:cancel()
        local half = task.spawn(send, http(POST, BODY):sub(1, -5))
        repeat task.sleep(0.001) until server.http:stats().requests == 2
        half:cancel()
    end))
end)
